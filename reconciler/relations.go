package reconciler

import (
	"context"
	"errors"
	"iter"

	"github.com/statehive/statehive/internal/store"
	"github.com/statehive/statehive/reconciler/internal/engine"
	"github.com/statehive/statehive/reconciler/internal/hold"
	"github.com/statehive/statehive/statedb"
)

// Related makes rows run when something other than the row changes. Make it with [Watches] or
// [Events]. Rows in the table run whatever their status, and so do deletes that have not
// succeeded yet; other rows are ignored. A row that is named repeatedly before it runs, runs
// once.
//
// Each function that names rows is called from one goroutine while the reconciler runs. It must
// read only from the snapshot that it is given, and return quickly. A function that panics, or
// queries an index that the table does not have, is reported in the log and in health; the rows
// that it has failed to name run in the next full pass.
type Related[Obj any] struct{ of engine.Related }

// Watches runs the rows that depend on a row of another table when that row changes in any way,
// is deleted, or its status changes. Owners names the dependent rows, often with a query of an
// index of the reconciled table. If it names other rows than the last time, the previous ones
// run too, so the last result is kept for each row of the other table.
//
// When the reconciler starts, rows that are named by a row of the other table run once even if
// they are done: the other row may have changed in the meantime.
func Watches[Obj, Child any](
	table *statedb.Table[Child], owners func(txn statedb.ReadTxn, child Child) iter.Seq[statedb.Query[Obj]],
) Related[Obj] {
	return Related[Obj]{watched(table, owners)}
}

// WatchesBy is [Watches] for other rows of which only a part matters, such as a field that changes less often than the rest:
// dependent rows run when the part that by returns changes, when the other row is inserted or deleted, or when it names other
// rows. If the other row is deleted and soon inserted again with the same part, that may go unnoticed.
func WatchesBy[Obj, Child any, Part comparable](
	table *statedb.Table[Child], by func(child Child) Part, owners func(txn statedb.ReadTxn, child Child) iter.Seq[statedb.Query[Obj]],
) Related[Obj] {
	if by == nil {
		return Related[Obj]{&engine.Watched{Table: core(table)}} // refused like one without owners
	}
	w := watched(table, owners)
	w.By = func(e *store.Entry) any { return by(rowOf[Child](e)) }
	return Related[Obj]{w}
}

// Events runs the rows that are named for each value received from a channel. Values are
// received while the reconciler runs, until the channel is closed.
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

// watched returns a table whose rows name rows of the reconciled table.
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

// core returns the untyped table, or nil if the table is nil.
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

// Dependency makes rows wait for rows of another table, or of their own. Make it with [DependsOn].
type Dependency[Obj any] struct {
	of    engine.Dependency
	names func(obj Obj, yield func(store.Query) bool)
}

// Kept returns a copy of d for rows that the target keeps when it loses what they depend on. What they depend on can be deleted
// while it is not known which of them exist.
func (d Dependency[Obj]) Kept() Dependency[Obj] {
	d.of.Kept = true
	return d
}

// OrFailed returns a copy of d, for DeletedAfter, that also makes deletes wait for rows that are in error, but not for one with an error that
// matches [ErrApplied] if it had been so for longer than ten seconds when the delete was requested: that is not there to replace what is deleted.
func (d Dependency[Obj]) OrFailed() Dependency[Obj] {
	d.of.OrFailed = true
	return d
}

// Table returns the name of the table whose rows are waited for, or "" for the zero value.
func (d Dependency[Obj]) Table() string {
	if d.of.Table == nil {
		return ""
	}
	return d.of.Table.Name()
}

// Rows yields the primary keys, as text, of the rows of a snapshot that obj depends on. They are
// looked up in table, which is the table of the dependency or another one with the same indexes,
// such as a copy that has planned rows too.
func (d Dependency[Obj]) Rows(txn statedb.ReadTxn, table statedb.TableMeta, obj Obj) iter.Seq[string] {
	return func(yield func(string) bool) {
		if d.names == nil {
			return
		}
		in, more := table.Untyped(), true
		d.names(obj, func(q store.Query) bool {
			for e := range in.List(txn, q, nil).Entries() {
				if more = yield(in.KeyText(e)); !more {
					break
				}
			}
			return more
		})
	}
}

