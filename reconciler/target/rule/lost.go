package rule

import (
	"context"
	"iter"
	"sync"
	"time"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/target/mirror"
	"github.com/statehive/statehive/reconciler/target/route"
	"github.com/statehive/statehive/statedb"
)

// LostRoutes are the routes of the kernel that have lost their rows, outside the table main. It is safe for concurrent use.
type LostRoutes struct {
	db     *statedb.DB
	rows   *statedb.Table[route.Route]
	kernel *statedb.Table[route.Seen]

	mu      sync.Mutex
	changes *statedb.Cursor[route.Route]
	began   time.Time                      // when the rows were initialized; zero if they are not
	start   statedb.Revision               // of the rows then
	changed map[route.Key]statedb.Revision // when rows outside the table main were changed last
	since   map[route.Key]statedb.Revision // other rows that were changed after it may be in the place of one that is lost
	kept    int                            // number of keys in since when it was tidied
}

// NewLostRoutes returns the routes of the kernel that have lost their rows. Run has to run.
func NewLostRoutes(db *statedb.DB, rows *statedb.Table[route.Route], kernel *statedb.Table[route.Seen]) *LostRoutes {
	return &LostRoutes{
		db: db, rows: rows, kernel: kernel, changes: rows.Changes(0),
		changed: map[route.Key]statedb.Revision{}, since: map[route.Key]statedb.Revision{},
	}
}

// Run notes when routes lose their rows, until ctx ends.
func (l *LostRoutes) Run(ctx context.Context) error {
	defer l.changes.Close()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-l.follow():
		}
	}
}

// follow takes the changes of the rows so far, and returns a channel that closes when there are more.
func (l *LostRoutes) follow() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	txn := l.db.ReadTxn()
	if initialized, _ := l.rows.Initialized(txn); initialized && l.began.IsZero() {
		l.began, l.start = time.Now(), l.rows.Revision(txn)
	}
	for c := range l.changes.Next(txn) {
		switch key := c.Object.Key(); {
		case c.Kind == statedb.Reset:
			clear(l.changed)
			clear(l.since)
		case key.Table == route.MainTable:
		case c.Kind == statedb.Upsert:
			l.changed[key], _ = l.rows.Spec(txn, route.ByKey.Query(key))
			delete(l.since, key)
		default:
			l.since[key] = l.lost(key)
			delete(l.changed, key)
		}
	}
	if len(l.since) > 1000+2*l.kept {
		for key := range l.since {
			if _, _, found := l.kernel.Get(txn, route.SeenByKey.Query(key)); !found {
				delete(l.since, key)
			}
		}
		l.kept = len(l.since)
	}
	return l.changes.Watch()
}

// lost returns the revision after which rows were changed that may be in the place of one that is lost now.
func (l *LostRoutes) lost(key route.Key) statedb.Revision {
	switch changed := l.changed[key]; {
	case l.began.IsZero():
		return 0
	case changed > l.start:
		return changed
	case time.Since(l.began) < reconciler.StartPeriod:
		return 0
	}
	return l.start
}

// deletedAfter makes rules stay while rows that are pending or in error name the destinations of routes in their tables, but other tables, and
// perhaps other metrics, and no row has these routes any more. As with the deletes of routes, rows count that were changed
// after those of the routes, or if these go soon after the start, any. Before the kernel's routes are known, any may be in their tables.
func (l *LostRoutes) deletedAfter() reconciler.Dependency[Rule] {
	of := func(r Rule) route.InTable {
		r = r.completed()
		return route.InTable{Family: r.Family, Table: r.Table}
	}
	return reconciler.DependsOnBy(l.rows, route.Route.GetStatus, of, func(t route.InTable) iter.Seq[statedb.Query[route.Route]] {
		return func(yield func(statedb.Query[route.Route]) bool) {
			if t.Table == 0 || t.Table == route.MainTable {
				return
			}
			l.follow()
			txn := l.db.ReadTxn()
			known := mirror.Listed(txn, l.kernel)
			for row := range l.rows.List(txn, route.ByUndone.Query(t.Family)) {
				key := row.Key()
				if key.Table == t.Table || known && !l.hasMoved(txn, key, t.Table) {
					continue
				}
				if !yield(route.ByKey.Query(key)) {
					return
				}
			}
		}
	}, route.Observed(l.kernel)).OrFailed()
}

// hasMoved reports whether the row with a key may be in the place of a route of the kernel with the same destination in a table.
func (l *LostRoutes) hasMoved(txn statedb.ReadTxn, key route.Key, from route.Table) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	changed, _ := l.rows.Spec(txn, route.ByKey.Query(key))
	first := route.Key{Destination: key.Destination, Table: from}
	for s := range l.kernel.LowerBound(txn, route.SeenByKey.Query(first)) {
		if s.Key.Destination != first.Destination || s.Key.Table != from {
			return false
		}
		_, _, stays := l.rows.Get(txn, route.ByKey.Query(s.Key))
		if since, known := l.since[s.Key]; !stays && (!known || changed > since) {
			return true
		}
	}
	return false
}
