package statedb_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"weak"

	"pgregory.net/rapid"

	"github.com/statehive/statehive/statedb"
)

func TestUpdateRollsBackOnError(t *testing.T) {
	f := newFixture(t, item{ID: "a"})
	before := f.items.Revision(f.db.ReadTxn())
	_, watch := f.items.AllWatch(f.db.ReadTxn())
	broken := errors.New("broken")
	err := f.try(func(txn *statedb.WriteTxn) error {
		_, _, err := f.items.Insert(txn, item{ID: "b"})
		_, _, deleteErr := f.items.Delete(txn, item{ID: "a"})
		return errors.Join(err, deleteErr, broken)
	})
	wantError(t, err, broken)
	if got := ids(f.items.All(f.db.ReadTxn())); !slices.Equal(got, []string{"a"}) {
		t.Errorf("rows are %v after a failed update", got)
	}
	if revision := f.items.Revision(f.db.ReadTxn()); revision != before || closed(watch) {
		t.Errorf("a failed update went from revision %d to %d; watch closed: %t", before, revision, closed(watch))
	}
	f.insert(item{ID: "c"}) // the table is not locked
}

func TestUpdateRollsBackAndUnlocksOnPanic(t *testing.T) {
	f := newFixture(t)
	func() {
		defer func() {
			if recovered := recover(); recovered != "boom" {
				t.Errorf("recovered %v", recovered)
			}
		}()
		_ = f.try(func(txn *statedb.WriteTxn) error {
			_, _, _ = f.items.Insert(txn, item{ID: "a"})
			panic("boom")
		})
	}()
	if n := f.items.Len(f.db.ReadTxn()); n != 0 {
		t.Errorf("%d rows after a panic", n)
	}
	f.insert(item{ID: "b"})
}

func TestPanicOfAKeyFunctionChangesNothing(t *testing.T) {
	db := newDB()
	fragile := statedb.NewIndex("fragile", func(i item) int { return 1 / i.Number })
	table := newTable(t, db, statedb.Schema[item]{Name: "items", Primary: byID, Secondary: []statedb.Indexer[item]{byGroup, fragile}})
	txn, err := db.WriteTxn(t.Context(), table)
	if err != nil {
		t.Fatal(err)
	}
	cursor := table.Changes(0)
	defer cursor.Close()
	for _, number := range []int{1, 0, 2} { // the one in the middle panics
		func() {
			defer func() { _ = recover() }()
			_, _, _ = table.Insert(txn, item{ID: "a", Group: fmt.Sprint("g", number), Number: number})
		}()
	}
	if _, err := txn.Commit(); err != nil {
		t.Fatal(err)
	}
	if n, _ := table.LenOf(db.ReadTxn(), "group"); n != 1 || table.Revision(db.ReadTxn()) != 2 {
		t.Errorf("%d index entries at revision %d, expected 1 at 2", n, table.Revision(db.ReadTxn()))
	}
	for range cursor.Next(db.ReadTxn()) { // must not look for a record of the panic
	}
}

func TestCanceledWaiterReturnsTheContextsError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		holder := f.write()
		ctx, cancel := context.WithCancelCause(t.Context())
		waited := make(chan error, 1)
		go func() { waited <- f.db.Update(ctx, func(*statedb.WriteTxn) error { return nil }, f.items) }()
		synctest.Wait()
		cancel(errors.New("a cause"))
		err := <-waited
		wantError(t, err, context.Canceled)
		if !strings.Contains(err.Error(), "items") {
			t.Errorf("error %q does not name the table that was waited for", err)
		}
		holder.Abort()
		f.insert(item{ID: "a"}) // the waiter left no lock behind
	})
}

func TestCanceledWaiterReleasesTheLocksThatItHas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		other := newTable(t, f.db, itemSchema("others"))
		holder, err := f.db.WriteTxn(t.Context(), other)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		waited := make(chan error, 1)
		go func() {
			_, err := f.db.WriteTxn(ctx, other, f.items)
			waited <- err
		}()
		synctest.Wait()
		cancel()
		wantError(t, <-waited, context.Canceled)
		f.insert(item{ID: "a"})
		holder.Abort()
	})
}

