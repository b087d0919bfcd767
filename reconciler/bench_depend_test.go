package reconciler_test

import (
	"context"
	"iter"
	"testing"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/statedb"
)

// benchNeeds is how many rows of another table the benchmarks' rows depend on, and
// benchQueries with how many queries each names one of them.
const (
	benchNeeds   = 10
	benchQueries = 25
)

// byNeed finds the rows that others depend on, by one of the keys that these ask for.
var byNeed = statedb.NewMultiIndex("need", func(r smallRow) iter.Seq[uint64] {
	return func(yield func(uint64) bool) { yield(needKey(r.id(), benchQueries/2)) }
})

func needKey(id uint64, query int) uint64 { return uint64(query)<<32 | id }

// needs yields the queries for what a row depends on: all but one find nothing.
func needs(r smallRow) iter.Seq[statedb.Query[smallRow]] {
	return func(yield func(statedb.Query[smallRow]) bool) {
		for i := range benchQueries {
			if !yield(byNeed.Query(needKey(r.id()%benchNeeds, i))) {
				return
			}
		}
	}
}

// needed is a table of rows that are done.
func (d *bed) needed() *statedb.RWTable[smallRow] {
	d.b.Helper()
	others := &bed{b: d.b, tooLate: d.tooLate, ids: sequentialIDs, db: d.db, table: d.tableWith("needed", byNeed)}
	others.start(reconciler.Params[smallRow]{})
	others.reconcile(benchNeeds, benchNeeds, 1)
	others.stop(benchNeeds, 0)
	return others.table
}

// tableWith is a table of small rows with a secondary index.
func (d *bed) tableWith(name string, index statedb.Indexer[smallRow]) *statedb.RWTable[smallRow] {
	d.b.Helper()
	schema := reconciler.Reconciled(statedb.Schema[smallRow]{Name: name, Primary: bySmallID})
	schema.Secondary = []statedb.Indexer[smallRow]{index}
	return must(statedb.NewTable(d.db, schema))
}

// seenSmall is what was observed of a small row.
type seenSmall struct{ Spec uint64 }

var bySeenID = statedb.NewIndex("id", func(s seenSmall) uint64 { return s.Spec >> wantBits })

// observedIn compares small rows with a table of what is observed of them.
func observedIn(table *statedb.RWTable[seenSmall]) reconciler.Observation[smallRow] {
	return reconciler.Observes(statedb.ReadOnly(table), func(_ statedb.ReadTxn, s seenSmall) iter.Seq[statedb.Query[smallRow]] {
		return func(yield func(statedb.Query[smallRow]) bool) { yield(bySmallID.Query(s.Spec >> wantBits)) }
	}, func(txn statedb.ReadTxn, want smallRow) []reconciler.Change {
		if s, _, found := table.Get(txn, bySeenID.Query(want.id())); !found || s.Spec != want.Spec {
			return []reconciler.Change{{Field: "spec", Is: "another", Want: "this"}}
		}
		return nil
	})
}

func (d *bed) seenTable(name string) *statedb.RWTable[seenSmall] {
	return must(statedb.NewTable(d.db, statedb.Schema[seenSmall]{Name: name, Primary: bySeenID}))
}

// see shows n rows as they are wanted.
func (d *bed) see(table *statedb.RWTable[seenSmall], ids ids, n, batch, want int) {
	for from := 0; from < n; from += batch {
		err := d.db.Update(d.b.Context(), func(txn *statedb.WriteTxn) error {
			for i := from; i < min(n, from+batch); i++ {
				if _, _, err := table.Insert(txn, seenSmall{newSmallRow(ids(i), want).Spec}); err != nil {
					return err
				}
			}
			return nil
		}, table)
		if err != nil {
			d.b.Fatal(err)
		}
	}
}

// idleBatch is an idle target that takes rows together.
type idleBatch struct{ idle[smallRow] }

