package statedb

import (
	"fmt"
	"iter"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/statehive/statehive/statedb/internal/engine"
	"github.com/statehive/statehive/statedb/internal/invariant"
	"github.com/statehive/statehive/statedb/internal/window"
)

// checked is a row of a table with all that the check of invariants looks at.
type checked struct {
	ID, Group string
	Tags      string
	Number    int
	Network   netip.Prefix
}

type corruptible = version[checked]

// checkedTable has the reference engine: in the other one an entry cannot stand at
// a key that is not its own.
func checkedTable(t *testing.T) *table[checked] {
	t.Helper()
	rw, err := NewTable(New(WithReferenceEngine()), Schema[checked]{
		Name:    "checked",
		Primary: NewIndex("id", func(c checked) string { return c.ID }),
		Secondary: []Indexer[checked]{
			NewIndex("group", func(c checked) string { return c.Group }),
			NewMultiIndex("tag", func(c checked) iter.Seq[string] { return slices.Values(strings.Fields(c.Tags)) }),
			NewIndex("number", func(c checked) int { return c.Number }).Unique(),
			NewPrefixIndex("network", func(c checked) netip.Prefix { return c.Network }),
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	made := rw.(*table[checked])
	t.Cleanup(made.Changes(0).Close)
	steps := []func(txn *WriteTxn){
		func(txn *WriteTxn) { _, _ = rw.RegisterSource(txn, "first"); _, _ = rw.RegisterSource(txn, "second") },
		insertChecked(rw, checked{"a", "g", "x y x", 1, netip.MustParsePrefix("10.0.0.0/8")}, checked{"b", "g", "", 2, netip.Prefix{}}),
		insertChecked(rw, checked{"a", "h", "y z", 2, netip.MustParsePrefix("10.0.0.0/9")}, checked{"b", "g", "", 1, netip.Prefix{}}, checked{ID: "c"}),
		func(txn *WriteTxn) { _, _, _ = rw.Delete(txn, checked{ID: "c"}) },
	}
	for _, step := range steps {
		updateChecked(t, made, step)
	}
	return made
}

func insertChecked(rw RWTable[checked], rows ...checked) func(*WriteTxn) {
	return func(txn *WriteTxn) {
		for _, row := range rows {
			_, _, _ = rw.Insert(txn, row)
		}
	}
}

func updateChecked(t *testing.T, table *table[checked], write func(txn *WriteTxn)) {
	t.Helper()
	if err := table.lock.db.Update(t.Context(), func(txn *WriteTxn) error { write(txn); return nil }, table); err != nil {
		t.Fatal(err)
	}
}

func (v *version[Obj]) row(key string) *entry[Obj] {
	e, _ := v.trees[0].Get([]byte(key))
	return e
}

// edit changes one tree behind the back of the others.
func (v *version[Obj]) edit(ix int, change func(txn engine.Txn[*entry[Obj]])) {
	txn := v.trees[ix].Txn()
	change(txn)
	v.trees[ix] = txn.Commit()
}

// lastKey is the last key of an index and where it leads.
func (v *version[Obj]) lastKey(ix int) (last []byte, leadsTo *entry[Obj]) {
	for key, e := range v.trees[ix].PrefixReverse(nil) {
		return key, e
	}
	return nil, nil
}

// corruptions are what could be wrong with a version, by what should be said of it.
var corruptions = map[string]func(v *corruptible){
	"the key \"b\" leads nowhere": func(v *corruptible) {
		v.edit(0, func(txn engine.Txn[*entry[checked]]) { txn.Insert([]byte("b"), nil) })
	},
	"whose row has the key": func(v *corruptible) {
		v.edit(0, func(txn engine.Txn[*entry[checked]]) { txn.Insert([]byte("z"), v.row("a")) })
	},
	"has the spec of revision 0":   func(v *corruptible) { v.row("a").spec = 0 },
	"has the spec of revision 100": func(v *corruptible) { v.row("a").spec = 100 },
	"of revision 200 has the spec": func(v *corruptible) { v.row("a").rev = 200 },
	"the revision of another row":  func(v *corruptible) { v.row("a").rev = v.row("b").rev },
	"is current, and dead since":   func(v *corruptible) { v.row("b").dead.Store(4) },
	"and not to the row \"a\"": func(v *corruptible) {
		v.edit(1, func(txn engine.Txn[*entry[checked]]) { key, _ := v.lastKey(1); txn.Insert(key, v.row("b")) })
	},
	"leads to no row": func(v *corruptible) {
		v.edit(2, func(txn engine.Txn[*entry[checked]]) { key, _ := v.lastKey(2); txn.Delete(key) })
	},
	"index tag has 3 keys, the rows have 2": func(v *corruptible) {
		v.edit(2, func(txn engine.Txn[*entry[checked]]) { txn.Insert([]byte("surplus\x00\x00a"), v.row("a")) })
	},
	"has the unique key": func(v *corruptible) {
		e := v.row("a")
		v.edit(3, func(txn engine.Txn[*entry[checked]]) {
			txn.Delete(v.keyIn(3, e))
			e.obj.Number = v.row("b").obj.Number
			txn.Insert(v.keyIn(3, e), e)
		})
	},
	"its newest change is 6":       func(v *corruptible) { v.rev++ },
	"counts 5 dead rows, it has 4": func(v *corruptible) { v.changes = v.changes.Bury(uint64(v.row("a").rev)) },
	"counts 4 dead rows, it has 3": func(v *corruptible) { v.replaced().dead.Store(0) },
	"dead since 100":               func(v *corruptible) { v.replaced().dead.Store(100) },
	"is recorded as that of 1":     func(v *corruptible) { v.replaced().rev = 2 },
	"was deleted at 7": func(v *corruptible) {
		v.changes = v.withChange(window.Record[entry[checked]]{Row: v.row("a"), Deleted: true})
	},
	"the sources are not sorted":          func(v *corruptible) { slices.Reverse(v.sources.states) },
	"initialized: false, announced: true": func(v *corruptible) { v.sources.ready = closedWatch },
	"initialized: true, announced: false": func(v *corruptible) { v.sources.states = nil },
}

func (v *version[Obj]) keyIn(ix int, e *entry[Obj]) []byte {
	for _, k := range v.of.newKeyMaker().append(nil, v.of.secondaries(), e) {
		if k.ix == ix {
			return k.key
		}
	}
	return nil
}

// replaced is a row that is in the window only.
func (v *version[Obj]) replaced() *entry[Obj] {
	for _, r := range v.changes.Records(0, v.changes.Head()) {
		return r.Row
	}
	return nil
}

// withChange is the window with one record more, for which the table has a
// revision but no change.
func (v *version[Obj]) withChange(r window.Record[entry[Obj]]) window.Window[entry[Obj]] {
	v.rev++
	return v.changes.Append([]window.Record[entry[Obj]]{r}, time.Now())
}

func TestTheCheckOfInvariantsFindsWhatIsBroken(t *testing.T) {
	for want, corrupt := range corruptions {
		t.Run(want, func(t *testing.T) {
			v := *checkedTable(t).newest()
			v.trees = slices.Clone(v.trees)
			if err := v.violation(); err != nil {
				t.Fatalf("before anything is broken: %v", err)
			}
			if err := v.changesViolation(3); err == nil {
				t.Error("a row that is missing in the window was not missed")
			}
			corrupt(&v)
			if err := v.violation(); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("error %v", err)
			}
		})
	}
}

// wrongSteps are what could be wrong with a commit, by what should be said of it.
var wrongSteps = map[string]func(w *writer[checked], next *version[checked]){
	"2 changes lead from revision 6": func(_ *writer[checked], next *version[checked]) { next.rev++ },
	"was replaced twice": func(w *writer[checked], _ *version[checked]) {
		w.log.replaced = append(w.log.replaced, w.log.replaced[0])
	},
	"was deleted at 8":  func(w *writer[checked], _ *version[checked]) { w.log.records[1].Deleted = true },
	"was recorded at 7": func(w *writer[checked], _ *version[checked]) { slices.Reverse(w.log.records) },
	"is current: true":  func(w *writer[checked], next *version[checked]) { next.trees[0] = w.base.trees[0] },
	"is current: false": func(w *writer[checked], _ *version[checked]) {
		w.log.replaced = w.log.replaced[:0]
		w.log.records[0].Row = w.base.row("a")
		w.log.records[0].Row.rev = 7
	},
	"3 rows, from 2": func(_ *writer[checked], next *version[checked]) {
		next.edit(0, func(txn engine.Txn[*entry[checked]]) { txn.Insert([]byte("z"), next.row("b")) })
	},
	"index group: the key":       func(w *writer[checked], next *version[checked]) { next.trees[1] = w.base.trees[1] },
	"to have passed already":     func(w *writer[checked], _ *version[checked]) { w.base.watch.close() },
	"the sources are not sorted": func(_ *writer[checked], next *version[checked]) { slices.Reverse(next.sources.states) },
}

func TestTheCheckOfInvariantsFindsAWrongCommit(t *testing.T) {
	for want, corrupt := range wrongSteps {
		t.Run(want, func(t *testing.T) {
			table := checkedTable(t)
			base := *table.newest()
			w := &writer[checked]{table: table, base: &base, trees: make([]engine.Txn[*entry[checked]], len(table.indexes)), rev: base.rev, sources: base.sources}
			w.put([]byte("a"), base.row("a"), checked{ID: "a", Group: "new", Number: 2}, 7)
			w.put([]byte("b"), base.row("b"), checked{ID: "b", Group: "other", Number: 1}, 8)
			next := &version[checked]{of: table, rev: w.rev, sources: w.sources}
			for ix, txn := range w.trees {
				tree := base.trees[ix]
				if txn != nil {
					tree = txn.Commit()
				}
				next.trees = append(next.trees, tree)
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
	table.newest().row("b").spec = 0
	said := commitAndRecover(t, table, insertChecked(table, checked{ID: "d", Number: 4}))
	if invariant.Enabled != strings.Contains(said, `invariant violated: table checked at revision 7: the row "b" of revision 4 has the spec of revision 0`) {
		t.Errorf("checked: %t, the commit says %q", invariant.Enabled, said)
	}
	table.newest().row("b").spec = 4
	if said := commitAndRecover(t, table, insertChecked(table, checked{ID: "e", Number: 5})); said != "" {
		t.Errorf("mended, the next commit says %q", said)
	}
}

func commitAndRecover(t *testing.T, table *table[checked], write func(*WriteTxn)) (said string) {
	t.Helper()
	defer func() {
		if recovered := recover(); recovered != nil {
			said = fmt.Sprint(recovered)
		}
	}()
	updateChecked(t, table, write)
	return ""
}
