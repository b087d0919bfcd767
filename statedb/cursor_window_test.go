package statedb_test

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/statehive/statehive/statedb"
)

// churn replaces one row again and again.
func (f *fixture) churn(changes int) {
	f.t.Helper()
	for done := 0; done < changes; done += 1_000 {
		f.update(func(txn *statedb.WriteTxn) error {
			for i := range 1_000 {
				if _, _, err := f.items.Insert(txn, item{ID: "churn", Number: done + i}); err != nil {
					return err
				}
			}
			return nil
		})
	}
}

// comeAndGo inserts rows and deletes them again.
func (f *fixture) comeAndGo(changes int) {
	f.t.Helper()
	for done := 0; done < changes; done += 1_000 {
		f.update(func(txn *statedb.WriteTxn) error {
			for i := range 500 {
				row := item{ID: fmt.Sprint("gone-", done/2+i)}
				_, _, insertErr := f.items.Insert(txn, row)
				_, _, deleteErr := f.items.Delete(txn, row)
				if err := errors.Join(insertErr, deleteErr); err != nil {
					return err
				}
			}
			return nil
		})
	}
}

func TestARestingCursorMissesNothingThatIsKeptForIt(t *testing.T) {
	f := newLeanFixture(t, item{ID: "b"}, item{ID: "a"})
	quick, resting := f.follow(0), f.follow(0)
	f.wantChanges(quick, "+a", "+b")
	f.wantChanges(resting, "+a", "+b")
	f.remove("b")
	f.churn(5_000)
	f.wantChanges(quick, "-b", "+churn")
	f.insert(item{ID: "a", Number: 1})
	f.wantChanges(quick, "+a")
	f.wantChanges(resting, "-b", "+churn", "+a")
}

func TestACursorThatFellBehindIsServedFromTheTable(t *testing.T) {
	f := newLeanFixture(t, item{ID: "a"}, item{ID: "b"}, item{ID: "c"}, item{ID: "d"})
	cursor := f.follow(0)
	f.wantChanges(cursor, "+a", "+b", "+c", "+d")
	f.insert(item{ID: "b", Number: 1})
	f.remove("a")
	f.churn(70_000) // more than the window keeps
	f.remove("c")
	f.insert(item{ID: "d", Number: 1})
	// Deletes are not lost to updates: no reset, and only what has changed.
	f.wantChanges(cursor, "-a", "-c", "+b", "+churn", "+d")
	f.wantChanges(cursor)
}

func TestACursorThatMissedDeletesIsReset(t *testing.T) {
	f := newLeanFixture(t, item{ID: "a"}, item{ID: "b"}, item{ID: "c"})
	cursor := f.follow(0)
	folded := newFold()
	folded.drain(cursor, f.db.ReadTxn())
	f.remove("b")
	f.comeAndGo(70_000)
	for change := range cursor.Next(f.db.ReadTxn()) { // stops right behind the reset
		folded.apply(change)
		break
	}
	if folded.resets != 1 {
		t.Fatal("no reset came first")
	}
	f.remove("c")
	folded.drain(cursor, f.db.ReadTxn())
	check(t, "after the reset", folded.differs(statedb.ReadOnly(f.items), f.db.ReadTxn()))
}