// Key returns a text that is equal only for objects for which [Dependency.Rows] yields the same rows.
func (d Dependency[Obj]) Key(obj Obj) string {
	var key []byte
	if d.names != nil {
		d.names(obj, func(q store.Query) bool {
			key = hold.AppendQuery(key, q)
			return true
		})
	}
	return string(key)
}

// DependsOn delays the update of a row until all rows that it depends on are done. They are the
// rows of a table that on names, with queries of any of its indexes. The table must be
// initialized. A named row that does not exist is not waited for, because the object that it
// would describe may exist without it. While a row waits, it is listed in the not-done table
// with the row that it waits for. It is not updated again when its dependencies change later;
// use [Watches] for that. Deletes do not wait for dependencies; see [Group] for their order.
//
// A status may be outdated: an object may have been removed or replaced after its row was done.
// If observed is given, which is the [Observation] of the other table's own reconciler, a row
// that has drifted does not satisfy the dependency until it agrees again. While the observed
// table is not initialized, or one of its sources is incomplete, only the status counts. A row
// whose comparison panics does not satisfy the dependency.
//
// The table may be the reconciled one, such as that of links, whose ports need their bridges. A
// row does not wait for itself, even if on names it. Rows that wait for each other are not
// updated until one of them changes, and the cycle is named in the reasons for which they wait;
// their deletes do not wait for each other.
//
// On and status are called from several goroutines, on also for deleted rows. They must return
// quickly, and the same for the same row each time: results of status and of the comparison with
// observed are kept until one of the tables changes. A row for which on panics, or queries an
// index that the table does not have, waits; so does every row once the table is dropped.
func DependsOn[Obj, Dep any](
	table *statedb.Table[Dep], status func(Dep) Status, on func(Obj) iter.Seq[statedb.Query[Dep]],
	observed ...Observation[Dep],
) Dependency[Obj] {
	var names func(Obj, func(store.Query) bool)
	if on != nil {
		names = func(obj Obj, yield func(store.Query) bool) { queries(on(obj), yield) }
	}
	return dependsOn(table, status, names, nil, observed)
}

// DependsOnBy is [DependsOn] for many rows that depend on few others and need many queries to name
// them, such as routes, whose gateways may be in networks of any length. By returns the key that
// determines the dependencies of a row, such as its gateway, and on names the dependencies for a
// key. On is called once for rows with the same key, and the result is kept as long as it is valid.
// By is called for each row, under the same conditions as the function on of DependsOn.
func DependsOnBy[Obj, Dep any, Key comparable](
	table *statedb.Table[Dep], status func(Dep) Status, by func(Obj) Key, on func(Key) iter.Seq[statedb.Query[Dep]],
	observed ...Observation[Dep],
) Dependency[Obj] {
	if by == nil || on == nil {
		return dependsOn[Obj](table, status, nil, nil, observed)
	}
	return dependsOn(table, status, func(obj Obj, yield func(store.Query) bool) { queries(on(by(obj)), yield) },
		func(e *store.Entry) any { return by(rowOf[Obj](e)) }, observed)
}

// OneOf returns a copy of d for rows that need only one of the rows that they name: the others are alternatives. Without it they
// need one for each query. It matters when named rows are deleted, because the delete is held if rows would lack what they
// need. If parts is not nil, it splits a row into parts, such as the next hops of a route, each of which needs one of the rows
// that it names.
func (d Dependency[Obj]) OneOf(parts func(Obj) iter.Seq[Obj]) Dependency[Obj] {
	if d.names == nil {
		return d
	}
	d.of.OneOf = func(e *store.Entry, yield func(engine.Queries) bool) {
		obj := rowOf[Obj](e)
		if parts == nil {
			yield(func(yield func(store.Query) bool) { d.names(obj, yield) })
			return
		}
		for part := range parts(obj) {
			if !yield(func(yield func(store.Query) bool) { d.names(part, yield) }) {
				return
			}
		}
	}
	return d
}