func TestEndedContextGetsNoTransaction(t *testing.T) {
	f := newFixture(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := f.db.WriteTxn(ctx, f.items)
	wantError(t, err, context.Canceled)
}

func TestOppositeTableOrdersDoNotDeadlock(t *testing.T) {
	db := newDB()
	a, b := newTable(t, db, itemSchema("a")), newTable(t, db, itemSchema("b"))
	both := func(tables ...statedb.TableMeta) {
		for i := range 500 {
			err := db.Update(t.Context(), func(txn *statedb.WriteTxn) error {
				_, _, errA := a.Insert(txn, item{ID: fmt.Sprint(i), Number: i})
				_, _, errB := b.Insert(txn, item{ID: fmt.Sprint(i), Number: i})
				return errors.Join(errA, errB)
			}, tables...)
			if err != nil {
				t.Error(err)
			}
		}
	}
	var writers sync.WaitGroup
	writers.Go(func() { both(a, b) })
	writers.Go(func() { both(b, a) })
	writers.Go(func() { both(a, b, a) })
	writers.Wait()
}

func TestAClosedTransactionGivesOneErrorEverywhere(t *testing.T) {
	for name, end := range map[string]func(*statedb.WriteTxn){
		"commit": func(txn *statedb.WriteTxn) { _, _ = txn.Commit() },
		"abort":  (*statedb.WriteTxn).Abort,
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, item{ID: "a"})
			plain := newTable(t, f.db, statedb.Schema[item]{Name: "plain", Primary: byID})
			txn := f.write()
			source, err := f.items.RegisterSource(txn, "source")
			if err != nil {
				t.Fatal(err)
			}
			end(txn)
			for method, err := range everyWrite(f.items, txn, source) {
				if !errors.Is(err, statedb.ErrTxnClosed) {
					t.Errorf("%s: %v", method, err)
				}
			}
			for method, err := range everyWrite(plain, txn, source) { // not part of it either
				if !errors.Is(err, statedb.ErrTxnClosed) {
					t.Errorf("%s of another table: %v", method, err)
				}
			}
			_, err = txn.Commit()
			wantError(t, err, statedb.ErrTxnClosed)
			txn.Abort()
			f.insert(item{ID: "b"}) // unlocked once, and not twice
			f.write().Abort()
		})
	}
}

// everyWrite calls all methods that take a write transaction.
func everyWrite(items *statedb.RWTable[item], txn *statedb.WriteTxn, source *statedb.Source) map[string]error {
	row := item{ID: "a"}
	same := func(i item) item { return i }
	errs := map[string]error{}
	_, _, errs["Insert"] = items.Insert(txn, row)
	_, errs["Modify"] = items.Modify(txn, byID.Query("a"), same)
	_, errs["CompareAndSwap"] = items.CompareAndSwap(txn, 1, row)
	_, _, errs["Delete"] = items.Delete(txn, row)
	_, _, errs["InsertIfAbsent"] = items.InsertIfAbsent(txn, row)
	_, errs["DeleteAll"] = items.DeleteAll(txn)
	_, errs["DeletePrefix"] = items.DeletePrefix(txn, byID.Query("a"))
	_, errs["CompareAndDelete"] = items.CompareAndDelete(txn, 1, row)
	_, errs["Amend"] = items.Amend(txn, row, 1, same)
	_, errs["RegisterSource"] = items.RegisterSource(txn, "another")
	errs["Initialized"] = source.Initialized(txn)
	errs["Incomplete"] = source.Incomplete(txn, "reason")
	errs["Complete"] = source.Complete(txn)
	return errs
}

func TestATransactionWritesOnlyItsTables(t *testing.T) {
	f := newFixture(t)
	other := newTable(t, f.db, itemSchema("others"))
	err := f.try(func(txn *statedb.WriteTxn) error {
		_, _, err := other.Insert(txn, item{ID: "a"})
		return err
	})
	wantError(t, err, statedb.ErrNotLocked)
	var tableError *statedb.TableError
	if !errors.As(err, &tableError) || tableError.Table != "others" {
		t.Errorf("error %v does not carry the table", err)
	}
	_, _, err = f.items.Insert(nil, item{ID: "a"})
	wantError(t, err, statedb.ErrTxnClosed)
}

func TestATableOfAnotherDatabaseIsRefused(t *testing.T) {
	f, foreign := newFixture(t), newFixture(t, item{ID: "a"})
	_, err := f.db.WriteTxn(t.Context(), f.items, foreign.items)
	wantError(t, err, statedb.ErrForeignTable)
	_, err = f.db.WriteTxn(t.Context(), nil)
	wantError(t, err, statedb.ErrForeignTable)
	err = f.try(func(txn *statedb.WriteTxn) error {
		_, _, err := foreign.items.Insert(txn, item{ID: "a"})
		return err
	})
	wantError(t, err, statedb.ErrForeignTable)

	_, watch := foreign.items.AllWatch(f.db.ReadTxn())
	if n := foreign.items.Len(f.db.ReadTxn()); n != 0 || watch != nil {
		t.Errorf("a snapshot of another database has %d rows and watch %v, expected none", n, watch)
	}
	if initialized, _ := foreign.items.Initialized(f.db.ReadTxn()); initialized {
		t.Error("a table is initialized in a snapshot of another database")
	}
	f.insert(item{ID: "b"})
	foreign.insert(item{ID: "b"})
}

