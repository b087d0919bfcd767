package statedb_test

import (
	"errors"
	"testing"

	"github.com/statehive/statehive/statedb"
)

type row struct {
	ID     string
	Tag    string
	Status int
}

var (
	byID  = statedb.NewIndex("id", func(r row) string { return r.ID })
	byTag = statedb.NewIndex("tag", func(r row) string { return r.Tag })
)

func newRows(t *testing.T, db *statedb.DB) statedb.RWTable[row] {
	t.Helper()
	table, err := statedb.NewTable(db, statedb.Schema[row]{
		Name:      "rows",
		Primary:   byID,
		Secondary: []statedb.Indexer[row]{byTag},
		Amend: statedb.Amend[row]{
			Carry: func(from, to row) row { to.Status = from.Status; return to },
			Reset: func(r row) row { r.Status = 0; return r },
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func TestSpecAndStatusWritesNeverOverwriteEachOther(t *testing.T) {
	db := statedb.New()
	table := newRows(t, db)
	update := func(fn func(txn *statedb.WriteTxn) error) {
		t.Helper()
		if err := db.Update(t.Context(), fn, table); err != nil {
			t.Fatal(err)
		}
	}
	insert := func(r row) {
		t.Helper()
		update(func(txn *statedb.WriteTxn) error {
			_, _, err := table.Insert(txn, r)
			return err
		})
	}
	amend := func(rev statedb.Revision, status int) (amended bool) {
		t.Helper()
		update(func(txn *statedb.WriteTxn) (err error) {
			amended, err = table.Amend(txn, row{ID: "a"}, rev, func(r row) row { r.Status = status; return r })
			return err
		})
		return amended
	}
	get := func() (row, statedb.Revision) {
		r, rev, _ := table.Get(db.ReadTxn(), byID.Query("a"))
		return r, rev
	}

	insert(row{ID: "a", Tag: "x", Status: 7})
	r, first := get()
	if r.Status != 0 {
		t.Fatalf("a new row has status %d, want it reset", r.Status)
	}
	if !amend(first, 1) {
		t.Fatal("status write on the spec that was read was refused")
	}
	insert(row{ID: "a", Tag: "x"})
	if r, rev := get(); r.Status != 1 || rev != first+1 {
		t.Fatalf("writing the same spec again gave %+v at %d", r, rev)
	}
	insert(row{ID: "a", Tag: "y"})
	if r, _ := get(); r.Status != 0 {
		t.Fatalf("a changed spec kept status %d", r.Status)
	}
	if amend(first, 2) {
		t.Fatal("status write on an outdated spec was accepted")
	}
	_, rev := get()
	amend(rev, 3)
	update(func(txn *statedb.WriteTxn) error {
		_, err := table.CompareAndSwap(txn, rev, row{ID: "a", Tag: "z"})
		return err
	})
	err := db.Update(t.Context(), func(txn *statedb.WriteTxn) error {
		_, err := table.CompareAndSwap(txn, rev, row{ID: "a", Tag: "q"})
		return err
	}, table)
	if !errors.Is(err, statedb.ErrConflict) {
		t.Fatalf("swap on an outdated spec: %v", err)
	}
}
