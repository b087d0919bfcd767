package statedb_test

import (
	"errors"
	"iter"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/statehive/statehive/statedb"
)

// byState has the keys of rows whose status is set, so that only Amend makes clashes in it.
var byState = statedb.NewMultiIndex("state", func(i item) iter.Seq[int] {
	return func(yield func(int) bool) {
		if i.Status != 0 {
			yield(i.Status)
		}
	}
})

func uniqueFixture(t *testing.T, rows ...item) *fixture {
	t.Helper()
	return fixtureOf(t, statedb.Schema[item]{
		Name: "items", Primary: byID, Amend: itemStatus,
		Secondary: []statedb.Indexer[item]{byNumber.Unique(), byTag.Unique(), byState.Unique()},
	}, rows)
}

// put inserts rows, in this order, and returns the error of the commit.
func (f *fixture) put(rows ...item) error {
	return f.try(func(txn *statedb.WriteTxn) error {
		for _, row := range rows {
			if _, _, err := f.items.Insert(txn, row); err != nil {
				return err
			}
		}
		return nil
	})
}

func (f *fixture) wantNumber(number int, id string) {
	f.t.Helper()
	row, _, _ := f.items.Get(f.db.ReadTxn(), byNumber.Query(number))
	if n := statedb.Count(f.items.List(f.db.ReadTxn(), byNumber.Query(number))); row.ID != id || n != 1 {
		f.t.Errorf("%d rows have number %d, the first is %q, expected %q", n, number, row.ID, id)
	}
}

func TestUniqueKeysMayBeSwappedAndRotated(t *testing.T) {
	f := uniqueFixture(t, item{ID: "a", Number: 1}, item{ID: "b", Number: 2}, item{ID: "c", Number: 3})
	check(t, "swap", f.put(item{ID: "a", Number: 2}, item{ID: "b", Number: 1}))
	f.wantNumber(2, "a")
	f.wantNumber(1, "b")
	check(t, "rotate", f.put(item{ID: "a", Number: 1}, item{ID: "b", Number: 3}, item{ID: "c", Number: 2}))
	f.wantNumber(1, "a")
	f.wantNumber(3, "b")
	f.wantNumber(2, "c")
	check(t, "taken over from a deleted row", f.try(func(txn *statedb.WriteTxn) error {
		if _, _, err := f.items.Insert(txn, item{ID: "d", Number: 1}); err != nil {
			return err
		}
		_, _, err := f.items.Delete(txn, item{ID: "a"})
		return err
	}))
	f.wantNumber(1, "d")
	if n, _ := f.items.LenOf(f.db.ReadTxn(), "number"); n != 3 {
		t.Errorf("%d entries for 3 rows", n)
	}
}

func TestAClashOfUniqueKeysChangesNothing(t *testing.T) {
	for name, rows := range map[string][]item{
		"with a row that was there":      {{ID: "x", Number: 9}, {ID: "c", Number: 1}},
		"inside the transaction":         {{ID: "c", Number: 7}, {ID: "d", Number: 7}},
		"of a row that was there":        {{ID: "b", Number: 1}},
		"of half a swap":                 {{ID: "a", Number: 2}},
		"of a rotation that came undone": {{ID: "a", Number: 2}, {ID: "b", Number: 1}, {ID: "a", Number: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			f := uniqueFixture(t, item{ID: "a", Number: 1}, item{ID: "b", Number: 2})
			before := f.db.ReadTxn()
			_, all := f.items.AllWatch(before)
			_, _, absent, _ := f.items.GetWatch(before, byNumber.Query(7))
			wantError(t, f.put(rows...), statedb.ErrNotUnique)
			if closed(all) || closed(absent) || f.items.Revision(f.db.ReadTxn()) != f.items.Revision(before) || f.db.ReadTxn() != before {
				t.Error("the clash has left a trace")
			}
			f.wantNumber(1, "a")
			f.wantNumber(2, "b")
			check(t, "the next transaction", f.put(item{ID: "c", Number: 7}))
		})
	}
}

