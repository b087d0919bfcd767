package reconciler_test

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/statedb"
)

// ownRows is how many rows there may be in a table whose rows depend on each other.
const ownRows = 6

func ownID(i int) string { return fmt.Sprint("n", i) }

// named returns the ids of the rows that a row depends on: n0 if the lowest bit of Want
// is set, and so on.
func named(r row) []string { return idsIn(r.Want) }

func idsIn(bits int) (ids []string) {
	for i := range ownRows {
		if bits&(1<<i) != 0 {
			ids = append(ids, ownID(i))
		}
	}
	return ids
}

func bits(numbers ...int) (bits int) {
	for _, n := range numbers {
		bits |= 1 << n
	}
	return bits
}

// own runs a test with a table whose rows depend on each other as [named] says. No
// operation may begin out of order: an update before those that it depends on are done,
// and a delete before that of a row that depends on it.
func own(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	ownWith(t, dependsOnNamed, test)
}

// dependsOnNamed and dependsOnNamedBy have rows depend on those of a table that are named.
func dependsOnNamed(table *statedb.Table[row]) reconciler.Dependency[row] {
	return reconciler.DependsOn(table, row.GetStatus, func(r row) iter.Seq[statedb.Query[row]] { return byIDs(named(r)...) })
}

func dependsOnNamedBy(table *statedb.Table[row]) reconciler.Dependency[row] {
	return reconciler.DependsOnBy(table, row.GetStatus, func(r row) int { return r.Want },
		func(want int) iter.Seq[statedb.Query[row]] { return byIDs(idsIn(want)...) })
}

func ownWith(t *testing.T, depends func(*statedb.Table[row]) reconciler.Dependency[row], test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.config.Workers = 3
		w.params = func(p *reconciler.Params[row]) {
			p.DependsOn = []reconciler.Dependency[row]{depends(statedb.ReadOnly(w.rows()))}
		}
		promise := w.target.promise
		w.target.promise = func(c call, txn statedb.ReadTxn, r row) string {
			if fault := promise(c, txn, r); fault != "" || c.op != "update" {
				return fault
			}
			for _, id := range named(r) {
				other, _, there := w.table.Get(txn, byID.Query(id))
				if there && id != r.ID && other.Status.Kind() != reconciler.Done {
					return "before " + id
				}
			}
			return ""
		}
		w.start()
		test(t, w)
		w.stop()
		w.wantKnownMoves()
		if len(w.target.faults) > 0 {
			t.Errorf("promises broken: %q", w.target.faults)
		}
	})
}

