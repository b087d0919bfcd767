package store

import (
	"bytes"
	"fmt"
	"iter"
	"slices"
	"strings"
	"unsafe"

	"github.com/statehive/statehive/internal/store/invariant"
	"github.com/statehive/statehive/internal/store/trie"
)

// checkInvariants checks the invariants for the commit of w to next, which has not been published,
// and calls invariant.Violated if one does not hold. The changes of the commit are always
// checked. The whole table is checked only occasionally, so that large tables do not become slow.
func (w *writer) checkInvariants(next *version) {
	err := w.violation(next)
	if err == nil && next.fullCheckDue(w.base.rev) {
		err = next.violation()
	}
	if err != nil {
		invariant.Violated(fmt.Errorf("table %s at revision %d: %w", w.table.name, next.rev, err))
	}
}

// fullCheckDue reports whether to check the whole table after a commit that began at revision
// before.
func (v *version) fullCheckDue(before Revision) bool {
	size := v.trees[0].Len() + int(v.window().Head()-v.window().Base()) + v.window().DeleteCount()
	every := Revision(1 + size/16)
	return before/every != v.rev/every
}

// violation returns an error if the changes from w.base to next violate an invariant.
func (w *writer) violation(next *version) error {
	written, replaced := 0, make(map[*Entry]bool, len(w.log))
	for _, c := range w.log {
		if c.was == nil {
			continue
		}
		if replaced[c.was] {
			return fmt.Errorf("%v was replaced twice", c.was)
		}
		replaced[c.was] = true
		if err := next.leads(c.was, false); err != nil {
			return err
		}
	}
	for i, c := range w.log {
		rev := w.base.rev + Revision(i) + 1
		switch {
		case c.now == nil && (c.was == nil || c.was.rev >= rev):
			return fmt.Errorf("%v was deleted at %d", c.was, rev)
		case c.now == nil:
			continue
		case c.now.rev != rev:
			return fmt.Errorf("%v was logged at %d", c.now, rev)
		}
		written++
		if !replaced[c.now] {
			if err := next.leads(c.now, true); err != nil {
				return err
			}
		}
	}
	switch before, after := w.base.trees[0].Len(), next.trees[0].Len(); {
	case next.rev != w.base.rev+Revision(len(w.log)):
		return fmt.Errorf("%d changes lead from revision %d", len(w.log), w.base.rev)
	case after-before != written-len(replaced):
		return fmt.Errorf("%d rows, from %d, of which %d were replaced and %d written", after, before, len(replaced), written)
	case w.base.watch.closed():
		return fmt.Errorf("the watch of revision %d is closed already", w.base.rev)
	}
	return next.sourcesViolation()
}

// leads checks that all keys of an entry lead to it or, if toIt is false, that none does.
func (v *version) leads(e *Entry, toIt bool) error {
	if (v.row(e.Key()) == e) != toIt {
		return fmt.Errorf("%v is current: %t", e, !toIt)
	}
	for _, k := range v.of.secondaryKeys(nil, e) {
		if got := v.entry(k.ix, k.key); (got == e) != toIt {
			return fmt.Errorf("index %s: the key %q leads to %v, and not to %v", v.of.indexes[k.ix].Name, k.key, got, e)
		}
	}
	return nil
}

// entry returns the entry that a key of an index leads to, or nil.
func (v *version) entry(ix int, key []byte) *Entry {
	return (*Entry)(trie.Entry(v.trees[ix].Get(key)))
}

// secondaryKeys appends the keys of an entry in all secondary indexes.
func (t *Table) secondaryKeys(keys []indexKey, e *Entry) []indexKey {
	var scratch Keys
	for ix := 1; ix < len(t.indexes); ix++ {
		keys = t.appendKeys(keys, ix, e, &scratch)
	}
	return keys
}

// violation returns an error if the table as a whole violates an invariant. v must be the
// newest version, and the caller must hold publishMu, which the window needs.
func (v *version) violation() error {
	recent, err := v.rowsViolation()
	if err != nil {
		return err
	}
	for ix := range v.of.indexes {
		if err := v.indexViolation(ix); err != nil {
			return fmt.Errorf("index %s: %w", v.of.indexes[ix].Name, err)
		}
	}
	if err := v.changesViolation(recent); err != nil {
		return fmt.Errorf("window: %w", err)
	}
	return v.sourcesViolation()
}

// rowsViolation checks every row and the entries that its keys lead to. It returns the number
// of rows whose revisions are in the window.
func (v *version) rowsViolation() (recent int, err error) {
	revisions := make(map[Revision]bool, v.trees[0].Len())
	keys := make([]int, len(v.trees))
	var scratch []indexKey
	for leaf := range v.leaves(0) {
		key, e := trie.Key(leaf), (*Entry)(leaf)
		if err := v.entryViolation(key, e); err != nil {
			return 0, err
		}
		if revisions[e.rev] {
			return 0, fmt.Errorf("%v has the revision of another row", e)
		}
		revisions[e.rev] = true
		if uint64(e.rev) > v.window().Base() {
			recent++
		}
		if err := v.leads(e, true); err != nil {
			return 0, err
		}
		keys[0]++
		scratch = distinct(v.of.secondaryKeys(scratch[:0], e))
		for _, k := range scratch {
			keys[k.ix]++
		}
	}
	for ix, n := range keys {
		if got := v.trees[ix].Len(); got != n {
			return 0, fmt.Errorf("index %s has %d keys, the rows have %d", v.of.indexes[ix].Name, got, n)
		}
	}
	return recent, nil
}

