package sysctl

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"slices"
	"time"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/target/mirror"
	"github.com/statehive/statehive/reconciler/target/steps"
	"github.com/statehive/statehive/statedb"
)

// All declared parameters are read every readInterval, or less often if that would take more
// than one part in readShare of the time.
const (
	readInterval = 10 * time.Second
	readShare    = 20
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
// watcher reads each one after a change of its row, and all of them every ten seconds. If there
// are tens of thousands, it reads them less often.
type Watcher struct {
	target  *Target
	db      *statedb.DB
	sysctls *statedb.Table[Sysctl]
	seen    *statedb.RWTable[Seen]
	source  *statedb.Source
}

// NewWatcher returns a watcher, to be run once. Nobody else may write to seen.
func (t *Target) NewWatcher(db *statedb.DB, sysctls *statedb.Table[Sysctl], seen *statedb.RWTable[Seen]) (*Watcher, error) {
	w := &Watcher{target: t, db: db, sysctls: sysctls, seen: seen}
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
	for first := true; ; first = false {
		var err error
		select {
		case <-ctx.Done():
			return nil
		case <-cursor.Watch():
			err = w.readChanged(ctx, cursor)
		case <-timer.C:
			began := time.Now()
			err = w.readAll(ctx)
			timer.Reset(max(readInterval, readShare*time.Since(began)))
		}
		switch {
		case err != nil && ctx.Err() == nil:
			return err
		case first:
			health.OK("up to date")
		}
	}
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
	if err := w.read(ctx, txn, keys); err != nil {
		return err
	}
	if initialized, _ := w.seen.Initialized(w.db.ReadTxn()); initialized {
		return nil
	}
	return w.db.Update(ctx, func(txn *statedb.WriteTxn) error { return w.source.Initialized(txn) }, w.seen)
}

// read reads parameters and updates the table. One that exists and cannot be read is not in it: the operations
// of its row report the error.
func (w *Watcher) read(ctx context.Context, txn statedb.ReadTxn, keys map[Key]bool) error {
	var put, gone []Seen
	for key := range keys {
		was, _, known := w.seen.Get(txn, SeenByKey.Query(key))
		is, exists := w.look(txn, key)
		switch {
		case exists && (!known || was != is):
			put = append(put, is)
		case !exists && known:
			gone = append(gone, was)
		}
	}
	if len(put)+len(gone) == 0 {
		return nil
	}
	return w.db.Update(ctx, func(txn *statedb.WriteTxn) error { return mirror.Write(txn, w.seen, put, gone) }, w.seen)
}

// look reads a parameter if it is declared and may be read.
func (w *Watcher) look(txn statedb.ReadTxn, key Key) (is Seen, exists bool) {
	if _, _, declared := w.sysctls.Get(txn, ByKey.Query(key)); !declared || w.target.allow(string(key)) != nil {
		return Seen{}, false
	}
	value, err := w.target.files.read(string(key))
	if errors.Is(err, fs.ErrNotExist) {
		return Seen{Name: string(key), Missing: true}, true
	}
	return Seen{Name: string(key), Value: words(value)}, err == nil
}
