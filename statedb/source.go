package statedb

import (
	"fmt"
	"slices"
	"strings"
)

// SourceState is what a table knows of one of its sources.
type SourceState struct {
	Name string
	// Initialized: the first listing has been delivered.
	Initialized bool
	// Incomplete is why rows that the source should deliver may be missing from
	// the table, or empty. Until it is empty again the absence of a row does not
	// mean that it is not wanted.
	Incomplete string
}

// Source is the handle of something that feeds a table. Its methods need a
// transaction on the table, take effect with its commit, and return
// [ErrTxnClosed], [ErrNotLocked], [ErrForeignTable], or [ErrNoSource] when the
// transaction that registered the source was rolled back.
type Source[Obj any] struct {
	table *table[Obj]
	name  string
}

// Initialized says that the first listing is in the table.
func (s *Source[Obj]) Initialized(txn *WriteTxn) error {
	return s.update(txn, func(state *SourceState) { state.Initialized = true })
}

// Incomplete says that something could not be read, and why.
func (s *Source[Obj]) Incomplete(txn *WriteTxn, reason string) error {
	return s.update(txn, func(state *SourceState) { state.Incomplete = reason })
}

// Complete takes back Incomplete.
func (s *Source[Obj]) Complete(txn *WriteTxn) error { return s.Incomplete(txn, "") }

func (s *Source[Obj]) update(txn *WriteTxn, change func(*SourceState)) error {
	w, err := s.table.open(txn)
	if err != nil {
		return err
	}
	i, exists := w.sources.find(s.name)
	if !exists {
		return s.table.sourceError(s.name, ErrNoSource)
	}
	states := slices.Clone(w.sources.states)
	change(&states[i])
	w.setSources(states)
	return nil
}

func (t *table[Obj]) RegisterSource(txn *WriteTxn, name string) (*Source[Obj], error) {
	w, err := t.open(txn)
	if err != nil {
		return nil, err
	}
	i, exists := w.sources.find(name)
	if exists {
		return nil, t.sourceError(name, ErrSourceExists)
	}
	w.setSources(slices.Insert(slices.Clone(w.sources.states), i, SourceState{Name: name}))
	return &Source[Obj]{table: t, name: name}, nil
}

func (t *table[Obj]) sourceError(name string, err error) error {
	return &TableError{Table: t.Name(), Err: fmt.Errorf("source %q: %w", name, err)}
}

func (t *table[Obj]) sourcesOf(txn ReadTxn) sources {
	if w := t.writing(txn); w != nil {
		return w.sources
	}
	if v := t.committed(txn); v != nil {
		return v.sources
	}
	if v := t.newest(); v != nil && txn.snapshot().db == t.lock.db {
		return sources{ready: v.sources.ready} // for a snapshot from before the table
	}
	return sources{}
}

func (t *table[Obj]) Initialized(txn ReadTxn) (bool, <-chan struct{}) {
	s := t.sourcesOf(txn)
	return t.knownTo(txn) && s.initialized(), s.ready
}

func (t *table[Obj]) knownTo(txn ReadTxn) bool { return t.committed(txn) != nil }

func (t *table[Obj]) Sources(txn ReadTxn) []SourceState {
	return slices.Clone(t.sourcesOf(txn).states)
}

// sources is the immutable state of all sources of a table.
type sources struct {
	states []SourceState // by name
	ready  chan struct{} // closed once all are initialized
}

func noSources() sources { return sources{ready: closedWatch} }

func (s sources) find(name string) (int, bool) {
	return slices.BinarySearchFunc(s.states, name, func(state SourceState, name string) int {
		return strings.Compare(state.Name, name)
	})
}

func (s sources) initialized() bool {
	return !slices.ContainsFunc(s.states, func(state SourceState) bool { return !state.Initialized })
}

// setSources keeps one channel for as long as the table waits for a source,
// whatever the transaction does in between: somebody may hold it.
func (w *writer[Obj]) setSources(states []SourceState) {
	w.sources = sources{states: states}
	switch {
	case w.sources.initialized():
		w.sources.ready = closedWatch
	case !w.base.sources.initialized():
		w.sources.ready = w.base.sources.ready
	default:
		if w.waiting == nil {
			w.waiting = make(chan struct{})
		}
		w.sources.ready = w.waiting
	}
}

// announceSources wakes who waits for an initialization that the commit
// completes.
func (w *writer[Obj]) announceSources() {
	if !w.sources.initialized() {
		return
	}
	if !w.base.sources.initialized() {
		close(w.base.sources.ready)
	}
	w.abandonWaiting()
}

// abandonWaiting wakes who waits for a source that only the transaction knew:
// without it the table is initialized.
func (w *writer[Obj]) abandonWaiting() {
	if w.waiting != nil {
		close(w.waiting)
	}
}
