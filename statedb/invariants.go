package statedb

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/statehive/statehive/statedb/internal/invariant"
)

// mustHold ends everything if the commit of w to next, which has not been
// published, breaks what holds of all versions. What the commit changed is always
// looked at; the whole table only now and then, or else large ones would be slow.
func (w *writer[Obj]) mustHold(next *version[Obj]) {
	err := w.violation(next)
	if err == nil && next.isDue(w.base.rev) {
		err = next.violation()
	}
	if err != nil {
		invariant.Violated(fmt.Errorf("table %s at revision %d: %w", w.table.Name(), next.rev, err))
	}
}

// isDue says whether the whole table has to be looked at, after a commit from
// revision before.
func (v *version[Obj]) isDue(before Revision) bool {
	size := v.trees[0].Len() + int(v.changes.Head()-v.changes.Base()) + v.changes.DeleteCount()
	every := Revision(1 + size/16)
	return before/every != v.rev/every
}

// violation returns what is wrong with the changes that w makes to get to next, or nil.
func (w *writer[Obj]) violation(next *version[Obj]) error {
	written, replaced := 0, make(map[*entry[Obj]]bool, len(w.log.replaced))
	for _, e := range w.log.replaced {
		if replaced[e] {
			return fmt.Errorf("%v was replaced twice", e)
		}
		replaced[e] = true
		if err := next.leads(e, false); err != nil {
			return err
		}
	}
	for i, r := range w.log.records {
		rev := w.base.rev + Revision(i) + 1
		switch {
		case r.Deleted && (!replaced[r.Row] || r.Row.rev >= rev):
			return fmt.Errorf("%v was deleted at %d", r.Row, rev)
		case r.Deleted:
			continue
		case r.Row.rev != rev:
			return fmt.Errorf("%v was recorded at %d", r.Row, rev)
		}
		written++
		if !replaced[r.Row] {
			if err := next.leads(r.Row, true); err != nil {
				return err
			}
		}
	}
	switch before, after := w.base.trees[0].Len(), next.trees[0].Len(); {
	case next.rev != w.base.rev+Revision(len(w.log.records)):
		return fmt.Errorf("%d changes lead from revision %d", len(w.log.records), w.base.rev)
	case after-before != written-len(replaced):
		return fmt.Errorf("%d rows, from %d, of which %d were replaced and %d written", after, before, len(replaced), written)
	case w.base.watch.closed():
		return fmt.Errorf("the version of revision %d was announced to have passed already", w.base.rev)
	}
	return next.sourcesViolation()
}

// leads checks that all keys of an entry lead to it, or none.
func (v *version[Obj]) leads(e *entry[Obj], toIt bool) error {
	if got, _ := v.trees[0].Get(e.Key()); (got == e) != toIt {
		return fmt.Errorf("%v is current: %t", e, !toIt)
	}
	for _, k := range v.of.newKeyMaker().append(nil, v.of.secondaries(), e) {
		if got, _ := v.trees[k.ix].Get(k.key); (got == e) != toIt {
			return fmt.Errorf("index %s: the key %q leads to %v, and not to %v", v.of.indexes[k.ix].Name(), k.key, got, e)
		}
	}
	return nil
}

// violation returns what is wrong with the table as a whole, or nil. v must be
// the newest version, and the lock publishMu held, which the window needs.
func (v *version[Obj]) violation() error {
	recent, err := v.rowsViolation()
	if err != nil {
		return err
	}
	for ix := range v.of.indexes {
		if err := v.indexViolation(ix); err != nil {
			return fmt.Errorf("index %s: %w", v.of.indexes[ix].Name(), err)
		}
	}
	if err := v.changesViolation(recent); err != nil {
		return fmt.Errorf("window: %w", err)
	}
	return v.sourcesViolation()
}

