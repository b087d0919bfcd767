package statedb_test

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"testing"

	"github.com/statehive/statehive/statedb"
)

// interrupted is a table of items whose functions all call a hook first.
type interrupted struct {
	*fixture
	hook func(callback string)
}

func newInterrupted(t *testing.T) *interrupted {
	m := &interrupted{}
	called := func(callback string) {
		if m.hook != nil {
			m.hook(callback)
		}
	}
	schema := statedb.Schema[item]{
		Name:    "items",
		Primary: statedb.NewIndex("id", func(i item) string { called("primary key"); return i.ID }),
		Secondary: []statedb.Indexer[item]{
			statedb.NewIndex("group", func(i item) string { called("key"); return i.Group }),
			statedb.NewMultiIndex("tag", func(i item) iter.Seq[string] { called("keys"); return i.tags() }),
			statedb.NewIndex("number", func(i item) int { called("unique key"); return i.Number }).Unique(),
		},
		Equal: func(a, b item) bool { called("Equal"); return a == b },
		Amend: statedb.Amend[item]{
			Carry: func(from, to item) item { called("Carry"); to.Status = from.Status; return to },
			Reset: func(i item) item { called("Reset"); i.Status = 0; return i },
		},
		Defaulters: defaulters{func(_ statedb.ReadTxn, i item) (item, error) { called("defaulter"); return i, nil }},
		Validators: validators{func(statedb.ReadTxn, statedb.Proposal[item]) error { called("validator"); return nil }},
	}
	m.fixture = fixtureOf(t, schema, nil)
	m.insert(item{ID: "a", Group: "g", Number: 1, Tags: "x y"}, item{ID: "b", Group: "g", Number: 2, Tags: "x"})
	return m
}

var callbacks = []string{
	"primary key", "key", "keys", "unique key", "Equal", "Carry", "Reset", "defaulter", "validator", "fn",
}

// operations of an interrupted table; each writes something.
func (m *interrupted) operations(called func(string)) map[string]func(*statedb.WriteTxn) error {
	return map[string]func(*statedb.WriteTxn) error{
		"Insert": func(txn *statedb.WriteTxn) error {
			_, _, err := m.items.Insert(txn, item{ID: "a", Group: "h", Number: 3, Tags: "y z"})
			return err
		},
		"InsertIfAbsent": func(txn *statedb.WriteTxn) error {
			_, _, err := m.items.InsertIfAbsent(txn, item{ID: "c", Group: "g", Number: 3, Tags: "x x"})
			return err
		},
		"CompareAndSwap": func(txn *statedb.WriteTxn) error {
			_, err := m.items.CompareAndSwap(txn, m.items.Revision(txn), item{ID: "a", Group: "h", Number: 3})
			return err
		},
		"Modify": func(txn *statedb.WriteTxn) error {
			_, err := m.items.Modify(txn, byGroup.Query("g"), func(i item) item { called("fn"); i.Tags = "z"; return i })
			return err
		},
		"Amend": func(txn *statedb.WriteTxn) error {
			_, err := m.items.Amend(txn, item{ID: "a"}, m.items.Revision(txn), func(i item) item { called("fn"); i.Status++; return i })
			return err
		},
		"Delete": func(txn *statedb.WriteTxn) error {
			_, _, err := m.items.Delete(txn, item{ID: "a"})
			return err
		},
		"DeleteAll": func(txn *statedb.WriteTxn) error {
			_, err := m.items.DeleteAll(txn)
			return err
		},
	}
}

// consistent checks that all indexes have the keys of all rows, and no others.
func (m *interrupted) consistent(after string, txn statedb.ReadTxn) {
	m.t.Helper()
	m.hook = nil
	rows, tags := 0, 0
	for i := range m.items.All(txn) {
		rows++
		distinct := slices.Compact(slices.Sorted(i.tags()))
		tags += len(distinct)
		for _, q := range []statedb.Query[item]{byID.Query(i.ID), byGroup.Query(i.Group), byNumber.Query(i.Number)} {
			if !slices.Contains(ids(m.items.List(txn, q)), i.ID) {
				m.t.Errorf("%s: index %s does not have %+v", after, q.Index(), i)
			}
		}
		for _, tag := range distinct {
			if !slices.Contains(ids(m.items.List(txn, byTag.Query(tag))), i.ID) {
				m.t.Errorf("%s: tag %q does not have %+v", after, tag, i)
			}
		}
	}
	for name, want := range map[string]int{"id": rows, "group": rows, "number": rows, "tag": tags} {
		if got, err := m.items.LenOf(txn, name); got != want || err != nil {
			m.t.Errorf("%s: index %s has %d keys, expected %d (error %v)", after, name, got, want, err)
		}
	}
}

