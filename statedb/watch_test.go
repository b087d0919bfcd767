package statedb_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/statehive/statehive/statedb"
)

// watchAll takes a watch of each kind.
func (f *fixture) watchAll(txn statedb.ReadTxn, id string) map[string]<-chan struct{} {
	row := item{ID: id, Group: "g", Tags: "t"}
	watches := map[string]<-chan struct{}{}
	_, _, watches["get"], _ = f.items.GetWatch(txn, byID.Query(row.ID))
	if hasGroups(txn, statedb.ReadOnly(f.items)) {
		_, _, watches["get by group"], _ = f.items.GetWatch(txn, byGroup.Query(row.Group))
		_, watches["list"] = f.items.ListWatch(txn, byTag.Query("t"))
	}
	_, watches["prefix"] = f.items.PrefixWatch(txn, byID.Query(""))
	_, watches["lower bound"] = f.items.LowerBoundWatch(txn, byID.Query(row.ID))
	_, watches["all"] = f.items.AllWatch(txn)
	return watches
}

func hasGroups(txn statedb.ReadTxn, items *statedb.Table[item]) bool {
	_, err := items.LenOf(txn, byGroup.Name())
	return err == nil
}

func (f *fixture) wantClosed(watches map[string]<-chan struct{}, want bool) {
	f.t.Helper()
	for name, watch := range watches {
		if closed(watch) != want {
			f.t.Errorf("watch %q closed: %t, expected %t", name, !want, want)
		}
	}
}

func TestWhatChangesNothingWakesNobody(t *testing.T) {
	for name, write := range map[string]func(f *fixture, txn *statedb.WriteTxn) error{
		"failed swap": func(f *fixture, txn *statedb.WriteTxn) error {
			_, err := f.items.CompareAndSwap(txn, 0, item{ID: "a", Number: 5})
			wantError(f.t, err, statedb.ErrConflict)
			return nil
		},
		"swap of an absent row": func(f *fixture, txn *statedb.WriteTxn) error {
			_, err := f.items.CompareAndSwap(txn, 9, item{ID: "absent"})
			wantError(f.t, err, statedb.ErrNotFound)
			return nil
		},
		"failed compare and delete": func(f *fixture, txn *statedb.WriteTxn) error {
			_, err := f.items.CompareAndDelete(txn, 0, item{ID: "a"})
			wantError(f.t, err, statedb.ErrConflict)
			return nil
		},
		"delete of an absent row": func(f *fixture, txn *statedb.WriteTxn) error {
			_, deleted, err := f.items.Delete(txn, item{ID: "absent"})
			if deleted {
				f.t.Error("an absent row was deleted")
			}
			return err
		},
		"modify of an absent row": func(f *fixture, txn *statedb.WriteTxn) error {
			_, err := f.items.Modify(txn, byTag.Query("absent"), func(i item) item { return i })
			wantError(f.t, err, statedb.ErrNotFound)
			return nil
		},
		"amend on an old spec": func(f *fixture, txn *statedb.WriteTxn) error {
			_, err := f.items.Amend(txn, item{ID: "a"}, 0, func(i item) item { i.Status = 1; return i })
			return err
		},
		"amend with the same status": func(f *fixture, txn *statedb.WriteTxn) error {
			_, err := f.items.Amend(txn, item{ID: "a"}, 9, func(i item) item { return i })
			return err
		},
		"the same row": func(f *fixture, txn *statedb.WriteTxn) error {
			_, _, err := f.items.Insert(txn, item{ID: "a", Group: "g", Tags: "t"})
			return err
		},
		"error": func(f *fixture, txn *statedb.WriteTxn) error {
			_, _, err := f.items.Insert(txn, item{ID: "b"})
			return errors.Join(err, errAborted)
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, item{ID: "a", Group: "g", Tags: "t"})
			txn := f.db.ReadTxn()
			watches := f.watchAll(txn, "a")
			cursor := f.follow(f.items.Revision(txn))
			watches["cursor"] = cursor.Watch()
			watches["absent"] = f.watchAll(txn, "absent")["get"]
			if err := f.try(func(txn *statedb.WriteTxn) error { return write(f, txn) }); err != nil && !errors.Is(err, errAborted) {
				t.Fatal(err)
			}
			f.wantClosed(watches, false)
			if before, after := f.items.Revision(txn), f.items.Revision(f.db.ReadTxn()); before != after {
				t.Errorf("revision went from %d to %d", before, after)
			}
		})
	}
}

var errAborted = errors.New("aborted by the test")

func TestAWatchTakenInsideATransactionCloses(t *testing.T) {
	f := newFixture(t, item{ID: "a", Group: "g", Tags: "t"})
	txn := f.write()
	before := f.watchAll(txn, "a")
	if _, _, err := f.items.Insert(txn, item{ID: "a", Group: "g", Tags: "t", Number: 1}); err != nil {
		t.Fatal(err)
	}
	between := f.watchAll(txn, "a")
	f.wantClosed(before, false)
	f.wantClosed(between, false)
	if _, err := txn.Commit(); err != nil {
		t.Fatal(err)
	}
	f.wantClosed(before, true)
	f.wantClosed(between, true) // its own commit may wake it
	after := f.watchAll(txn, "a")
	f.wantClosed(after, false)
	f.insert(item{ID: "a", Group: "g", Tags: "t", Number: 2})
	f.wantClosed(after, true)
}

