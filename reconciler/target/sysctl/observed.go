package sysctl

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/target/internal/parallel"
	"github.com/statehive/statehive/reconciler/target/internal/procsys"
	"github.com/statehive/statehive/reconciler/target/mirror"
	"github.com/statehive/statehive/reconciler/target/steps"
	"github.com/statehive/statehive/statedb"
)

// All declared parameters are read every readInterval, or less often if that would take more
// than one part in readShare of the time, but at least every maxReadInterval: what took the time may be over.
const (
	readInterval    = 10 * time.Second
	maxReadInterval = 30 * time.Second
	readShare       = 20
)

// Seen is the value of a declared parameter.
type Seen struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	// Missing reports that the kernel does not have the parameter, for instance because its device is gone.
	Missing bool `json:"missing,omitempty"`
}

// SeenByKey is the primary index.
var SeenByKey = statedb.NewIndex("key", func(s Seen) Key { return Key(s.Name) })

// SeenSchema declares the table "observed-sysctls".
func SeenSchema() statedb.Schema[Seen] {
	return statedb.Schema[Seen]{Name: "observed-sysctls", Primary: SeenByKey}
}

// Observed compares rows with what a watcher has read.
func (*Target) Observed(seen *statedb.Table[Seen]) reconciler.Observation[Sysctl] {
	return reconciler.Observes(seen,
		func(_ statedb.ReadTxn, s Seen) iter.Seq[statedb.Query[Sysctl]] {
			return slices.Values([]statedb.Query[Sysctl]{ByKey.Query(Key(s.Name))})
		},
		func(txn statedb.ReadTxn, row Sysctl) []reconciler.Change {
			is, _, found := seen.Get(txn, SeenByKey.Query(row.Key()))
			switch {
			case !found: // not read yet
				return nil
			case is.Missing:
				return steps.Changes(steps.Field("name", "", row.Name, nil))
			}
			return steps.Changes(steps.Field("value", is.Value, words(row.Value), nil))
		})
}

// Watcher maintains a table of [Seen]. The kernel does not announce changes of parameters, so the
// watcher reads each one after a change of its row, and all of them every ten seconds, or at least every 30 seconds if there
// are tens of thousands.
type Watcher struct {
	target  *Target
	db      *statedb.DB
	sysctls *statedb.Table[Sysctl]
	seen    *statedb.RWTable[Seen]
	source  *statedb.Source
	unread  map[Key]error // of those that the kernel did not look up in time
}

// NewWatcher returns a watcher, to be run once. Nobody else may write to seen.
func (t *Target) NewWatcher(db *statedb.DB, sysctls *statedb.Table[Sysctl], seen *statedb.RWTable[Seen]) (*Watcher, error) {
	w := &Watcher{target: t, db: db, sysctls: sysctls, seen: seen, unread: map[Key]error{}}
	err := db.Update(context.Background(), func(txn *statedb.WriteTxn) (err error) {
		w.source, err = seen.RegisterSource(txn, "kernel")
		return err
	}, seen)
	return w, err
}

// Run maintains the table until ctx ends.
func (w *Watcher) Run(ctx context.Context, health reconciler.Health) error {
	cursor := w.sysctls.Changes(0)
	defer cursor.Close()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return nil
		case <-cursor.Watch():
			err = w.readChanged(ctx, cursor)
		case <-timer.C:
			began := time.Now()
			err = w.readAll(ctx)
			timer.Reset(pauseAfter(time.Since(began)))
		}
		switch {
		case err != nil && ctx.Err() == nil:
			return err
		case len(w.unread) > 0:
			health.Degraded("changes of parameters are not noticed", w.unread[slices.Min(slices.Collect(maps.Keys(w.unread)))])
		default:
			health.OK("up to date")
		}
	}
}

// pauseAfter returns the time until all are read again.
func pauseAfter(took time.Duration) time.Duration {
	return min(max(readInterval, readShare*took), maxReadInterval)
}

// readChanged reads the parameters whose rows have changed.
func (w *Watcher) readChanged(ctx context.Context, cursor *statedb.Cursor[Sysctl]) error {
	txn := w.db.ReadTxn()
	keys := map[Key]bool{}
	for change := range cursor.Next(txn) {
		if change.Kind != statedb.Reset { // rows that went unnoticed are found by readAll
			keys[change.Object.Key()] = true
		}
	}
	if err := cursor.Err(); err != nil {
		return err
	}
	return w.read(ctx, txn, keys)
}

// readAll reads all parameters. After that, the table is complete.
func (w *Watcher) readAll(ctx context.Context) error {
	txn := w.db.ReadTxn()
	keys := map[Key]bool{}
	for row := range w.sysctls.All(txn) {
		keys[row.Key()] = true
	}
	for s := range w.seen.All(txn) {
		keys[Key(s.Name)] = true
	}
	for key := range w.unread {
		keys[key] = true
	}
	if err := w.read(ctx, txn, keys); err != nil {
		return err
	}
	if initialized, _ := w.seen.Initialized(w.db.ReadTxn()); initialized {
		return nil
	}
	return w.db.Update(ctx, func(txn *statedb.WriteTxn) error { return w.source.Initialized(txn) }, w.seen)
}

// read reads parameters and updates the table. One that exists and cannot be read is not in it: the operations
// of its row report the error. One that the kernel does not look up stays in it as it is.
func (w *Watcher) read(ctx context.Context, txn statedb.ReadTxn, names map[Key]bool) error {
	keys := slices.Collect(maps.Keys(names))
	looks := make([]look, len(keys))
	parallel.Each(len(keys), func(i int) { looks[i] = w.look(txn, keys[i]) }) // so that few that take long do not keep the others waiting
	var put, gone []Seen
	for i, key := range keys {
		was, _, known := w.seen.Get(txn, SeenByKey.Query(key))
		delete(w.unread, key)
		switch l := looks[i]; {
		case l.late != nil:
			w.unread[key] = l.late
		case l.exists && (!known || was != l.is):
			put = append(put, l.is)
		case !l.exists && known:
			gone = append(gone, was)
		}
	}
	if len(put)+len(gone) == 0 {
		return nil
	}
	return w.db.Update(ctx, func(txn *statedb.WriteTxn) error { return mirror.Write(txn, w.seen, put, gone) }, w.seen)
}

// look is what was found out about a parameter.
type look struct {
	is     Seen
	exists bool  // false if it is not declared, or may not or cannot be read
	late   error // if nothing was found out, because the kernel did not look it up in time
}

// look reads a parameter if it is declared and may be read.
func (w *Watcher) look(txn statedb.ReadTxn, key Key) look {
	if _, _, declared := w.sysctls.Get(txn, ByKey.Query(key)); !declared || w.target.allow(string(key)) != nil {
		return look{}
	}
	value, err := w.target.files.Read(string(key))
	switch {
	case errors.Is(err, procsys.ErrBusy):
		return look{late: err}
	case errors.Is(err, fs.ErrNotExist):
		return look{is: Seen{Name: string(key), Missing: true}, exists: true}
	}
	return look{is: Seen{Name: string(key), Value: words(value)}, exists: err == nil}
}