// TestAPanicInAFunctionOfTheCallerChangesNothing has every function panic at each of
// its calls. The transaction goes on and commits what was written before and after.
func TestAPanicInAFunctionOfTheCallerChangesNothing(t *testing.T) {
	for _, callback := range callbacks {
		for _, name := range []string{"Insert", "InsertIfAbsent", "CompareAndSwap", "Modify", "Amend", "Delete"} {
			for at := 1; panicsAt(t, callback, name, at); at++ {
			}
		}
	}
}

// panicsAt reports whether the callback was called so many times.
func panicsAt(t *testing.T, callback, name string, at int) (panicked bool) {
	t.Helper()
	m := newInterrupted(t)
	m.follow(0)
	where := fmt.Sprintf("panic %d of %s in %s", at, callback, name)
	m.update(func(txn *statedb.WriteTxn) error {
		before := m.items.Revision(txn)
		calls := 0
		m.hook = func(called string) {
			if called == callback {
				if calls++; calls == at {
					panic("by the test")
				}
			}
		}
		func() {
			defer func() { panicked = recover() != nil }()
			check(t, where, m.operations(m.hook)[name](txn))
		}()
		m.consistent(where, txn)
		if panicked && m.items.Revision(txn) != before {
			t.Errorf("%s: something was written", where)
		}
		_, _, err := m.items.Insert(txn, item{ID: "other", Group: "g", Number: 9, Tags: "x"})
		return err
	})
	m.consistent(where, m.db.ReadTxn())
	m.insert(item{ID: "last", Number: 10})
	m.consistent(where, m.db.ReadTxn())
	return panicked
}

// meddling is what a function could do that must not use the database.
var meddling = map[string]func(m *interrupted, txn *statedb.WriteTxn){
	"write the row": func(m *interrupted, txn *statedb.WriteTxn) {
		_, _, _ = m.items.Insert(txn, item{ID: "a", Group: "own", Number: 7, Tags: "own x"})
	},
	"write others": func(m *interrupted, txn *statedb.WriteTxn) {
		for n := range 30 {
			_, _, _ = m.items.Insert(txn, item{ID: fmt.Sprint("other-", n), Group: "g", Number: 100 + n, Tags: "x z own"})
		}
	},
	"delete all":  func(m *interrupted, txn *statedb.WriteTxn) { _, _ = m.items.DeleteAll(txn) },
	"read":        func(m *interrupted, txn *statedb.WriteTxn) { ids(m.items.List(txn, byTag.Query("x"))) },
	"commit":      func(_ *interrupted, txn *statedb.WriteTxn) { _, _ = txn.Commit() },
	"abort":       func(_ *interrupted, txn *statedb.WriteTxn) { txn.Abort() },
	"begin again": func(m *interrupted, txn *statedb.WriteTxn) { txn.Abort(); m.insert(item{ID: "new", Number: 50}) },
}

// TestFunctionsThatUseTheDatabaseBreakNothing has the functions that decide about a
// write do what they should not.
func TestFunctionsThatUseTheDatabaseBreakNothing(t *testing.T) {
	for _, callback := range []string{"Equal", "Carry", "Reset", "defaulter", "validator", "fn"} {
		for _, name := range []string{"Insert", "InsertIfAbsent", "CompareAndSwap", "Modify", "Amend"} {
			for what, meddle := range meddling {
				t.Run(fmt.Sprintf("%s in %s: %s", callback, name, what), func(t *testing.T) {
					m := newInterrupted(t)
					m.follow(0)
					txn := m.write()
					defer txn.Abort()
					_, _, err := m.items.Insert(txn, item{ID: "d", Group: "d", Number: 60})
					check(t, "insert", err)
					met := false
					m.hook = func(called string) {
						if called == callback && !met {
							met = true
							meddle(m, txn)
						}
					}
					err = m.operations(func(called string) {
						if m.hook != nil {
							m.hook(called)
						}
					})[name](txn)
					if ended := what == "commit" || what == "abort" || what == "begin again"; met && ended && err == nil {
						t.Error("the transaction has ended, and there is no error")
					}
					m.consistent("inside", txn)
					_, err = txn.Commit()
					if !errors.Is(err, statedb.ErrTxnClosed) {
						check(t, "commit", err)
					}
					m.consistent("after it", m.db.ReadTxn())
					m.insert(item{ID: "last", Number: 70})
					m.consistent("later", m.db.ReadTxn())
				})
			}
		}
	}
}