func TestATableCreatedWhileATransactionIsOpenIsNotLost(t *testing.T) {
	f := newFixture(t)
	old := f.db.ReadTxn()
	txn := f.write()
	created := newTable(t, f.db, itemSchema("created"))
	if _, _, err := f.items.Insert(txn, item{ID: "a"}); err != nil {
		t.Fatal(err)
	}
	err := f.db.Update(t.Context(), func(txn *statedb.WriteTxn) error {
		_, _, err := created.Insert(txn, item{ID: "b"})
		return err
	}, created)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := txn.Commit(); err != nil {
		t.Fatal(err)
	}
	now := f.db.ReadTxn()
	if got := slices.Concat(ids(f.items.All(now)), ids(created.All(now))); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("rows are %v", got)
	}
	if created.Len(old) != 0 || created.Revision(old) != 0 {
		t.Error("a snapshot from before the table knows its rows")
	}
	_, watch := created.AllWatch(old)
	if initialized, _ := created.Initialized(old); initialized || !closed(watch) {
		t.Error("a snapshot from before the table does not ask to be replaced")
	}
}

func TestATransactionOverSeveralTablesIsSeenWhole(t *testing.T) {
	db := newDB()
	a, b := newTable(t, db, itemSchema("a")), newTable(t, db, itemSchema("b"))
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for !closed(stop) {
				txn := db.ReadTxn()
				rowA, _, _ := a.Get(txn, byID.Query("x"))
				rowB, _, _ := b.Get(txn, byID.Query("x"))
				if rowA.Number != rowB.Number {
					t.Errorf("one table is at %d, the other at %d", rowA.Number, rowB.Number)
					return
				}
			}
		})
	}
	for i := range 1_000 {
		err := db.Update(t.Context(), func(txn *statedb.WriteTxn) error {
			_, _, errA := a.Insert(txn, item{ID: "x", Number: i})
			_, _, errB := b.Insert(txn, item{ID: "x", Number: i})
			return errors.Join(errA, errB)
		}, a, b)
		if err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	readers.Wait()
}