func (idleBatch) UpdateBatch(_ context.Context, _ statedb.ReadTxn, rows []smallRow) []reconciler.BatchResult {
	return make([]reconciler.BatchResult, len(rows))
}

func (idleBatch) DeleteBatch(_ context.Context, _ statedb.ReadTxn, rows []smallRow) []error {
	return make([]error, len(rows))
}

// byOwnNeed finds the rows of the benchmarks' own table that others depend on: the first few.
var byOwnNeed = statedb.NewMultiIndex("own need", func(r smallRow) iter.Seq[uint64] {
	if r.id() >= benchNeeds {
		return nil
	}
	return func(yield func(uint64) bool) { yield(needKey(r.id(), benchQueries/2)) }
})

// ownNeeds is needs for rows of the same table. The first rows depend on none.
func ownNeeds(group uint64) iter.Seq[statedb.Query[smallRow]] {
	if group == benchNeeds {
		return nil
	}
	return func(yield func(statedb.Query[smallRow]) bool) {
		for i := range benchQueries {
			if !yield(byOwnNeed.Query(needKey(group, i))) {
				return
			}
		}
	}
}

// ownGroup returns which of the first rows a row depends on.
func (r smallRow) ownGroup() uint64 {
	if r.id() < benchNeeds {
		return benchNeeds // none
	}
	return r.id() % benchNeeds
}

// BenchmarkOwnDependencies writes rows that depend on one of a few of their own table, as
// routes do whose gateways are behind another route.
func BenchmarkOwnDependencies(b *testing.B) {
	for name, dependency := range map[string]func(*statedb.Table[smallRow]) reconciler.Dependency[smallRow]{
		"by-queries": func(table *statedb.Table[smallRow]) reconciler.Dependency[smallRow] {
			return reconciler.DependsOn(table, smallRow.GetStatus, func(r smallRow) iter.Seq[statedb.Query[smallRow]] { return ownNeeds(r.ownGroup()) })
		},
		"by-key": func(table *statedb.Table[smallRow]) reconciler.Dependency[smallRow] {
			return reconciler.DependsOnBy(table, smallRow.GetStatus, smallRow.ownGroup, ownNeeds)
		},
	} {
		b.Run(name, func(b *testing.B) {
			n := *benchRows
			var s spent
			for b.Loop() {
				d := newBed(b, sequentialIDs, withoutIndex)
				d.table = d.tableWith("own", byOwnNeed)
				d.start(reconciler.Params[smallRow]{
					Target: idleBatch{}, DependsOn: []reconciler.Dependency[smallRow]{dependency(statedb.ReadOnly(d.table))},
				})
				s.measure(b, n, func() { d.reconcile(n, benchBatch, 1) })
				d.stop(n, 0)
			}
			s.report(b)
		})
	}
}

// BenchmarkDependencies writes rows that depend on one of a few rows, all of which
// are done: as routes do, whose gateways are in the networks of a few addresses.
func BenchmarkDependencies(b *testing.B) {
	for name, target := range map[string]reconciler.Target[smallRow]{"one-by-one": idle[smallRow]{}, "batches": idleBatch{}} {
		for _, observed := range []string{"", "-observed"} {
			b.Run(name+observed, func(b *testing.B) {
				n := *benchRows
				var s spent
				for b.Loop() {
					d := newBed(b, sequentialIDs, withoutIndex)
					table, observation := d.needed(), reconciler.Observation[smallRow]{}
					if observed != "" {
						seen := d.seenTable("seen")
						d.see(seen, sequentialIDs, benchNeeds, benchNeeds, 1)
						observation = observedIn(seen)
					}
					d.start(reconciler.Params[smallRow]{Target: target, DependsOn: []reconciler.Dependency[smallRow]{
						reconciler.DependsOn(statedb.ReadOnly(table), smallRow.GetStatus, needs, observation),
					}})
					s.measure(b, n, func() { d.reconcile(n, benchBatch, 1) })
					d.stop(n, 0)
				}
				s.report(b)
			})
		}
	}
}