// Or returns a copy of d for rows that can do with what they name by another dependency, instead of what they name by d: if they are split
// into parts (see [Dependency.OneOf]), each part by itself. Both must depend on the same part of a row (see [DependsOnBy]). It matters like OneOf.
func (d Dependency[Obj]) Or(other Dependency[Obj]) Dependency[Obj] {
	d.of.Or = &other.of
	return d
}

// Serving returns a copy of d, which is a dependency on rows of type Dep, in which a row takes the place of one that is deleted only if serves
// reports true, such as an address only if its link is up (see [Dependency.OneOf]). Serves is called like the function status of [DependsOn].
func Serving[Obj, Dep any](d Dependency[Obj], serves func(txn statedb.ReadTxn, dep Dep) bool) Dependency[Obj] {
	d.of.Serves = func(txn store.ReadTxn, e *store.Entry) bool { return serves(txn, rowOf[Dep](e)) }
	return d
}

// Tolerating returns a copy of d, which is a dependency on rows of type Dep, in which updates do not wait for a row that is not done, or differs
// from the observed state, if tolerates reports true, such as an address if another one leads to the same network. It must depend
// on nothing but the row and the tables that d compares rows with, and is called like the function status of [DependsOn].
func Tolerating[Obj, Dep any](d Dependency[Obj], tolerates func(txn statedb.ReadTxn, dep Dep) bool) Dependency[Obj] {
	d.of.Tolerates = func(txn store.ReadTxn, e *store.Entry) bool { return tolerates(txn, rowOf[Dep](e)) }
	return d
}

func dependsOn[Obj, Dep any](
	table *statedb.Table[Dep], status func(Dep) Status, names func(Obj, func(store.Query) bool), by func(*store.Entry) any,
	observed []Observation[Dep],
) Dependency[Obj] {
	d := engine.Dependency{Table: core(table), By: by}
	if status != nil {
		d.Status = func(e *store.Entry) Status { return status(rowOf[Dep](e)) }
	}
	if names != nil {
		d.On = func(e *store.Entry, yield func(store.Query) bool) { names(rowOf[Obj](e), yield) }
	}
	for _, o := range observed {
		if o.of != nil { // the zero value compares with nothing
			d.Observed = append(d.Observed, o.of)
		}
	}
	return Dependency[Obj]{d, names}
}

// Observation compares rows with an observed table. Make it with [Observes]; the zero value
// compares with nothing.
type Observation[Obj any] struct{ of *engine.Observation }

// Observes detects drift: it compares the rows of the reconciled table with an observed table,
// which something else fills, such as a subscription to kernel events. Rows are compared when an
// observed row about them changes or is deleted, and once the observed table is initialized. A
// row is also compared once shortly after it has become done. Rows names the rows that an
// observed row is about. Compare returns how the actual state, according to the observed rows of
// the snapshot, differs from a row, or nothing if they agree. Config.Drift configures what
// happens then.
//
// Observations may be outdated, so they have little effect:
//
//   - Only rows that are done are compared, and only after Drift.Settle has elapsed since the
//     last operation on them, because older observations may still arrive.
//   - An observation never decides what an operation does: the target's Update does, given the
//     newest row. The worst that an outdated observation causes is an Update without effect.
//   - An observation never makes a row done, and never causes a delete: observed objects without
//     a row are left to the full pass.
//   - The absence of an observed row means nothing while the observed table is not initialized
//     or one of its sources is incomplete.
//   - The full pass asks the target itself, and so repairs drift that was not observed.
//
// Rows and compare are called from several goroutines, and must return quickly. A row for which
// compare panics is not compared, which is reported in health and in the log.
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