// TestAnAbandonedCursorCostsABoundedAmount makes a million changes, deletes of
// rows that had been told of among them, that a cursor does not ask for.
func TestAnAbandonedCursorCostsABoundedAmount(t *testing.T) {
	f := newLeanFixture(t)
	const rows, rounds = 5_000, 20
	perRound := 50_000
	if raceEnabled {
		perRound /= 10
	}
	for i := range rows {
		f.insert(item{ID: fmt.Sprint(i)})
	}
	cursor := f.follow(0)
	folded := newFold()
	folded.drain(cursor, f.db.ReadTxn())
	f.remove("0", "1")
	before := heap()
	most := int64(0)
	for round := range rounds {
		f.comeAndGo(perRound / 2)
		f.replace(rows, perRound/2)
		if round%5 == 4 {
			most = max(most, heap()-before)
		}
	}
	if most > 12<<20 {
		t.Errorf("the heap has grown by %d kB", most>>10)
	}
	if lag := cursor.Lag(); lag < rounds*perRound {
		t.Errorf("the cursor lags by %d", lag)
	}
	folded.drain(cursor, f.db.ReadTxn())
	if folded.resets != 1 {
		t.Errorf("%d resets, expected 1", folded.resets)
	}
	check(t, "after the reset", folded.differs(statedb.ReadOnly(f.items), f.db.ReadTxn()))
	if folded.changes > 3*rows+1 {
		t.Errorf("%d changes came for a table of %d rows", folded.changes, rows)
	}
}

// replace changes the rows that have numbers for ids, 1,000 in a transaction.
func (f *fixture) replace(rows, changes int) {
	f.t.Helper()
	for done := 0; done < changes; done += 1_000 {
		f.update(func(txn *statedb.WriteTxn) error {
			for i := range 1_000 {
				// The revision makes each row differ from the one before.
				row := item{ID: fmt.Sprint((done + i) % rows), Number: int(f.items.Revision(txn))}
				if _, _, err := f.items.Insert(txn, row); err != nil {
					return err
				}
			}
			return nil
		})
	}
}

func heap() int64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

func TestNothingIsKeptWhenNobodyFollows(t *testing.T) {
	f := newLeanFixture(t)
	const changes = 10_000
	quick, resting := f.items.Changes(0), f.items.Changes(0)
	before := heap()
	f.comeAndGo(changes)
	if kept := heap() - before; kept < 100_000 {
		t.Fatalf("%d changes are kept in %d bytes: the test measures nothing", changes, kept)
	}
	const spare = 40_000 // what the next transaction of as many changes will use again
	resting.Close()
	watch := f.watchAll(f.db.ReadTxn(), "absent")
	quick.Close() // no commit has to come
	if kept := heap() - before; kept > spare {
		t.Errorf("%d kB are kept for nobody", kept>>10)
	}
	f.wantClosed(watch, false)
	f.comeAndGo(changes)
	if kept := heap() - before; kept > spare {
		t.Errorf("%d kB are kept for nobody, after more changes", kept>>10)
	}
	f.insert(item{ID: "absent"})
	f.wantChanges(f.follow(0), "+absent")
}

func TestClosingTheLastCursorDuringATransactionDisturbsNothing(t *testing.T) {
	f := newFixture(t, item{ID: "a"})
	cursor := f.follow(0)
	f.wantChanges(cursor, "+a")
	f.insert(item{ID: "b"})
	_, watch := f.items.AllWatch(f.db.ReadTxn())
	txn := f.write()
	if _, _, err := f.items.Insert(txn, item{ID: "c"}); err != nil {
		t.Fatal(err)
	}
	cursor.Close()
	next := f.follow(f.items.Revision(txn) - 1)
	if _, err := txn.Commit(); err != nil {
		t.Fatal(err)
	}
	if !closed(watch) {
		t.Error("the watch is open after the commit")
	}
	f.wantChanges(next, "+c")
}

// TestAnOldSnapshotDoesNotSeeWhatReplacedItsRowsLater: the entries that both
// snapshots share are stamped by the later commit.
func TestAnOldSnapshotDoesNotSeeWhatReplacedItsRowsLater(t *testing.T) {
	f := newFixture(t)
	old, aborted, recent := f.follow(0), f.follow(0), f.follow(0)
	for _, cursor := range []*statedb.Cursor[item]{old, aborted, recent} {
		f.wantChanges(cursor) // the listing
	}
	f.insert(item{ID: "a"}, item{ID: "b"}, item{ID: "c"})
	before := f.db.ReadTxn()
	txn := f.write()
	for _, row := range []item{{ID: "a", Number: 1}, {ID: "b", Number: 1}} {
		if _, _, err := f.items.Insert(txn, row); err != nil {
			t.Fatal(err)
		}
	}
	txn.Abort()
	f.wantChanges(aborted, "+a", "+b", "+c")
	f.insert(item{ID: "a", Number: 2})
	f.remove("b")
	if got := changes(old, before); !slices.Equal(got, []string{"+a", "+b", "+c"}) {
		t.Errorf("the snapshot from before yielded %v", got)
	}
	f.wantChanges(old, "+a", "-b")
	f.wantChanges(recent, "+c", "+a", "-b")
}