func (w *world) writeAll(rows ...row) {
	w.t.Helper()
	w.check(w.db.Update(w.t.Context(), func(txn *statedb.WriteTxn) error {
		for _, r := range rows {
			var err error
			if r.Want < 0 {
				_, _, err = w.table.Delete(txn, r)
			} else {
				_, _, err = w.table.Insert(txn, r)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}, w.table))
}

// waitsFor returns what the not-done table says that a row waits for.
func (w *world) waitsFor(id string) string {
	n, _, _ := w.notDone.Get(w.db.ReadTxn(), reconciler.NotDoneByKey.Query(reconciler.NotDoneKey{Reconciler: "rows", Key: id}))
	return n.WaitsFor
}

func operations(calls []call) (ops []string) {
	for _, c := range calls {
		ops = append(ops, c.op+" "+c.id)
	}
	return ops
}

func TestRowsOfOneTableAreMadeInOrderAndUnmadeInReverse(t *testing.T) {
	own(t, func(t *testing.T, w *world) {
		w.target.took()
		w.writeAll(row{ID: "n0", Want: bits(1, 0)}, row{ID: "n1", Want: bits(2)}, row{ID: "n2", Want: bits(5)})
		w.pass(time.Minute)
		w.equal("operations", []string{"update n2", "update n1", "update n0"}, operations(w.target.took()))
		w.writeAll(row{ID: "n0", Want: -1}, row{ID: "n2", Want: -1}, row{ID: "n1", Want: -1})
		w.pass(time.Minute)
		w.equal("operations", []string{"delete n0", "delete n1", "delete n2"}, operations(w.target.took()))
	})
}

func TestRowThatFailsHoldsThoseOfItsTableThatDependOnIt(t *testing.T) {
	own(t, func(t *testing.T, w *world) {
		w.target.will(func(_ context.Context, c call) (reconciler.Result, error) {
			if c.id == "n2" {
				return reconciler.Result{}, errBoom
			}
			return reconciler.Result{}, nil
		})
		w.writeAll(row{ID: "n0", Want: bits(1)}, row{ID: "n1", Want: bits(2)}, row{ID: "n2"}, row{ID: "n3"})
		w.pass(10 * time.Second)
		w.equal("n0 waits for", "dependency: rows n1, which is pending", w.waitsFor("n0"))
		w.equal("n1 waits for", "dependency: rows n2, which is in error: boom", w.waitsFor("n1"))
		w.target.will(nil)
		w.pass(time.Hour)
		w.wantConverged()
	})
}

func TestRowsThatWaitForEachOtherSaySo(t *testing.T) {
	own(t, func(t *testing.T, w *world) {
		w.writeAll(row{ID: "n0", Want: bits(1)}, row{ID: "n1", Want: bits(2)}, row{ID: "n2", Want: bits(0)}, row{ID: "n3", Want: bits(0)}, row{ID: "n4", Want: bits(4)})
		w.pass(10 * time.Second)
		cycle := ", in a cycle of rows that wait for each other: "
		for id, want := range map[string]string{
			"n0": "dependency: rows n1, which is pending" + cycle + "n0 -> n1 -> n2 -> n0",
			"n1": "dependency: rows n2, which is pending" + cycle + "n1 -> n2 -> n0 -> n1",
			"n2": "dependency: rows n0, which is pending" + cycle + "n2 -> n0 -> n1 -> n2",
			"n3": "dependency: rows n0, which is pending",
			"n4": "", // it names itself, and is done
		} {
			w.equal(id+" waits for", want, w.waitsFor(id))
		}
		w.equal("operations", []string{"update n4"}, slices.DeleteFunc(operations(w.target.took()), func(op string) bool { return !strings.HasPrefix(op, "update") }))

		w.writeAll(row{ID: "n1"})
		w.pass(10 * time.Second)
		w.wantConverged()
		w.equal("operations", []string{"update n1", "update n0"}, operations(w.target.took())[:2])
	})
}

// TestRowDoesNotSpeakOfACycleThatAnotherOneHasLeft has a row of a cycle wait for another row than
// before, as soon as it is to say that it is in the cycle.
func TestRowDoesNotSpeakOfACycleThatAnotherOneHasLeft(t *testing.T) {
	own(t, func(t *testing.T, w *world) {
		w.target.will(func(_ context.Context, c call) (reconciler.Result, error) {
			if c.id == "n3" {
				return reconciler.Result{}, errBoom
			}
			return reconciler.Result{}, nil
		})
		w.writeAll(row{ID: "n0"}, row{ID: "n1", Want: bits(0, 3)}, row{ID: "n3"}, row{ID: "n4", Want: bits(1)})
		w.pass(10 * time.Second)
		w.equal("n1 waits for", "dependency: rows n3, which is in error: boom", w.waitsFor("n1"))
		w.writeAll(row{ID: "n0", Want: bits(4)}, row{ID: "n3", Want: bits(0)})
		w.pass(10 * time.Second)
		w.equal("n1 waits for", "dependency: rows n0, which is pending, in a cycle of rows that wait for each other: n1 -> n0 -> n4 -> n1", w.waitsFor("n1"))
		w.equal("n3 waits for", "dependency: rows n0, which is pending", w.waitsFor("n3"))
	})
}

// TestDeletesOfACycleWaitForNobody has rows that depend on each other only since they were done.
func TestDeletesOfACycleWaitForNobody(t *testing.T) {
	own(t, func(t *testing.T, w *world) {
		w.writeAll(row{ID: "n0"}, row{ID: "n1"})
		w.pass(time.Second)
		w.writeAll(row{ID: "n0", Want: bits(1)}, row{ID: "n1", Want: bits(0)})
		w.pass(time.Second)
		w.writeAll(row{ID: "n0", Want: -1}, row{ID: "n1", Want: -1})
		w.pass(time.Second)
		w.wantConverged()
	})
}

// TestRowsOfOneTableSettleWhateverTheOrder has rows change, go and fail. In the end rows are done,
// unless they name one that is not, and at last one of a cycle.
func TestRowsOfOneTableSettleWhateverTheOrder(t *testing.T) {
	cycles := 0
	for seed := range uint64(200) {
		depends := dependsOnNamed
		if seed%2 == 0 {
			depends = dependsOnNamedBy
		}
		ownWith(t, depends, func(t *testing.T, w *world) {
			random, chance := rand.New(rand.NewPCG(seed, 5)), newChance(seed)
			w.target.will(func(_ context.Context, c call) (reconciler.Result, error) {
				take(time.Duration(chance.n(5)) * time.Millisecond)
				if chance.n(10) == 0 {
					return reconciler.Result{}, errBoom
				}
				return reconciler.Result{}, nil
			})
			for range 40 {
				var rows []row
				for range 1 + random.IntN(3) {
					r := row{ID: ownID(random.IntN(ownRows)), Want: -1}
					if random.IntN(4) > 0 {
						r.Want = bits(random.IntN(ownRows), random.IntN(ownRows), ownRows+random.IntN(2))
					}
					rows = append(rows, r)
				}
				w.writeAll(rows...)
				w.pass(time.Duration(random.IntN(15)) * time.Millisecond)
			}
			w.target.will(nil)
			w.pass(time.Hour)
			cycles += w.wantOrder()
			for i := range ownRows { // and all of them go
				w.writeAll(row{ID: ownID(i), Want: -1})
			}
			w.pass(time.Minute)
			w.wantConverged()
			if t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		})
	}
	if cycles == 0 || cycles == 200*ownRows {
		t.Errorf("%d rows were in a cycle", cycles)
	}
}

// wantOrder checks that those rows are done that can be, and what the others say. It returns how
// many say that they are in a cycle.
func (w *world) wantOrder() (cycles int) {
	w.t.Helper()
	rows, done := map[string]row{}, map[string]bool{}
	for r := range w.table.All(w.db.ReadTxn()) {
		rows[r.ID], done[r.ID] = r, r.Status.Kind() == reconciler.Done
	}
	missing := func(r row) (ids []string) {
		for _, id := range named(r) {
			if _, there := rows[id]; there && id != r.ID && !done[id] {
				ids = append(ids, id)
			}
		}
		return ids
	}
	waits, inCycle := map[string]string{}, map[string]bool{}
	for id, r := range rows {
		text := w.waitsFor(id)
		if done[id] {
			w.equal(id+" waits for", "", text)
			continue
		}
		what, cycle, said := strings.Cut(text, ", in a cycle of rows that wait for each other: ")
		waits[id], _, _ = strings.Cut(strings.TrimPrefix(what, "dependency: rows "), ",")
		if !slices.Contains(missing(r), waits[id]) {
			w.t.Errorf("%s says that it waits for %q, and may wait for %q", id, text, missing(r))
		}
		if said {
			cycles++
		}
		if inCycle[id] = said; said && !w.isCycle(cycle, rows, done) {
			w.t.Errorf("%s says that it is in the cycle %s, which is none", id, cycle)
		}
	}
	for id := range waits {
		at := id
		for range ownRows {
			at = waits[at]
		}
		if !inCycle[at] {
			w.t.Errorf("%s waits for a cycle with %s, which does not say so: %q", id, at, w.waitsFor(at))
		}
	}
	return cycles
}

// isCycle reports whether each of some rows is named by the one before, and none is done.
func (w *world) isCycle(text string, rows map[string]row, done map[string]bool) bool {
	ids := strings.Split(text, " -> ")
	for i, id := range ids[1:] {
		if done[id] || !slices.Contains(named(rows[ids[i]]), id) {
			return false
		}
	}
	return len(ids) > 2 && ids[0] == ids[len(ids)-1]
}