// rowsViolation looks at every row and where its keys lead. It returns how many
// rows have revisions that the window holds.
func (v *version[Obj]) rowsViolation() (recent int, err error) {
	revisions := make(map[Revision]bool, v.trees[0].Len())
	keys := make([]int, len(v.trees))
	var scratch []indexKey
	maker, secondaries := v.of.newKeyMaker(), v.of.secondaries()
	for key, e := range v.trees[0].Prefix(nil) {
		if err := v.entryViolation(key, e); err != nil {
			return 0, err
		}
		if revisions[e.rev] {
			return 0, fmt.Errorf("%v has the revision of another row", e)
		}
		revisions[e.rev] = true
		if uint64(e.rev) > v.changes.Base() {
			recent++
		}
		if err := v.leads(e, true); err != nil {
			return 0, err
		}
		keys[0]++
		scratch = distinct(maker.append(scratch[:0], secondaries, e))
		for _, k := range scratch {
			keys[k.ix]++
		}
	}
	for ix, n := range keys {
		if got := v.trees[ix].Len(); got != n {
			return 0, fmt.Errorf("index %s has %d keys, the rows have %d", v.of.indexes[ix].Name(), got, n)
		}
	}
	return recent, nil
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

// entryViolation looks at a current entry and the key that leads to it.
func (v *version[Obj]) entryViolation(key []byte, e *entry[Obj]) error {
	if e == nil {
		return fmt.Errorf("the key %q leads nowhere", key)
	}
	switch encoded := v.of.primaryKey(e.obj); {
	case !bytes.Equal(key, e.Key()) || !bytes.Equal(key, encoded):
		return fmt.Errorf("the key %q leads to %v, whose row has the key %q", key, e, encoded)
	case e.spec == 0 || e.spec > e.rev || e.rev > v.rev:
		return fmt.Errorf("%v has the spec of revision %d", e, e.spec)
	case e.dead.Load() != 0:
		return fmt.Errorf("%v is current, and dead since %d", e, e.dead.Load())
	}
	return nil
}

// indexViolation walks through an index, of which all keys that it should have
// were found.
func (v *version[Obj]) indexViolation(ix int) error {
	unique := ix > 0 && v.of.indexes[ix].isUnique()
	n := 0
	var last, lastOwn []byte
	for key, e := range v.trees[ix].Prefix(nil) {
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

// changesViolation compares the window with the rows, of which some have
// revisions that it holds.
func (v *version[Obj]) changesViolation(recent int) error {
	w := v.changes
	if w.Head() != uint64(v.rev) {
		return fmt.Errorf("its newest change is %d", w.Head())
	}
	if err := w.Violation((*entry[Obj]).revision, (*entry[Obj]).isDead); err != nil {
		return err
	}
	from := max(w.Base(), w.LostDeletes())
	for rev, r := range w.Records(from, w.Head()) {
		if r.Deleted {
			continue
		}
		if current, _ := v.trees[0].Get(r.Row.Key()); (current == r.Row) == r.Row.isDead() {
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
		if current, exists := v.trees[0].Get(e.Key()); exists && uint64(current.rev) < rev {
			return fmt.Errorf("%v was deleted at %d", current, rev)
		}
	}
	return nil
}

func (v *version[Obj]) sourcesViolation() error {
	s := v.sources
	if !slices.IsSortedFunc(s.states, func(a, b SourceState) int { return strings.Compare(a.Name, b.Name) }) {
		return fmt.Errorf("the sources are not sorted: %v", s.states)
	}
	if s.initialized() != isClosed(s.ready) {
		return fmt.Errorf("initialized: %t, announced: %t; sources: %v", s.initialized(), isClosed(s.ready), s.states)
	}
	return nil
}

func (e *entry[Obj]) revision() uint64 { return uint64(e.rev) }

func (e *entry[Obj]) isDead() bool { return e.dead.Load() != 0 }

// String names the entry in what is said of a violation.
func (e *entry[Obj]) String() string {
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
