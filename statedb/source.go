package statedb

import (
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
// [ErrTxnClosed], [ErrNotLocked] or [ErrForeignTable].
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
	i, _ := w.sources.find(s.name)
	state := w.sources.states[i]
	change(&state)
	if state != w.sources.states[i] {
		w.setSources(slices.Replace(slices.Clone(w.sources.states), i, i+1, state))
	}
	return nil
}

func (t *table[Obj]) RegisterSource(txn *WriteTxn, name string) (*Source[Obj], error) {
	w, err := t.open(txn)
	if err != nil {
		return nil, err
	}
	i, exists := w.sources.find(name)
	if exists {
		return nil, &TableError{Table: t.Name(), Err: ErrSourceExists}
	}
	w.setSources(slices.Insert(slices.Clone(w.sources.states), i, SourceState{Name: name}))
	return &Source[Obj]{table: t, name: name}, nil
}

func (w *writer[Obj]) setSources(states []SourceState) {
	w.sources = w.sources.with(states)
	w.flipped = true
}

func (t *table[Obj]) sourcesOf(txn ReadTxn) sources {
	if w := t.writing(txn); w != nil {
		return w.sources
	}
	if v := t.committed(txn); v != nil {
		return v.sources
	}
	return sources{ready: make(chan struct{}), states: []SourceState{{}}}
}

func (t *table[Obj]) Initialized(txn ReadTxn) (bool, <-chan struct{}) {
	s := t.sourcesOf(txn)
	return s.initialized(), s.ready
}

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

func (s sources) with(states []SourceState) sources {
	next := sources{states: states, ready: s.ready}
	switch {
	case next.initialized():
		next.ready = closedWatch
	case s.initialized():
		next.ready = make(chan struct{})
	}
	return next
}

// announce wakes who waits for the initialization that next completes.
func (s sources) announce(next sources) {
	if !s.initialized() && next.initialized() {
		close(s.ready)
	}
}