func TestAWatchTakenInsideAnAbortedTransactionGoesOn(t *testing.T) {
	f := newFixture(t, item{ID: "a", Group: "g", Tags: "t"})
	txn := f.write()
	if _, _, err := f.items.Delete(txn, item{ID: "a"}); err != nil {
		t.Fatal(err)
	}
	watches := f.watchAll(txn, "a")
	txn.Abort()
	f.wantClosed(watches, false)
	f.remove("a")
	f.wantClosed(watches, true)
}

func TestAWatchTakenOnAnOldSnapshotIsClosed(t *testing.T) {
	f := newFixture(t, item{ID: "a", Group: "g", Tags: "t"})
	old := f.db.ReadTxn()
	f.remove("a")
	f.wantClosed(f.watchAll(old, "a"), true)
}

// TestWhoWakesUpReadsTheNewSnapshot spins on a watch while another table, which
// is part of the same commit, makes that commit take its time.
func TestWhoWakesUpReadsTheNewSnapshot(t *testing.T) {
	f := newFixture(t, item{ID: "a"})
	large := newTable(t, f.db, statedb.Schema[item]{Name: "large", Primary: byID})
	defer large.Changes(0).Close()
	const commits = 100
	var watcher sync.WaitGroup
	watcher.Go(func() {
		for seen := 0; seen < commits; {
			row, _, woken, _ := f.items.GetWatch(f.db.ReadTxn(), byID.Query("a"))
			if seen = row.Number; seen == commits {
				return
			}
			for !closed(woken) {
			}
			fresh, _, _ := f.items.Get(f.db.ReadTxn(), byID.Query("a"))
			if fresh.Number <= seen {
				t.Errorf("woken up, but the newest snapshot still has %d", fresh.Number)
				return
			}
		}
	})
	for i := range commits {
		check(t, "update", f.db.Update(t.Context(), func(txn *statedb.WriteTxn) error {
			for n := range 300 {
				if _, _, err := large.Insert(txn, item{ID: fmt.Sprint(n), Number: i + 1}); err != nil {
					return err
				}
			}
			_, _, err := f.items.Insert(txn, item{ID: "a", Number: i + 1})
			return err
		}, f.items, large))
	}
	watcher.Wait()
}

func TestWatchesOfOtherRowsStayOpen(t *testing.T) {
	f := newFixture(t)
	for i := range 100 {
		f.insert(item{ID: fmt.Sprintf("row-%02d", i)})
	}
	_, _, watch, _ := f.items.GetWatch(f.db.ReadTxn(), byID.Query("row-17"))
	f.insert(item{ID: "row-71", Number: 1})
	f.remove("row-18")
	if closed(watch) {
		t.Error("a row's watch closed because of other rows")
	}
}

func TestAStatusWriteWakesWhoWatchesTheRow(t *testing.T) {
	f := newFixture(t, item{ID: "a", Group: "g", Tags: "t"})
	watches := f.watchAll(f.db.ReadTxn(), "a")
	f.amend("a", 1, 1)
	f.wantClosed(watches, true)
}

// What a transaction has written is in no version, so nothing that a version has
// tells of its end. Which part of an index changes depends on the keys beside it.
func TestAWatchOfWhatTheTransactionWroteItselfIsClosed(t *testing.T) {
	beside := []string{"a", "aa", "ab", "acd", "b", "c"}
	for name, undo := range map[string]func(f *fixture, txn *statedb.WriteTxn) error{
		"deleted": func(f *fixture, txn *statedb.WriteTxn) error {
			_, _, err := f.items.Delete(txn, item{ID: "ac"})
			return err
		},
		"written again": func(f *fixture, txn *statedb.WriteTxn) error {
			_, _, err := f.items.Insert(txn, item{ID: "ac", Group: "g", Tags: "t", Number: 2})
			return err
		},
	} {
		for chosen := range 1 << len(beside) {
			var rows []item
			var ids []string
			for i, id := range beside {
				if chosen&(1<<i) != 0 {
					rows, ids = append(rows, item{ID: id, Group: id, Tags: id}), append(ids, id)
				}
			}
			t.Run(fmt.Sprint(name, " beside ", ids), func(t *testing.T) {
				f := newFixture(t, rows...)
				var watches map[string]<-chan struct{}
				f.update(func(txn *statedb.WriteTxn) error {
					if _, _, err := f.items.Insert(txn, item{ID: "ac", Group: "g", Tags: "t", Number: 1}); err != nil {
						return err
					}
					watches = f.watchAll(txn, "ac")
					_, watches["its prefix"] = f.items.PrefixWatch(txn, byID.Query("ac"))
					return undo(f, txn)
				})
				f.wantClosed(watches, true)
			})
		}
	}
}
