package store

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/statehive/statehive/internal/store/invariant"
	"github.com/statehive/statehive/internal/store/trie"
	"github.com/statehive/statehive/internal/store/window"
)

// checkedTable has two rows, of which both were replaced, one that was deleted, and
// sources; somebody follows it.
func checkedTable(t *testing.T) *Table {
	t.Helper()
	table := newTestTable(t, checkedRows())
	t.Cleanup(table.Changes(0).Close)
	network := netip.MustParsePrefix("10.0.0.0/9")
	for _, step := range []func(txn *WriteTxn){
		func(txn *WriteTxn) {
			_, _ = table.RegisterSource(txn, "first")
			_, _ = table.RegisterSource(txn, "second")
		},
		inserting(t, table, checked{"a", "g", "x y x", 1, netip.MustParsePrefix("10.0.0.0/8")}, checked{"b", "g", "", 2, netip.Prefix{}}),
		inserting(t, table, checked{"a", "h", "y z", 2, network}, checked{"b", "g", "", 1, network}, checked{ID: "c"}),
		func(txn *WriteTxn) { _, _ = table.Delete(txn, unsafe.Pointer(&checked{ID: "c"})) },
	} {
		update(t, table, step)
	}
	return table
}

// copied is a version that can be broken apart from the published one.
func (v *version) copied() *version {
	return &version{of: v.of, rev: v.rev, deleted: v.deleted, changes: v.changes, sources: v.sources, trees: slices.Clone(v.trees)}
}

// edit changes one tree behind the back of the others.
func (v *version) edit(ix int, change func(x *trie.Txn)) {
	var x trie.Txn
	x.Begin(&v.trees[ix], &v.of.ids)
	change(&x)
	v.trees[ix] = x.Commit()
}

// lastKey is the last key of an index.
func (v *version) lastKey(ix int) (last []byte) {
	for leaf := range v.leaves(ix) {
		last = trie.Key(leaf)
	}
	return last
}

func (v *version) rowNamed(key string) *Entry { return v.row([]byte(key)) }

func (e *Entry) checked() *checked { return (*checked)(e.Row()) }

// corruptions are what could be wrong with a version, by what should be said of it.
var corruptions = map[string]func(v *version){
	"whose row has the key \"z\"":  func(v *version) { v.rowNamed("a").checked().ID = "z" },
	"has the spec of revision 0":   func(v *version) { v.rowNamed("a").spec = 0 },
	"has the spec of revision 100": func(v *version) { v.rowNamed("a").spec = 100 },
	"of revision 200 has the spec": func(v *version) { v.rowNamed("a").rev = 200 },
	"the revision of another row":  func(v *version) { v.rowNamed("a").rev = v.rowNamed("b").rev },
	"is current, and dead since":   func(v *version) { v.rowNamed("b").dead.Store(4) },
	"and not to the row \"a\"": func(v *version) {
		key := v.lastKey(2)
		v.edit(2, func(x *trie.Txn) { x.Insert(key, trie.NewSeparateLeaf(key, unsafe.Pointer(v.rowNamed("b")))) })
	},
	"leads to no row": func(v *version) { v.edit(2, func(x *trie.Txn) { x.Remove(v.lastKey(2)) }) },
	"index tag has 3 keys, the rows have 2": func(v *version) {
		key := []byte("surplus\x00\x00a")
		v.edit(2, func(x *trie.Txn) { x.Insert(key, trie.NewSeparateLeaf(key, unsafe.Pointer(v.rowNamed("a")))) })
	},
	"index group: the key":         func(v *version) { v.rowNamed("a").checked().Group = "other" },
	"has the unique key":           func(v *version) { v.of.indexes[4].Unique = true },
	"its newest change is 6":       func(v *version) { v.rev++ },
	"counts 5 dead rows, it has 4": func(v *version) { v.setChanges(v.changes.Bury(uint64(v.rowNamed("a").rev))) },
	"counts 4 dead rows, it has 3": func(v *version) { v.replaced().dead.Store(0) },
	"dead since 100":               func(v *version) { v.replaced().dead.Store(100) },
	"is recorded as that of 1":     func(v *version) { v.replaced().rev = 2 },
	"was deleted at 7": func(v *version) {
		v.rev++
		v.setChanges(v.changes.Append([]window.Record[Entry]{{Row: v.rowNamed("a"), Deleted: true}}, time.Now()))
	},
	"the sources are not sorted":          func(v *version) { slices.Reverse(v.sources.states) },
	"initialized: false, announced: true": func(v *version) { v.sources.ready = closedWatch },
	"initialized: true, announced: false": func(v *version) { v.sources.states = nil },
}