func TestAnOpenTransactionSeesItsOwnCountAndRevision(t *testing.T) {
	f := newFixture(t, item{ID: "a"}, item{ID: "b"})
	txn := f.write()
	defer txn.Abort()
	for i := range 3 {
		if _, _, err := f.items.Insert(txn, item{ID: fmt.Sprint("new", i), Tags: "x y"}); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := f.items.Delete(txn, item{ID: "a"}); err != nil {
		t.Fatal(err)
	}
	tags, _ := f.items.LenOf(txn, "tag")
	if n, revision := f.items.Len(txn), f.items.Revision(txn); n != 4 || revision != 6 || tags != 6 {
		t.Errorf("inside: %d rows, %d tags, revision %d; expected 4, 6, 6", n, tags, revision)
	}
	if n, revision := f.items.Len(f.db.ReadTxn()), f.items.Revision(f.db.ReadTxn()); n != 2 || revision != 2 {
		t.Errorf("outside: %d rows, revision %d; expected 2, 2", n, revision)
	}
}

func TestDeletingInsideALoopOverAll(t *testing.T) {
	f := newFixture(t)
	rapid.Check(t, func(rt *rapid.T) {
		rows := rapid.SliceOfNDistinct(items(), 0, 20, func(i item) string { return i.ID }).Draw(rt, "rows")
		f.update(func(txn *statedb.WriteTxn) error {
			for _, row := range rows {
				if _, _, err := f.items.Insert(txn, row); err != nil {
					return err
				}
			}
			seen := 0
			for row := range f.items.All(txn) {
				seen++
				if _, deleted, err := f.items.Delete(txn, row); !deleted || err != nil {
					rt.Fatalf("row %q: deleted %t, %v", row.ID, deleted, err)
				}
				if _, _, err := f.items.Insert(txn, item{ID: row.ID + "~"}); err != nil {
					return err
				}
			}
			if seen != len(rows) {
				rt.Fatalf("the loop saw %d rows, expected %d", seen, len(rows))
			}
			for row := range f.items.List(txn, byGroup.Query("")) {
				if _, _, err := f.items.Delete(txn, row); err != nil {
					return err
				}
			}
			return nil
		})
		if n := f.items.Len(f.db.ReadTxn()); n != 0 {
			rt.Fatalf("%d rows are left", n)
		}
	})
}

func TestDeletingAPrefixInsideALoopOverIt(t *testing.T) {
	f := newFixture(t, item{ID: "a1", Tags: "x"}, item{ID: "a2", Tags: "x xy"}, item{ID: "a3", Group: "a"}, item{ID: "b", Tags: "x"})
	f.update(func(txn *statedb.WriteTxn) error {
		var seen []string
		for row := range f.items.Prefix(txn, byID.Query("a")) {
			seen = append(seen, row.ID)
			n, err := f.items.DeletePrefix(txn, byID.Query("a"))
			if want := map[bool]int{true: 3}[len(seen) == 1]; n != want || err != nil {
				t.Errorf("%d deleted at %s, expected %d: %v", n, row.ID, want, err)
			}
			if _, inserted, err := f.items.InsertIfAbsent(txn, item{ID: "c"}); err != nil || inserted != (len(seen) == 1) {
				t.Errorf("inserted %t at %s: %v", inserted, row.ID, err)
			}
		}
		wantIDs(t, "the loop", seen, "a1", "a2", "a3")
		return nil
	})
	wantIDs(t, "the table", ids(f.items.All(f.db.ReadTxn())), "b", "c")
	wantIDs(t, "the tag", ids(f.items.Prefix(f.db.ReadTxn(), byTag.Query(""))), "b")
	f.update(func(txn *statedb.WriteTxn) error {
		n, err := f.items.DeleteAll(txn)
		if n != 2 || f.items.Len(txn) != 0 {
			t.Errorf("%d deleted, %d left", n, f.items.Len(txn))
		}
		return err
	})
	for _, index := range []string{"id", "group", "number", "place", "tag"} {
		if n, err := f.items.LenOf(f.db.ReadTxn(), index); n != 0 || err != nil {
			t.Errorf("%d left in %s: %v", n, index, err)
		}
	}
}

func TestATransactionGoesOnReadingAfterItsEnd(t *testing.T) {
	f := newFixture(t, item{ID: "a"})
	txn := f.write()
	if _, _, err := f.items.Insert(txn, item{ID: "b"}); err != nil {
		t.Fatal(err)
	}
	committed, err := txn.Commit()
	if err != nil {
		t.Fatal(err)
	}
	f.remove("a", "b")
	if got := ids(f.items.All(txn)); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("after commit it reads %v", got)
	}
	if got := ids(f.items.All(committed)); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("the committed snapshot reads %v", got)
	}
}

func TestCommittingInsideUpdateIsAnError(t *testing.T) {
	f := newFixture(t)
	err := f.try(func(txn *statedb.WriteTxn) error {
		_, err := txn.Commit()
		return err
	})
	wantError(t, err, statedb.ErrTxnClosed)
}

// TestAnEndedTransactionKeepsNothingOfItsWork holds on to transactions, which
// may go on reading what they committed, but no longer need what led to it.
func TestAnEndedTransactionKeepsNothingOfItsWork(t *testing.T) {
	for name, end := range map[string]func(*statedb.WriteTxn){
		"commit": func(txn *statedb.WriteTxn) { _, _ = txn.Commit() },
		"abort":  (*statedb.WriteTxn).Abort,
	} {
		t.Run(name, func(t *testing.T) {
			db := newDB()
			table := newTable(t, db, statedb.Schema[*item]{
				Name:      "pointers",
				Primary:   statedb.NewIndex("id", func(i *item) string { return i.ID }),
				Secondary: []statedb.Indexer[*item]{statedb.NewIndex("number", func(i *item) int { return i.Number }).Unique()},
			})
			txn, err := db.WriteTxn(t.Context(), table)
			check(t, "begin", err)
			passing := make([]weak.Pointer[item], 100)
			for n := range passing {
				row := &item{ID: "a", Number: n}
				passing[n] = weak.Make(row)
				_, _, err := table.Insert(txn, row)
				check(t, "insert", err)
			}
			_, err = table.DeleteAll(txn)
			check(t, "delete", err)
			end(txn)
			runtime.GC()
			for n, row := range passing {
				if row.Value() != nil {
					t.Errorf("row %d, which was never committed, is kept", n)
				}
			}
			runtime.KeepAlive(txn)
			runtime.KeepAlive(db)
		})
	}
}
