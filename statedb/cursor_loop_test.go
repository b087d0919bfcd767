package statedb_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/statehive/statehive/statedb"
)

// feedLoop is one loop over a cursor: what it yields is true of its snapshot.
type feedLoop struct {
	table    *statedb.Table[item]
	txn      statedb.ReadTxn
	upserted map[string]bool
	changes  int
}

func newFeedLoop(table *statedb.Table[item], txn statedb.ReadTxn) *feedLoop {
	return &feedLoop{table: table, txn: txn, upserted: map[string]bool{}}
}

// violation says why the next change should not have been yielded.
func (l *feedLoop) violation(change statedb.Change[item]) error {
	l.changes++
	if change.Kind == statedb.Reset {
		if l.changes > 1 {
			return fmt.Errorf("change %d of a loop is a reset", l.changes)
		}
		return nil
	}
	id := change.Object.ID
	row, revision, exists := l.table.Get(l.txn, byID.Query(id))
	switch {
	case change.Kind == statedb.Delete && exists:
		return fmt.Errorf("row %q is told to be deleted at %d, it is there since %d", id, change.Revision, revision)
	case change.Kind == statedb.Delete:
		return nil
	case !exists || row != change.Object || revision != change.Revision:
		return fmt.Errorf("row %q is told as %+v of %d, it is %+v of %d, there: %t", id, change.Object, change.Revision, row, revision, exists)
	case l.upserted[id]:
		return fmt.Errorf("row %q is told twice in a loop", id)
	}
	l.upserted[id] = true
	return nil
}

// TestNoLoopTellsARowTwiceOrAnOldOne reads in parts while rows change, the window
// shrinks and grows, and deletes are forgotten.
func TestNoLoopTellsARowTwiceOrAnOldOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		db := newDB()
		table := newTable(t, db, itemSchema("items"))
		statedb.SetMinWindow(table, 0)
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		write := func() { check(t, "write", db.Update(t.Context(), randomChanges(table, random), table)) }
		if rapid.Bool().Draw(t, "rows before") {
			write()
		}
		start := rapid.SampledFrom([]statedb.Revision{0, table.Revision(db.ReadTxn()), 1 << 40}).Draw(t, "start")
		f := &follower{newFold(), table.Changes(start), 0}
		defer f.cursor.Close()
		if start > 0 {
			for row, revision := range table.All(db.ReadTxn()) {
				f.rows[row.ID] = modelRow{Item: row, Revision: revision}
			}
		}
		for range rapid.IntRange(1, 25).Draw(t, "steps") {
			statedb.SetMinWindow(table, rapid.SampledFrom([]int{0, 0, 100, 600}).Draw(t, "window"))
			for range rapid.IntRange(0, 3).Draw(t, "commits") {
				write()
			}
			f.read(t, statedb.ReadOnly(table), db.ReadTxn(), rapid.SampledFrom([]int{1, 2, 20, 100, 300}).Draw(t, "changes"))
		}
		f.drain(t, statedb.ReadOnly(table), db.ReadTxn())
	})
}

// randomChanges are few or many, of rows near each other or of any.
func randomChanges(table *statedb.RWTable[item], random *rand.Rand) func(*statedb.WriteTxn) error {
	return func(txn *statedb.WriteTxn) error {
		first, among, deletes := random.IntN(100), 1+random.IntN(100), random.IntN(10)
		for range random.IntN(1 + random.IntN(600)) {
			row := item{ID: fmt.Sprintf("%03d", first+random.IntN(among)), Number: random.Int()}
			var err error
			if random.IntN(10) < deletes {
				_, _, err = table.Delete(txn, row)
			} else {
				_, _, err = table.Insert(txn, row)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
}