func (v *version) setChanges(w window.Window[Entry]) { v.changes = &w }

// replaced is a row that is in the window only.
func (v *version) replaced() *Entry {
	for _, r := range v.changes.Records(0, v.changes.Head()) {
		return r.Row
	}
	return nil
}

func TestTheCheckOfInvariantsFindsWhatIsBroken(t *testing.T) {
	for want, corrupt := range corruptions {
		t.Run(want, func(t *testing.T) {
			v := checkedTable(t).newest().copied()
			if err := v.violation(); err != nil {
				t.Fatalf("before anything is broken: %v", err)
			}
			if err := v.changesViolation(3); err == nil {
				t.Error("a row that is missing in the window was not missed")
			}
			corrupt(v)
			if err := v.violation(); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("error %v", err)
			}
		})
	}
}

// wrongSteps are what could be wrong with a commit, by what should be said of it.
var wrongSteps = map[string]func(w *writer, next *version){
	"2 changes lead from revision 6": func(_ *writer, next *version) { next.rev++ },
	"was replaced twice":             func(w *writer, _ *version) { w.log[1].was = w.log[0].was },
	"no row was deleted at 8":        func(w *writer, _ *version) { w.log[1] = change{} },
	"was logged at 7":                func(w *writer, _ *version) { slices.Reverse(w.log) },
	"is current: true":               func(w *writer, next *version) { next.trees[0] = w.base.trees[0] },
	"is current: false": func(w *writer, _ *version) {
		w.log[0], w.log[1].was = change{now: w.base.rowNamed("a")}, nil
		w.log[0].now.rev = 7
	},
	"3 rows, from 2": func(w *writer, next *version) {
		e := w.newEntry([]byte("z"), unsafe.Pointer(&checked{ID: "z"}))
		next.edit(0, func(x *trie.Txn) { x.Insert(e.Key(), unsafe.Pointer(e)) })
	},
	"index group: the key":       func(w *writer, next *version) { next.trees[1] = w.base.trees[1] },
	"index tag: the key":         func(w *writer, next *version) { next.trees[2] = w.base.trees[2] },
	"is closed already":          func(w *writer, _ *version) { w.base.watch.close() },
	"the sources are not sorted": func(_ *writer, next *version) { slices.Reverse(next.sources.states) },
}

func TestTheCheckOfInvariantsFindsAWrongCommit(t *testing.T) {
	for want, corrupt := range wrongSteps {
		t.Run(want, func(t *testing.T) {
			table := checkedTable(t)
			w := table.begin(table.db.current.Load())
			w.base = w.base.copied()
			for i, row := range []checked{{ID: "a", Group: "new", Tags: "y", Number: 2}, {ID: "b", Group: "other", Number: 1}} {
				key := []byte(row.ID)
				w.put(key, w.locate(key), w.row(key), unsafe.Pointer(&row), Revision(7+i))
			}
			next := w.base.copied()
			next.rev = w.rev
			for ix := range w.trees {
				if w.opened[ix] {
					next.trees[ix] = w.trees[ix].Commit()
				}
			}
			if err := w.violation(next); err != nil {
				t.Fatalf("before anything is broken: %v", err)
			}
			corrupt(w, next)
			if err := w.violation(next); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("error %v", err)
			}
		})
	}
}

// TestWhatHasToHoldIsCheckedAtCommit breaks a table before a commit, which only
// the builds with the check notice.
func TestWhatHasToHoldIsCheckedAtCommit(t *testing.T) {
	table := checkedTable(t)
	table.newest().rowNamed("b").spec = 0
	said := commitAndRecover(t, table, inserting(t, table, checked{ID: "d", Number: 4}))
	if invariant.Enabled != strings.Contains(said, `invariant violated: table checked at revision 7: the row "b" of revision 4 has the spec of revision 0`) {
		t.Errorf("checked: %t, the commit says %q", invariant.Enabled, said)
	}
	table.newest().rowNamed("b").spec = 4
	if said := commitAndRecover(t, table, inserting(t, table, checked{ID: "e", Number: 5})); said != "" {
		t.Errorf("mended, the next commit says %q", said)
	}
}

func commitAndRecover(t *testing.T, table *Table, write func(*WriteTxn)) (said string) {
	t.Helper()
	defer func() {
		if recovered := recover(); recovered != nil {
			said = fmt.Sprint(recovered)
		}
	}()
	update(t, table, write)
	return ""
}