func TestTheErrorOfAClashNamesIndexKeyAndRows(t *testing.T) {
	f := uniqueFixture(t, item{ID: "b", Number: -7, Tags: "x y"})
	wantClash := func(err error, want statedb.UniqueError) {
		t.Helper()
		var clash *statedb.UniqueError
		if !errors.As(err, &clash) || !errors.Is(err, statedb.ErrNotUnique) {
			t.Fatalf("error %v", err)
		}
		if diff := gocmp.Diff(want, *clash); diff != "" {
			t.Error(diff)
		}
	}
	err := f.put(item{ID: "a", Number: -7})
	wantClash(err, statedb.UniqueError{Table: "items", Index: "number", Key: "-7", Rows: [2]string{"a", "b"}})
	if want := `table items, unique index number: rows "a" and "b" share the key "-7"`; err.Error() != want {
		t.Errorf("the error is %q, expected %q", err, want)
	}
	err = f.put(item{ID: "c", Number: 1, Tags: "z y"})
	wantClash(err, statedb.UniqueError{Table: "items", Index: "tag", Key: "y", Rows: [2]string{"b", "c"}})
}

func TestARowMayHaveAUniqueKeyTwice(t *testing.T) {
	f := uniqueFixture(t, item{ID: "a", Number: 1, Tags: "x x"})
	check(t, "again", f.put(item{ID: "a", Number: 2, Tags: "x y x"}))
	wantError(t, f.put(item{ID: "b", Tags: "y"}), statedb.ErrNotUnique)
	f.remove("a")
	check(t, "after the delete", f.put(item{ID: "b", Tags: "y x"}))
}

func TestTheLosersDeleteLeavesTheWinnersKey(t *testing.T) {
	f := uniqueFixture(t, item{ID: "a", Number: 1})
	check(t, "two at a time", f.try(func(txn *statedb.WriteTxn) error {
		for _, id := range []string{"b", "0"} {
			if _, _, err := f.items.Insert(txn, item{ID: id, Number: 1}); err != nil {
				return err
			}
			if n := statedb.Count(f.items.List(txn, byNumber.Query(1))); n != 2 {
				t.Errorf("%d rows have the key inside the transaction", n)
			}
			if _, _, err := f.items.Delete(txn, item{ID: id}); err != nil {
				return err
			}
		}
		return nil
	}))
	f.wantNumber(1, "a")
}

func TestStatusWritesKeepUniqueKeysToo(t *testing.T) {
	f := uniqueFixture(t, item{ID: "a", Number: 1}, item{ID: "b", Number: 2})
	amend := func(statuses map[string]int) error {
		return f.try(func(txn *statedb.WriteTxn) error {
			for id, status := range statuses {
				_, revision := f.get(id)
				_, err := f.items.Amend(txn, item{ID: id}, revision, func(i item) item { i.Status = status; return i })
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
	check(t, "two statuses", amend(map[string]int{"a": 1, "b": 2}))
	wantError(t, amend(map[string]int{"a": 2}), statedb.ErrNotUnique)
	check(t, "swapped statuses", amend(map[string]int{"a": 2, "b": 1}))
	if row, _, _ := f.items.Get(f.db.ReadTxn(), byState.Query(1)); row.ID != "b" {
		t.Errorf("status 1 is that of %q", row.ID)
	}
}

func TestAClashInOneTableRollsBackAll(t *testing.T) {
	f := uniqueFixture(t, item{ID: "a", Number: 1})
	for _, name := range []string{"before", "zafter"} {
		other := newTable(t, f.db, itemSchema(name))
		before := f.db.ReadTxn()
		_, watch := other.AllWatch(before)
		txn, err := f.db.WriteTxn(t.Context(), other, f.items)
		check(t, "begin", err)
		_, _, err = other.Insert(txn, item{ID: "b"})
		check(t, "insert", err)
		_, err = other.RegisterSource(txn, "source")
		check(t, "register", err)
		_, waiting := other.Initialized(txn)
		_, _, err = f.items.Insert(txn, item{ID: "b", Number: 1})
		check(t, "insert", err)
		_, err = txn.Commit()
		wantError(t, err, statedb.ErrNotUnique)
		if f.db.ReadTxn() != before || closed(watch) || !closed(waiting) {
			t.Errorf("table %s: the commit has left a trace", name)
		}
		_, err = txn.Commit()
		wantError(t, err, statedb.ErrTxnClosed)
		txn.Abort() // as a deferred one would
	}
	f.insert(item{ID: "c", Number: 2})
}
