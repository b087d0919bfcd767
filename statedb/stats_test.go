package statedb_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/statehive/statehive/statedb"
)

func TestStatsTellLockTimesAndLag(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		cursor := f.items.Changes(0)
		defer cursor.Close()
		for range cursor.Next(f.db.ReadTxn()) {
			t.Error("there is a row")
		}
		txn := f.write()
		go f.insert(item{ID: "a"})
		synctest.Wait()
		time.Sleep(500 * time.Millisecond)
		txn.Abort()
		synctest.Wait()
		time.Sleep(3 * time.Second)

		table, err := f.db.Table(f.db.ReadTxn(), "items")
		if err != nil {
			t.Fatal(err)
		}
		s := table.Stats(f.db.ReadTxn())
		for name, d := range map[string]statedb.Durations{"waits": s.Waits, "holds": s.Holds} {
			short, long := d.Within[10*time.Microsecond], d.Within[time.Second]
			if d.Count != 2 || d.Sum != 500*time.Millisecond || short != 1 || long != 2 {
				t.Errorf("%s: %+v, expected one of nothing and one of 500ms", name, d)
			}
		}
		if s.Rows != 1 || s.Revision != 1 || s.Changes != 1 || s.Deletes != 0 || s.Cursors != 1 || s.Lag != 1 || s.LagTime != 3*time.Second {
			t.Errorf("stats are %+v", s)
		}
	})
}
