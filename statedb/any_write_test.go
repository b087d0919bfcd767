package statedb_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/statehive/statehive/statedb"
)

// writableFixture has a table of items that may be written by name.
func writableFixture(t *testing.T, change func(*statedb.Schema[item]), rows ...item) (*fixture, statedb.AnyTable) {
	t.Helper()
	schema := itemSchema("items")
	schema.WritableByName = true
	if change != nil {
		change(&schema)
	}
	f := fixtureOf(t, schema, rows)
	table, err := f.db.Table(f.db.ReadTxn(), "items")
	check(t, "table", err)
	return f, table
}

// putByName writes rows in one transaction and returns the last one, as it was written.
func (f *fixture) putByName(table statedb.AnyTable, rows ...string) (last statedb.AnyRow, err error) {
	f.t.Helper()
	err = f.db.Update(f.t.Context(), func(txn *statedb.WriteTxn) (err error) {
		for _, row := range rows {
			if last, err = table.Insert(txn, []byte(row)); err != nil {
				return err
			}
		}
		return nil
	}, table.Meta())
	return last, err
}

func (f *fixture) all() []item {
	var rows []item
	for row := range f.items.All(f.db.ReadTxn()) {
		rows = append(rows, row)
	}
	return rows
}

func TestARowIsWrittenByNameAsJSON(t *testing.T) {
	f, table := writableFixture(t, nil)
	check(t, "writable", table.Writable(f.db.ReadTxn()))
	got, err := f.putByName(table, `{"ID": "a", "Group": "g", "Number": -3, "Tags": "x"}`)
	check(t, "insert", err)
	a := item{ID: "a", Group: "g", Number: -3, Tags: "x"}
	want := statedb.AnyRow{Key: "a", Revision: 1, Object: a, Cells: []string{"a", "g", "-3", "x", "0"}}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	_, err = f.putByName(table, `{"ID": "b"}`, `{"ID": "a", "Number": 4}`)
	check(t, "replace", err)
	if diff := gocmp.Diff([]item{{ID: "a", Number: 4}, {ID: "b"}}, f.all()); diff != "" {
		t.Errorf("fields that are left out do not have their zero value: %s", diff)
	}
}

func TestOnlyADeclaredTableIsWrittenByName(t *testing.T) {
	f := newFixture(t, item{ID: "a"})
	table, err := f.db.Table(f.db.ReadTxn(), "items")
	check(t, "table", err)
	refused := func(want string) {
		t.Helper()
		err := f.try(func(txn *statedb.WriteTxn) error {
			_, insert := table.Insert(txn, []byte(`{"ID":"b"}`))
			_, swap := table.CompareAndSwap(txn, 1, []byte(`{"ID":"a","Group":"g"}`))
			_, _, remove := table.Delete(txn, "a")
			_, compare := table.CompareAndDelete(txn, 1, "a")
			for _, err := range []error{insert, swap, remove, compare} {
				wantError(t, err, statedb.ErrNotWritable)
			}
			return table.Writable(txn)
		})
		if err == nil || err.Error() != want {
			t.Errorf("error %v, expected %s", err, want)
		}
	}
	refused("table items: cannot be written by name: only the program itself writes it")
	f.register("documents")
	refused("table items: cannot be written by name: its rows come from documents")
	if diff := gocmp.Diff([]item{{ID: "a"}}, f.all()); diff != "" {
		t.Error(diff)
	}
}

func TestAWriteByNameIsAWriteLikeAnyOther(t *testing.T) {
	byTags := statedb.NewIndex("tags", func(i item) string { return i.Tags }).Unique()
	f, table := writableFixture(t, func(s *statedb.Schema[item]) {
		s.Secondary = []statedb.Indexer[item]{byTags}
		s.Defaulters = []func(statedb.ReadTxn, item) (item, error){func(_ statedb.ReadTxn, i item) (item, error) {
			if i.Group == "" {
				i.Group = "default"
			}
			i.ID = strings.ToLower(i.ID)
			return i, nil
		}}
		s.Validators = []func(statedb.ReadTxn, statedb.Proposal[item]) error{func(_ statedb.ReadTxn, p statedb.Proposal[item]) error {
			if p.Object.Number < 0 {
				return errors.New("negative")
			}
			return nil
		}}
	})
	row, err := f.putByName(table, `{"ID": "A", "Tags": "t"}`)
	check(t, "insert", err)
	if want := (item{ID: "a", Group: "default", Tags: "t"}); row.Object != want || row.Key != "a" {
		t.Errorf("wrote %+v", row)
	}
	_, err = f.putByName(table, `{"ID": "b"}`, `{"ID": "c", "Tags": "u", "Number": -1}`)
	wantError(t, err, statedb.ErrRejected)
	_, err = f.putByName(table, `{"ID": "b", "Tags": "t"}`)
	wantError(t, err, statedb.ErrNotUnique)
	if same, err := f.putByName(table, `{"ID": "a", "Tags": "t"}`); err != nil || same.Revision != 1 {
		t.Errorf("the same row again: revision %d, %v", same.Revision, err)
	}
	if n := f.items.Revision(f.db.ReadTxn()); n != 1 {
		t.Errorf("revision %d, expected 1", n)
	}
}

