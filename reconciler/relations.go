package reconciler

import (
	"context"
	"errors"
	"iter"

	"github.com/statehive/statehive/internal/store"
	"github.com/statehive/statehive/reconciler/internal/engine"
	"github.com/statehive/statehive/statedb"
)

// Related makes rows run when something else changes than themselves. [Watches]
// and [Events] make it. Only rows that are in the table are run, whatever their
// status, and deletes that have not succeeded yet. A row that is named again and
// again before it runs is run once.
//
// The functions that name rows are called from one goroutine each while the
// reconciler runs. They read from the snapshot that they are given, and return
// soon. One that panics, or asks for an index that the table has not, is reported
// to log and health, and what it had not named is left to the next full pass.
type Related[Obj any] struct{ of engine.Related }

// Watches runs the rows that depend on a row of another table when that one
// changes in any way, is deleted, or its status changes: owners names them,
// often by listing an index of the reconciled table. When others are named than
// the last time, both run, for which the last answer is kept for each row of the
// other table.
//
// Rows that are done when the reconciler starts run once more if a row of the
// other table names them: it may have changed meanwhile.
func Watches[Obj, Child any](
	table *statedb.Table[Child], owners func(txn statedb.ReadTxn, child Child) iter.Seq[statedb.Query[Obj]],
) Related[Obj] {
	return Related[Obj]{watched(table, owners)}
}

// Events runs the rows that are named for each thing that comes from a channel.
// It is received from while the reconciler runs, and until it is closed.
func Events[Obj, Event any](
	events <-chan Event, rows func(txn statedb.ReadTxn, event Event) iter.Seq[statedb.Query[Obj]],
) Related[Obj] {
	naming := func(event Event) engine.Naming {
		return func(txn statedb.ReadTxn, yield func(store.Query) bool) { queries(rows(txn, event), yield) }
	}
	related := &engine.Events{
		Receive: func(ctx context.Context) (engine.Naming, bool) {
			select {
			case <-ctx.Done():
				return nil, false
			case event, open := <-events:
				return naming(event), open
			}
		},
		Next: func() (engine.Naming, bool) {
			select {
			case event, open := <-events:
				return naming(event), open
			default:
				return nil, true
			}
		},
	}
	switch {
	case events == nil:
		related.Err = errors.New("the channel is nil")
	case rows == nil:
		related.Err = errors.New("the function that names rows is not set")
	}
	return Related[Obj]{related}
}

// watched is a table whose rows are about rows of another one.
func watched[Obj, Child any](
	table *statedb.Table[Child], rows func(statedb.ReadTxn, Child) iter.Seq[statedb.Query[Obj]],
) *engine.Watched {
	w := &engine.Watched{Table: core(table)}
	if rows != nil {
		w.Rows = func(txn statedb.ReadTxn, e *store.Entry, yield func(store.Query) bool) {
			queries(rows(txn, rowOf[Child](e)), yield)
		}
	}
	return w
}

// core returns a table without the type of its rows; nil of nil.
func core[Obj any](table *statedb.Table[Obj]) *store.Table {
	if table == nil {
		return nil
	}
	return table.Untyped()
}

// queries yields the queries of a sequence, which may be nil.
func queries[Obj any](seq iter.Seq[statedb.Query[Obj]], yield func(store.Query) bool) {
	if seq == nil {
		return
	}
	for q := range seq {
		if !yield(q.Untyped()) {
			return
		}
	}
}

// Dependency makes rows wait for rows of another table, or of their own. [DependsOn]
// makes it.
type Dependency[Obj any] struct{ of engine.Dependency }

// DependsOn has a row updated only when all rows of a table that on names,
// by any of its indexes, are done: the table must be initialized, and a row that
// is not in it does not count, because what it stands for may be there without
// it. The row waits until one of them changes; it stands in the not-done table
// meanwhile and says for what. It is not updated again when they change later:
// for that there is [Watches]. Deletes do not wait; see [Group] for their order.
//
// A status is old news: what a row stands for may have been removed or replaced
// since it was done. With observed, which is the [Observation] of the other
// table's own reconciler, a row that differs from what is observed satisfies nobody,
// until it agrees again. Nothing is concluded from observed rows that are not known
// to be all: while their table is not initialized or a source of it is incomplete,
// the status alone decides. A row whose comparison panics is waited for.
//
// The table may be the reconciled one, as that of links, whose ports need their
// bridges. A row does not wait for itself, even if on names it. Rows that wait for
// each other are not updated until one of them changes, and their reasons name the
// cycle; to be deleted they do not wait for each other.
//
// on is called from several goroutines, also of rows that are deleted. It says
// the same of the same row each time, and returns soon. So does status; what it and
// the comparison with observed have said holds until one of the tables changes. Of a row for which it
// panics, or asks for an index that the table has not, nobody knows what it waits
// for: it waits, and so it does once the table is dropped. status may be called
// from several goroutines too.
func DependsOn[Obj, Dep any](
	table *statedb.Table[Dep], status func(Dep) Status, on func(Obj) iter.Seq[statedb.Query[Dep]],
	observed ...Observation[Dep],
) Dependency[Obj] {
	d := engine.Dependency{Table: core(table)}
	if status != nil {
		d.Status = func(e *store.Entry) Status { return status(rowOf[Dep](e)) }
	}
	if on != nil {
		d.On = func(e *store.Entry, yield func(store.Query) bool) { queries(on(rowOf[Obj](e)), yield) }
	}
	for _, o := range observed {
		if o.of != nil { // the zero value compares with nothing
			d.Observed = append(d.Observed, o.of)
		}
	}
	return Dependency[Obj]{d}
}

// Observation compares rows with a table of what was observed. [Observes] makes
// it; the zero value compares with nothing.
type Observation[Obj any] struct{ of *engine.Observation }

// Observes compares the rows of the reconciled table with what someone else, such
// as a subscription to events of the kernel, writes into another table: at each
// change of a row of that, also when it goes, and all of them when it has become
// initialized. rows names those that an observed row tells something about;
// compare says how the outside world differs from a row, as far as the snapshot's
// observed rows tell, and nothing when they agree. A row that has become done is
// compared once as well, a while later. What is done about a difference is up to
// Config.Drift.
//
// What was observed is old news, so little is believed of it:
//
//   - Only rows that are done are compared, and not before Drift.Settle has gone by
//     since the last operation on them: news from before it still arrive.
//   - It never decides what is done: the target's Update, with the newest row, does
//     so by itself. All that old news can cause is an Update without an effect.
//   - It never makes a row done, and nothing is deleted because of it: what is
//     observed and in no row is left to the full pass.
//   - That nothing is observed says nothing while the table is not initialized or
//     one of its sources is incomplete.
//   - The full pass asks the target itself. It repairs what nobody has observed.
//
// rows and compare are called from several goroutines, and return soon. A row for
// which compare panics is not compared, which health and log report.
func Observes[Obj, Seen any](
	table *statedb.Table[Seen],
	rows func(txn statedb.ReadTxn, seen Seen) iter.Seq[statedb.Query[Obj]],
	compare func(txn statedb.ReadTxn, want Obj) []Change,
) Observation[Obj] {
	w := watched(table, rows)
	o := &engine.Observation{Table: w.Table, Rows: w.Rows}
	if compare != nil {
		o.Compare = func(txn statedb.ReadTxn, e *store.Entry) []Change { return compare(txn, rowOf[Obj](e)) }
	}
	return Observation[Obj]{o}
}