func TestABulkDeleteIsNotLostOnWhoFollowsClosely(t *testing.T) {
	const rows = 30_000 // more than is kept for who is slow
	f := newLeanFixture(t)
	batch := make([]item, rows)
	for i := range batch {
		batch[i] = item{ID: fmt.Sprint(i)}
	}
	f.insert(batch...)
	cursor := f.follow(0)
	folded := newFold()
	folded.drain(cursor, f.db.ReadTxn())
	f.update(func(txn *statedb.WriteTxn) error {
		for _, row := range batch {
			if _, _, err := f.items.Delete(txn, row); err != nil {
				return err
			}
		}
		return nil
	})
	f.insert(item{ID: "next"})
	folded.drain(cursor, f.db.ReadTxn())
	if folded.resets != 0 {
		t.Error("a reset came")
	}
	check(t, "after the deletes", folded.differs(statedb.ReadOnly(f.items), f.db.ReadTxn()))
}

func TestLagIsKnownInRevisionsAndTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newLeanFixture(t, item{ID: "a"})
		statedb.SetMinWindow(f.items, 500)
		cursor := f.follow(0)
		want := func(what string, revisions int, d time.Duration) {
			t.Helper()
			if lag, late := cursor.Lag(), cursor.LagTime(); lag != revisions || late != d {
				t.Errorf("%s: %d revisions and %v behind, expected %d and %v", what, lag, late, revisions, d)
			}
		}
		pass := func(d time.Duration) { time.Sleep(d) } // virtual time

		pass(time.Minute)
		want("nothing new", 0, 0)
		f.insert(item{ID: "b"})
		pass(time.Minute)
		f.insert(item{ID: "c"})
		pass(time.Second)
		want("two changes", 2, time.Minute+time.Second)
		f.wantChanges(cursor, "+a", "+b", "+c")
		want("drained", 0, 0)
		f.insert(item{ID: "d"})
		pass(time.Second)
		f.insert(item{ID: "e"}, item{ID: "f"})
		pass(time.Second)
		left := 2
		for range cursor.Next(f.db.ReadTxn()) {
			if left--; left == 0 {
				break
			}
		}
		want("partly read", 1, time.Second)
		f.churn(3_000)
		pass(time.Hour)
		f.churn(3_000)
		want("not kept any more", 6_001, time.Hour+time.Second)
		f.wantChanges(cursor, "+churn", "+f") // from the table
		want("drained again", 0, 0)
		f.insert(item{ID: "g"})
		want("at once", 1, 0)
		cursor = f.follow(1)
		pass(time.Second)
		want("from long ago", 6_006, time.Second)
	})
}

func TestACursorTellsHowFarAllWasSeen(t *testing.T) {
	f := newFixture(t, item{ID: "a"}, item{ID: "b"})
	cursor := f.follow(0)
	seen := func(want statedb.Revision) {
		t.Helper()
		if got := cursor.Seen(); got != want {
			t.Errorf("seen %d, want %d", got, want)
		}
	}
	seen(0)
	for range cursor.Next(f.db.ReadTxn()) {
		break
	}
	seen(0) // the listing goes on
	changes(cursor, f.db.ReadTxn())
	seen(2)
	f.insert(item{ID: "c"}, item{ID: "d"})
	for range cursor.Next(f.db.ReadTxn()) {
		break
	}
	seen(3)
	changes(cursor, f.db.ReadTxn())
	seen(4)
}
