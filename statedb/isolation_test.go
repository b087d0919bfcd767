package statedb_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/statehive/statehive/statedb"
)

// The isolation tests bear the names of the anomalies that must not occur. Each
// runs writers and readers in parallel; the race detector looks on.

// parallel runs readers until the writers are done.
func parallel(writers []func(), readers ...func()) {
	var writing, reading sync.WaitGroup
	done := make(chan struct{})
	for _, read := range readers {
		reading.Go(func() {
			for !closed(done) {
				read()
			}
		})
	}
	for _, write := range writers {
		writing.Go(write)
	}
	writing.Wait()
	close(done)
	reading.Wait()
}

func TestNoDirtyRead(t *testing.T) {
	f := newFixture(t, item{ID: "a"})
	f.follow(0)
	parallel([]func(){
		func() {
			for i := range 500 {
				txn, err := f.db.WriteTxn(t.Context(), f.items)
				if err != nil {
					t.Error(err)
					return
				}
				_, _, insertErr := f.items.Insert(txn, item{ID: "a", Number: -1, Tags: "dirty"}) // never committed as it is
				_, _, otherErr := f.items.Insert(txn, item{ID: fmt.Sprint("dirty", i), Tags: "dirty"})
				if i%2 == 0 {
					txn.Abort()
					continue
				}
				_, _, cleanErr := f.items.Insert(txn, item{ID: "a", Number: i})
				_, _, deleteErr := f.items.Delete(txn, item{ID: fmt.Sprint("dirty", i)})
				_, commitErr := txn.Commit()
				if err := errors.Join(insertErr, otherErr, cleanErr, deleteErr, commitErr); err != nil {
					t.Error(err)
				}
			}
		},
	}, func() {
		txn := f.db.ReadTxn()
		row, _, _ := f.items.Get(txn, byID.Query("a"))
		dirty, _ := f.items.LenOf(txn, "tag")
		if row.Number < 0 || dirty != 0 || f.items.Len(txn) != 1 {
			t.Errorf("read %+v and %d uncommitted rows", row, dirty)
		}
	})
}

func TestNoLostUpdate(t *testing.T) {
	f := newFixture(t, item{ID: "a"})
	const each = 300
	modify := func() {
		for range each {
			err := f.db.Update(t.Context(), func(txn *statedb.WriteTxn) error {
				_, err := f.items.Modify(txn, byID.Query("a"), func(i item) item { i.Number++; return i })
				return err
			}, f.items)
			if err != nil {
				t.Error(err)
			}
		}
	}
	swap := func() { // reads outside of the transaction and repeats on conflict
		for done := 0; done < each; {
			row, revision, _ := f.items.Get(f.db.ReadTxn(), byID.Query("a"))
			row.Number++
			err := f.db.Update(t.Context(), func(txn *statedb.WriteTxn) error {
				_, err := f.items.CompareAndSwap(txn, revision, row)
				return err
			}, f.items)
			switch {
			case err == nil:
				done++
			case !errors.Is(err, statedb.ErrConflict):
				t.Error(err)
				return
			}
		}
	}
	parallel([]func(){modify, swap, swap})
	if row, revision := f.get("a"); row.Number != 3*each || revision != 3*each+1 {
		t.Errorf("number %d at revision %d after %d updates", row.Number, revision, 3*each)
	}
}

func TestNoNonRepeatableRead(t *testing.T) {
	f := newFixture(t, item{ID: "a"}, item{ID: "b"})
	parallel([]func(){
		func() {
			for i := range 500 {
				f.insert(item{ID: "a", Number: i}, item{ID: "b", Number: i})
			}
		},
	}, func() {
		txn := f.db.ReadTxn()
		first, revision, _ := f.items.Get(txn, byID.Query("a"))
		other, _, _ := f.items.Get(txn, byID.Query("b"))
		again, revisionAgain, _ := f.items.Get(txn, byID.Query("a"))
		if first != again || revision != revisionAgain || first.Number != other.Number {
			t.Errorf("one snapshot read %+v, %+v and then %+v", first, other, again)
		}
	})
}

func TestNoPhantom(t *testing.T) {
	f := newFixture(t)
	parallel([]func(){
		func() {
			for i := range 300 {
				f.insert(item{ID: fmt.Sprint(i % 20), Group: "g", Tags: "x"}, item{ID: fmt.Sprint("y", i%20), Group: "g", Tags: "y"})
				f.remove(fmt.Sprint(i*7%20), fmt.Sprint("y", i*7%20))
			}
		},
	}, func() {
		txn := f.db.ReadTxn()
		first := ids(f.items.List(txn, byGroup.Query("g")))
		if again := ids(f.items.List(txn, byGroup.Query("g"))); !slices.Equal(first, again) {
			t.Errorf("one snapshot listed %v and then %v", first, again)
		}
		byTags := len(ids(f.items.List(txn, byTag.Query("x")))) + len(ids(f.items.List(txn, byTag.Query("y"))))
		if n := f.items.Len(txn); n != len(first) || n != byTags {
			t.Errorf("%d rows, %d in one index, %d in another", n, len(first), byTags)
		}
	})
}

// TestNoWriteSkew keeps an invariant over two rows: each writer may take one
// away only while it sees both.
func TestNoWriteSkew(t *testing.T) {
	for range 200 {
		f := newFixture(t, item{ID: "a"}, item{ID: "b"})
		leave := func(id string) func() {
			return func() {
				err := f.db.Update(t.Context(), func(txn *statedb.WriteTxn) error {
					if f.items.Len(txn) < 2 {
						return nil
					}
					_, _, err := f.items.Delete(txn, item{ID: id})
					return err
				}, f.items)
				if err != nil {
					t.Error(err)
				}
			}
		}
		parallel([]func(){leave("a"), leave("b")})
		if n := f.items.Len(f.db.ReadTxn()); n != 1 {
			t.Fatalf("%d rows are left, expected 1", n)
		}
	}
}

func TestReadersAreNotBlockedByAWriter(t *testing.T) {
	f := newFixture(t, item{ID: "a"})
	txn := f.write()
	defer txn.Abort()
	if _, _, err := f.items.Insert(txn, item{ID: "b"}); err != nil {
		t.Fatal(err)
	}
	if got := ids(f.items.All(f.db.ReadTxn())); !slices.Equal(got, []string{"a"}) {
		t.Errorf("read %v beside an open transaction", got)
	}
	newTable(t, f.db, itemSchema("others"))
}

func TestTablesAreCreatedUnderLoad(t *testing.T) {
	f := newFixture(t)
	create := func(prefix string) func() {
		return func() {
			for i := range 20 {
				table := newTable(t, f.db, itemSchema(fmt.Sprint(prefix, i)))
				err := f.db.Update(t.Context(), func(txn *statedb.WriteTxn) error {
					_, _, err := table.Insert(txn, item{ID: "a"})
					return err
				}, table, f.items)
				if err != nil {
					t.Error(err)
				}
			}
		}
	}
	parallel([]func(){create("x"), create("y"), func() {
		for i := range 200 {
			f.insert(item{ID: fmt.Sprint(i)})
		}
	}}, func() {
		txn := f.db.ReadTxn()
		for _, table := range f.db.Tables(txn) {
			for range table.All(txn) {
			}
		}
	})
	if n := len(f.db.Tables(f.db.ReadTxn())); n != 41 || f.items.Len(f.db.ReadTxn()) != 200 {
		t.Errorf("%d tables, %d rows", n, f.items.Len(f.db.ReadTxn()))
	}
}