func TestAStatusIsNotWrittenByName(t *testing.T) {
	f, table := writableFixture(t, nil)
	row, err := f.putByName(table, `{"ID": "a", "Status": 7}`)
	check(t, "insert", err)
	if row.Object.(item).Status != 0 {
		t.Errorf("a new row has the status of the JSON: %+v", row.Object)
	}
	f.amend("a", 1, 3)
	row, err = f.putByName(table, `{"ID": "a", "Status": 7}`)
	check(t, "write of the same spec", err)
	if row.Object.(item).Status != 3 || row.Revision != 2 {
		t.Errorf("the status was not carried: %+v", row)
	}
	row, err = f.putByName(table, `{"ID": "a", "Group": "g", "Status": 7}`)
	check(t, "write of another spec", err)
	if row.Object.(item).Status != 0 {
		t.Errorf("the status was not reset: %+v", row)
	}
}

func TestRowsByNameAreComparedAndSwapped(t *testing.T) {
	f, table := writableFixture(t, nil, item{ID: "a"})
	swap := func(revision statedb.Revision, row string) (written statedb.AnyRow, err error) {
		err = f.try(func(txn *statedb.WriteTxn) error {
			written, err = table.CompareAndSwap(txn, revision, []byte(row))
			return err
		})
		return written, err
	}
	row, err := swap(1, `{"ID": "a", "Number": 1}`)
	if err != nil || row.Revision != 2 {
		t.Fatalf("%+v, %v", row, err)
	}
	_, err = swap(1, `{"ID": "a", "Number": 2}`)
	wantError(t, err, statedb.ErrConflict)
	f.amend("a", 2, 5)
	_, err = swap(2, `{"ID": "a", "Number": 3}`)
	check(t, "after a status write", err)
	_, err = swap(9, `{"ID": "b"}`)
	wantError(t, err, statedb.ErrNotFound)
}

func TestRowsAreDeletedByTheirKeyAsText(t *testing.T) {
	f, table := writableFixture(t, nil, item{ID: "a"}, item{ID: "b"}, item{ID: ""}, item{ID: "\x00/%"})
	remove := func(key string) (old statedb.AnyRow, deleted bool, err error) {
		err = f.try(func(txn *statedb.WriteTxn) error {
			old, deleted, err = table.Delete(txn, key)
			return err
		})
		return old, deleted, err
	}
	if old, deleted, err := remove("\x00/%"); !deleted || err != nil || old.Key != "\x00/%" || old.Revision != 4 {
		t.Errorf("%+v, %t, %v", old, deleted, err)
	}
	if _, deleted, err := remove(""); !deleted || err != nil {
		t.Errorf("the empty key: %t, %v", deleted, err)
	}
	if _, deleted, err := remove("c"); deleted || err != nil {
		t.Errorf("an absent key: %t, %v", deleted, err)
	}
	compare := func(revision statedb.Revision, key string) error {
		return f.try(func(txn *statedb.WriteTxn) error {
			_, err := table.CompareAndDelete(txn, revision, key)
			return err
		})
	}
	wantError(t, compare(1, "b"), statedb.ErrConflict)
	wantError(t, compare(9, "c"), statedb.ErrNotFound)
	check(t, "compare and delete", compare(2, "b"))
	if diff := gocmp.Diff([]item{{ID: "a"}}, f.all()); diff != "" {
		t.Error(diff)
	}
}

func TestWritesByNameNeedTheirTransaction(t *testing.T) {
	f, table := writableFixture(t, nil, item{ID: "a"})
	txn := f.write()
	txn.Abort()
	for _, closed := range []*statedb.WriteTxn{nil, txn} {
		_, insert := table.Insert(closed, []byte(`{"ID":"b"}`))
		_, _, remove := table.Delete(closed, "a")
		wantError(t, insert, statedb.ErrTxnClosed)
		wantError(t, remove, statedb.ErrTxnClosed)
	}
	other := newTable(t, f.db, itemSchema("others"))
	err := f.db.Update(t.Context(), func(txn *statedb.WriteTxn) error {
		_, err := table.Insert(txn, []byte(`{"ID":"b"}`))
		return err
	}, other)
	wantError(t, err, statedb.ErrNotLocked)
}

func TestAKeyThatIsNoneDeletesNothing(t *testing.T) {
	byNumber := statedb.NewIndex("number", func(i item) int { return i.Number })
	db := newDB()
	numbers := newTable(t, db, statedb.Schema[item]{Name: "items", Primary: byNumber, WritableByName: true})
	table, err := db.Table(db.ReadTxn(), "items")
	check(t, "table", err)
	err = db.Update(t.Context(), func(txn *statedb.WriteTxn) error {
		_, _, err := table.Delete(txn, "seven")
		return err
	}, numbers)
	wantError(t, err, statedb.ErrBadKey)
	if want := `table items: bad key for index "number": "seven" is not a whole number that fits int`; fmt.Sprint(err) != want {
		t.Errorf("error %v", err)
	}
}
