package reconciler_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/statehive/statehive/statedb"
)

// added returns rows that no other function returns.
func added(n int) (rows []row) {
	for i := range n {
		rows = append(rows, row{ID: strconv.Itoa(20_000 + i), Want: 1})
	}
	return rows
}

// The documents of another, larger machine are put in place of those of this one.
func TestRowsThatWereJustAddedDoNotRaiseTheLimit(t *testing.T) {
	for _, test := range []struct {
		rows, added, deletes int
		after                time.Duration // from the additions to the deletes
		pass                 int
	}{
		{100, 400, 100, 0, 0},
		{100, 400, 31, time.Second, 0},
		{100, 400, 30, time.Second, 30},
		{20, 60, 20, 59 * time.Second, 0},
		{20, 60, 20, 61 * time.Second, 20},
		{10, 60, 10, 0, 10}, // never more than these can be lost

	} {
		t.Run(fmt.Sprintf("%+v", test), func(t *testing.T) {
			running(t, func(_ *testing.T, w *world) {
				w.put(numbered(test.rows, 1)...)
				w.pass(2 * time.Minute)
				w.target.log()
				w.update(func(txn *statedb.WriteTxn) error {
					for _, r := range added(test.added) {
						if _, _, err := w.table.Insert(txn, r); err != nil {
							return err
						}
					}
					return nil
				})
				if test.after > 0 {
					w.pass(test.after)
				}
				w.delete(idsOf(0, test.deletes)...)
				w.pass(time.Hour)
				w.equal("deleted", test.pass, len(w.deleted()))
			})
		})
	}
}

// The same, but the reconciler starts with the other documents, so that the rows of this machine are orphans.
func TestRowsThatAreNewAtTheStartDoNotRaiseTheLimit(t *testing.T) {
	for _, test := range []struct{ orphans, existing, added, failing, pass int }{
		{20, 0, 50, 0, 0},
		{20, 0, 0, 60, 0},
		{20, 40, 50, 50, 0},
		{20, 50, 50, 50, 20},
		{10, 0, 50, 0, 10},
	} {
		for _, again := range []bool{false, true} {
			t.Run(fmt.Sprintf("%+v, again: %t", test, again), func(t *testing.T) {
				running(t, func(_ *testing.T, w *world) {
					existing := numbered(test.existing, 1)
					if again { // the rows have the status of an earlier run
						w.put(existing...)
						w.pass(2 * time.Minute)
					}
					w.stop()
					if !again {
						for _, r := range existing {
							w.target.corrupt(r.ID, r.Want)
						}
						w.write(existing...)
					}
					for i := range test.orphans {
						w.target.corrupt("old"+strconv.Itoa(i), 1)
					}
					rows := added(test.added + test.failing)
					w.write(rows...)
					var fail []string
					for _, r := range rows[test.added:] {
						fail = append(fail, r.ID)
					}
					w.target.will(failing(fail...))
					w.target.log()
					w.start()
					w.pass(30 * time.Minute)
					w.equal("deleted", test.pass, len(w.deleted()))
				})
			})
		}
	}
}
