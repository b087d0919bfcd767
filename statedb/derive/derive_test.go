package derive_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/statehive/statehive/statedb"
	"github.com/statehive/statehive/statedb/derive"
)

func TestDerivedRowsFollowAllTheirInputs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDerivation(t)
		d.put(d.left, item{ID: "a", Group: "x"})
		d.start()
		d.want()
		d.put(d.right, item{ID: "1", Group: "x", Number: 1})
		d.want("a=1")
		d.put(d.left, item{ID: "b", Group: "y"}, item{ID: "c", Group: "x"})
		d.want("a=1", "c=1")
		d.put(d.right, item{ID: "2", Group: "y", Number: 2}, item{ID: "3", Group: "x", Number: 3})
		d.want("a=4", "b=2", "c=4")
		d.remove(d.right, "1", "2")
		d.want("a=3", "c=3")
		d.remove(d.left, "a")
		d.want("c=3")
		d.stop()
	})
}

func TestOnlyTheRowsThatAChangeAffectsAreComputed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDerivation(t)
		d.put(d.left, item{ID: "a", Group: "x"}, item{ID: "b", Group: "x"}, item{ID: "c", Group: "y"})
		d.put(d.right, item{ID: "1", Group: "x", Number: 1})
		d.start()
		d.wantComputed("a", "b", "c")
		d.put(d.left, item{ID: "c", Group: "z"})
		d.wantComputed("c")
		d.put(d.right, item{ID: "2", Group: "x", Number: 1}, item{ID: "1", Group: "x", Number: 2})
		d.wantComputed("a", "b") // once each
		d.put(d.right, item{ID: "3", Group: "nobody"})
		d.wantComputed()
		d.write(func(txn *statedb.WriteTxn) error {
			if err := inserting(d.left, item{ID: "d"})(txn); err != nil {
				return err
			}
			_, _, err := d.left.Delete(txn, item{ID: "d"})
			return err
		})
		d.wantComputed() // it came and went
		d.sleep(time.Hour)
		d.wantComputed()
		d.stop()
	})
}

func TestARowThatMovesAffectsWhereItWasAndWhereItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDerivation(t)
		d.put(d.left, item{ID: "a", Group: "x"}, item{ID: "b", Group: "y"})
		d.put(d.right, item{ID: "1", Group: "x", Number: 1})
		d.start()
		d.want("a=1")
		// One more that 1 affects, of which it did not know when it was read itself.
		d.put(d.left, item{ID: "c", Group: "x"})
		d.want("a=1", "c=1")
		d.wantComputed("a", "b", "c")
		d.put(d.right, item{ID: "1", Group: "y", Number: 1})
		d.want("b=1")
		d.wantComputed("a", "b", "c")
		// Both sides at once, past each other.
		d.write(func(txn *statedb.WriteTxn) error {
			return errors.Join(
				inserting(d.left, item{ID: "b", Group: "z"}, item{ID: "a", Group: "y"})(txn),
				inserting(d.right, item{ID: "1", Group: "x", Number: 1})(txn))
		})
		d.want("c=1")
		d.wantComputed("a", "b", "c")
		d.stop()
	})
}

func TestADerivedRowThatStaysTheSameIsNotWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDerivation(t)
		d.put(d.left, item{ID: "a", Group: "x"})
		d.put(d.right, item{ID: "1", Group: "x", Number: 1})
		d.start()
		txn := d.db.ReadTxn()
		before := d.out.Revision(txn)
		_, watch := d.out.AllWatch(txn)
		d.put(d.left, item{ID: "a", Group: "x", Tags: "nobody reads this"})
		d.put(d.right, item{ID: "1", Group: "x"}, item{ID: "2", Group: "x", Number: 1})
		d.put(d.right, item{ID: "1", Group: "x", Number: 1}, item{ID: "2", Group: "x"})
		d.computed = nil
		d.stop()
		if revision := d.out.Revision(d.db.ReadTxn()); revision != before+1 || !closed(watch) { // Rows went to 2, once
			t.Errorf("the output went from revision %d to %d", before, revision)
		}
	})
}

func TestARestartRemovesRowsThatNothingYieldsAnyMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDerivation(t)
		d.put(d.left, item{ID: "a", Group: "x"}, item{ID: "b", Group: "x"})
		d.put(d.right, item{ID: "1", Group: "x", Number: 1})
		derived, err := derive.New(t.Context(), d.spec)
		if err != nil {
			t.Fatal(err)
		}
		d.run(derived)
		d.want("a=1", "b=1")
		d.stop()
		d.remove(d.left, "a")
		d.put(d.left, item{ID: "c", Group: "x"})
		d.want("a=1", "b=1")
		before := d.out.Revision(d.db.ReadTxn())
		d.run(derived)
		d.want("b=1", "c=1")
		if written := d.out.Revision(d.db.ReadTxn()) - before; written != 2 {
			t.Errorf("%d rows were written or deleted, expected 2", written)
		}
		if err := derived.Run(t.Context()); err == nil || errors.Is(err, context.Canceled) {
			t.Errorf("running it twice at the same time returned %v", err)
		}
		d.stop()
	})
}

func TestRowsFromBeforeTheDerivationAreReplacedAndRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDerivation(t)
		d.put(d.left, item{ID: "a", Group: "x"})
		d.put(d.right, item{ID: "1", Group: "x", Number: 1})
		if err := d.db.Update(t.Context(), inserting(d.out, joined{ID: "a", Sum: 9}, joined{ID: "z", Sum: 9}), d.out); err != nil {
			t.Fatal(err)
		}
		d.start()
		d.want("a=1")
		d.stop()
	})
}

func TestDerivationsFollowEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDerivation(t)
		type place struct {
			Group  string
			Number int
		}
		placeByGroup := statedb.NewIndex("group", func(p place) string { return p.Group })
		sums := newTable(t, d.db, statedb.Schema[place]{Name: "sums", Primary: placeByGroup})
		derived, err := derive.New(t.Context(), derive.Spec[place, string]{
			Output:  sums,
			Primary: placeByGroup,
			Inputs: []derive.Input[string]{
				derive.From(statedb.ReadOnly(d.out), func(_ statedb.ReadTxn, row joined, affects func(string)) { affects(row.Group) }),
			},
			Compute: func(txn statedb.ReadTxn, group string) (place, bool, error) {
				total := place{Group: group}
				for row := range d.out.All(txn) {
					if row.Group == group {
						total.Number += row.Sum
					}
				}
				return total, total.Number > 0, nil
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		d.put(d.left, item{ID: "a", Group: "x"}, item{ID: "b", Group: "x"})
		d.put(d.right, item{ID: "1", Group: "x", Number: 1}, item{ID: "2", Group: "y", Number: 2})
		d.start()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- derived.Run(ctx) }()
		synctest.Wait()
		d.put(d.left, item{ID: "b", Group: "y"})
		got := maps.Collect(sums.All(d.db.ReadTxn()))
		if keys := slices.Collect(maps.Keys(got)); len(keys) != 2 || got[place{"x", 1}] == 0 || got[place{"y", 2}] == 0 {
			t.Errorf("the sums are %v", keys)
		}
		cancel()
		wantError(t, <-ended, context.Canceled)
		d.stop()
	})
}
