package store

import (
	"fmt"
	"slices"
	"strings"
)

// SourceState is the state of one source of a table.
type SourceState struct {
	Name string
	// Initialized reports whether the first listing has been delivered.
	Initialized bool
	// Incomplete is the reason why rows that the source should deliver may be missing from
	// the table, or empty. While it is not empty, the absence of a row does not mean that
	// the row is not desired.
	Incomplete string
}

// Source is a registered source of the rows of a table. Its methods need a transaction
// on the table and take effect with its commit. They return [ErrTxnClosed],
// [ErrNotLocked], [ErrForeignTable], or [ErrNoSource] if the registration was rolled back
// or the source has ended.
type Source struct {
	table *Table
	name  string
	id    uint64
}

// Initialized marks the source as initialized: its first listing is in the table.
func (s *Source) Initialized(txn *WriteTxn) error {
	return s.update(txn, func(state *source) { state.Initialized = true })
}

// Incomplete marks the source as incomplete, with the reason.
func (s *Source) Incomplete(txn *WriteTxn, reason string) error {
	return s.update(txn, func(state *source) { state.Incomplete = reason })
}

// Complete clears the reason that Incomplete has set.
func (s *Source) Complete(txn *WriteTxn) error { return s.Incomplete(txn, "") }

// End ends the source, with the reason. It stays incomplete until a source with its name is
// registered again.
func (s *Source) End(txn *WriteTxn, reason string) error {
	return s.update(txn, func(state *source) { state.Incomplete, state.ended = reason, true })
}

func (s *Source) update(txn *WriteTxn, change func(*source)) error {
	w, err := s.table.open(txn)
	if err != nil {
		return err
	}
	i, exists := w.sources.find(s.name)
	if !exists || w.sources.states[i].id != s.id || w.sources.states[i].ended {
		return s.table.sourceError(s.name, ErrNoSource)
	}
	states := slices.Clone(w.sources.states)
	change(&states[i])
	w.setSources(states)
	return nil
}

// RegisterSource adds a source to the table, which is not initialized until the source has
// delivered its first listing. The error matches [ErrSourceExists] if there is a source
// with this name that has not ended.
func (t *Table) RegisterSource(txn *WriteTxn, name string) (*Source, error) {
	w, err := t.open(txn)
	if err != nil {
		return nil, err
	}
	fresh := source{SourceState: SourceState{Name: name}, id: t.sourceIDs.Add(1)}
	i, exists := w.sources.find(name)
	states := slices.Clone(w.sources.states)
	switch {
	case !exists:
		states = slices.Insert(states, i, fresh)
	case states[i].ended:
		states[i] = fresh
	default:
		return nil, t.sourceError(name, ErrSourceExists)
	}
	w.setSources(states)
	return &Source{table: t, name: name, id: fresh.id}, nil
}

func (t *Table) sourceError(name string, err error) error {
	return &TableError{Table: t.name, Err: fmt.Errorf("source %q: %w", name, err)}
}

func (t *Table) sourcesOf(txn ReadTxn) *sources {
	if w := txn.pending(t); w != nil {
		return w.sources
	}
	if v := t.committed(txn); v != nil {
		return v.sources
	}
	if v := t.newest(); v != nil && txn.snapshot().db == t.db {
		return &sources{ready: v.sources.ready} // the snapshot is older than the table
	}
	return &sources{}
}

// Initialized reports whether every registered source has delivered its first listing, and
// returns a channel that closes once they have: for a snapshot taken after that it reports
// true.
func (t *Table) Initialized(txn ReadTxn) (bool, <-chan struct{}) {
	s := t.sourcesOf(txn)
	return t.committed(txn) != nil && s.initialized(), s.ready
}

// Sources returns the states of the table's sources, ordered by name.
func (t *Table) Sources(txn ReadTxn) []SourceState {
	var states []SourceState
	for _, state := range t.sourcesOf(txn).states {
		states = append(states, state.SourceState)
	}
	return states
}

// sources is the immutable state of all sources of a table.
type sources struct {
	states []source      // by name
	ready  chan struct{} // closed once all are initialized
}

type source struct {
	SourceState
	ended bool
	id    uint64 // of the registration
}

var noSources = &sources{ready: closedWatch}

func (s *sources) find(name string) (int, bool) {
	return slices.BinarySearchFunc(s.states, name, func(state source, name string) int {
		return strings.Compare(state.Name, name)
	})
}

func (s *sources) initialized() bool {
	return !slices.ContainsFunc(s.states, func(state source) bool { return !state.Initialized })
}

// setSources keeps the same channel for as long as the table waits for a source, whatever
// the transaction does in between: somebody may be waiting on it.
func (w *writer) setSources(states []source) {
	w.sources = &sources{states: states}
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

// announceSources wakes goroutines that wait for an initialization that the commit
// completes.
func (w *writer) announceSources() {
	if !w.sources.initialized() {
		return
	}
	if !w.base.sources.initialized() {
		close(w.base.sources.ready)
	}
	w.closeWaiting()
}

// closeWaiting wakes goroutines that wait for a source known only to this transaction:
// without it the table is initialized.
func (w *writer) closeWaiting() {
	if w.waiting != nil {
		close(w.waiting)
	}
}