// leaves yields the leaves of an index in order.
func (v *version) leaves(ix int) iter.Seq[unsafe.Pointer] {
	return func(yield func(unsafe.Pointer) bool) {
		all := v.trees[ix].All()
		var s trie.Scan
		s.Start(&all)
		for run := s.Next(); len(run) > 0; run = s.Next() {
			for _, leaf := range run {
				if !yield(leaf) {
					return
				}
			}
		}
	}
}

func distinct(keys []indexKey) []indexKey {
	slices.SortFunc(keys, func(a, b indexKey) int {
		if a.ix != b.ix {
			return a.ix - b.ix
		}
		return bytes.Compare(a.key, b.key)
	})
	return slices.CompactFunc(keys, func(a, b indexKey) bool { return a.ix == b.ix && bytes.Equal(a.key, b.key) })
}

// entryViolation checks a current entry and the key that leads to it.
func (v *version) entryViolation(key []byte, e *Entry) error {
	switch encoded := v.of.indexes[0].Append(nil, e.Row()); {
	case !bytes.Equal(key, e.Key()) || !bytes.Equal(key, encoded):
		return fmt.Errorf("the key %q leads to %v, whose row has the key %q", key, e, encoded)
	case e.spec == 0 || e.spec > e.rev || e.rev > v.rev:
		return fmt.Errorf("%v has the spec of revision %d", e, e.spec)
	case e.dead.Load() != 0:
		return fmt.Errorf("%v is current, and dead since %d", e, e.dead.Load())
	}
	return nil
}

// indexViolation walks through an index in which all expected keys have been found.
func (v *version) indexViolation(ix int) error {
	unique := ix > 0 && v.of.indexes[ix].Unique
	n := 0
	var last, lastOwn []byte
	for leaf := range v.leaves(ix) {
		key, e := trie.Key(leaf), (*Entry)(trie.Entry(leaf))
		if n > 0 && bytes.Compare(last, key) >= 0 {
			return fmt.Errorf("the key %q comes after %q", key, last)
		}
		if own, ok := bytes.CutSuffix(key, e.Key()); !ok {
			return fmt.Errorf("the key %q leads to %v", key, e)
		} else if unique {
			if n > 0 && bytes.Equal(own, lastOwn) {
				return fmt.Errorf("%v has the unique key %q of another row", e, own)
			}
			lastOwn = own
		}
		last = key
		n++
	}
	if n != v.trees[ix].Len() {
		return fmt.Errorf("it yields %d keys, and counts %d", n, v.trees[ix].Len())
	}
	return nil
}

// changesViolation compares the window with the rows; recent is the number of rows whose
// revisions are in the window.
func (v *version) changesViolation(recent int) error {
	w := v.window()
	if w.Head() != uint64(v.rev) {
		return fmt.Errorf("its newest change is %d", w.Head())
	}
	if err := w.Violation((*Entry).revision, (*Entry).isDead); err != nil {
		return err
	}
	from := max(w.Base(), w.LostDeletes())
	for rev, r := range w.Records(from, w.Head()) {
		if r.Deleted {
			continue
		}
		if current := v.row(r.Row.Key()); (current == r.Row) == r.Row.isDead() {
			return fmt.Errorf("%v is dead: %t, and %v is current", r.Row, r.Row.isDead(), current)
		}
		if dead := Revision(r.Row.dead.Load()); dead != 0 && (dead < r.Row.rev || dead > v.rev) {
			return fmt.Errorf("%v, of %d, is dead since %d", r.Row, rev, dead)
		}
		if !r.Row.isDead() && r.Row.rev > Revision(from) {
			recent--
		}
	}
	if from == w.Base() && recent != 0 {
		return fmt.Errorf("%d rows are missing, of those newer than %d", recent, from)
	}
	for rev, e := range w.Deletes(w.LostDeletes(), w.Head()) {
		if current := v.row(e.Key()); current != nil && uint64(current.rev) < rev {
			return fmt.Errorf("%v was deleted at %d", current, rev)
		}
	}
	return nil
}

func (v *version) sourcesViolation() error {
	s := v.sources
	if !slices.IsSortedFunc(s.states, func(a, b source) int { return strings.Compare(a.Name, b.Name) }) {
		return fmt.Errorf("the sources are not sorted: %v", s.states)
	}
	if s.initialized() != isClosed(s.ready) {
		return fmt.Errorf("initialized: %t, announced: %t; sources: %v", s.initialized(), isClosed(s.ready), s.states)
	}
	return nil
}

func (e *Entry) revision() uint64 { return uint64(e.rev) }

func (e *Entry) isDead() bool { return e.dead.Load() != 0 }

// String describes the entry in messages about violations.
func (e *Entry) String() string {
	if e == nil {
		return "no row"
	}
	return fmt.Sprintf("the row %q of revision %d", e.Key(), e.rev)
}

func isClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}
