package statedb_test

import (
	"sync"
	"testing"
	"time"

	"github.com/statehive/statehive/statedb"
)

// TestNobodyMissesAWakeUp has readers wait on watches of every kind, taken from
// snapshots that may be old already, while cursors come and go (which replaces a
// version by one without changes kept), one transaction releases the table and the next
// one commits before the first has closed its watches, and the table is dropped.
func TestNobodyMissesAWakeUp(t *testing.T) {
	commits := 2_000
	if raceEnabled {
		commits = 500
	}
	f := newFixture(t, item{ID: "a"}, item{ID: "other"})
	f.update(func(txn *statedb.WriteTxn) error {
		_, err := f.items.RegisterSource(txn, "first")
		return err
	})
	last := statedb.Revision(2 + commits)
	watches := map[string]func(txn statedb.ReadTxn) <-chan struct{}{
		"get": func(txn statedb.ReadTxn) <-chan struct{} {
			_, _, watch, _ := f.items.GetWatch(txn, byID.Query("a"))
			return watch
		},
		"list": func(txn statedb.ReadTxn) <-chan struct{} {
			_, watch := f.items.ListWatch(txn, byGroup.Query(""))
			return watch
		},
		"tag": func(txn statedb.ReadTxn) <-chan struct{} {
			_, watch := f.items.PrefixWatch(txn, byTag.Query("t"))
			return watch
		},
		"all": func(txn statedb.ReadTxn) <-chan struct{} {
			_, watch := f.items.AllWatch(txn)
			return watch
		},
		"table": func(txn statedb.ReadTxn) <-chan struct{} { return f.items.Watch(txn) },
	}
	var readers, writers sync.WaitGroup
	stop := make(chan struct{})
	for name, watch := range watches {
		for _, late := range []bool{false, true} {
			readers.Go(func() { f.waitForAll(name, watch, late, last) })
		}
	}
	var following sync.WaitGroup
	following.Go(func() {
		for !closed(stop) {
			cursor := f.items.Changes(0)
			for range cursor.Next(f.db.ReadTxn()) {
			}
			cursor.Close()
		}
	})
	_, initialized := f.items.Initialized(f.db.ReadTxn())
	for writer := range 2 {
		writers.Go(func() {
			for i := range commits / 2 {
				f.insert(item{ID: "a", Number: 2*i + writer + 1, Tags: "t"})
			}
		})
	}
	writers.Wait()
	readers.Wait()
	open := watches["table"](f.db.ReadTxn())
	check(t, "drop", f.db.Drop(t.Context(), f.items))
	close(stop)
	following.Wait()
	for _, watch := range []<-chan struct{}{open, initialized} {
		if !closed(watch) {
			t.Error("the drop of the table woke nobody")
		}
	}
}

// waitForAll waits for one change after another until the last one; a late reader asks
// for the watch of a snapshot that was replaced.
func (f *fixture) waitForAll(name string, watch func(statedb.ReadTxn) <-chan struct{}, late bool, last statedb.Revision) {
	for {
		txn := f.db.ReadTxn()
		seen := f.items.Revision(txn)
		if seen >= last {
			return
		}
		if late {
			for f.items.Revision(f.db.ReadTxn()) == seen {
				if woken := watch(txn); !f.wakes(name, woken) {
					return
				}
			}
			if woken := watch(txn); !f.wakes(name+", late,", woken) {
				return
			}
			continue
		}
		if !f.wakes(name, watch(txn)) {
			return
		}
	}
}

func (f *fixture) wakes(name string, watch <-chan struct{}) bool {
	const patience = 20 * time.Second
	select {
	case <-watch:
		return true
	case <-time.After(patience):
		f.t.Errorf("the %s watch did not wake up", name)
		return false
	}
}
