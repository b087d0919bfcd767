package statedb_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/statehive/statehive/statedb"
)

// joined is what the derived table of most tests holds: for each item on the
// left, the sum of the numbers on the right that have its group.
type joined struct {
	ID    string
	Group string
	Sum   int
	Rows  int
}

var joinedByID = statedb.NewIndex("id", func(j joined) string { return j.ID })

// derivation is a Deriver with two inputs, and all that a test does with them.
type derivation struct {
	t           *testing.T
	db          *statedb.DB
	left, right statedb.RWTable[item]
	out         statedb.RWTable[joined]
	spec        statedb.Derivation[joined, string]

	computed []string                                   // keys, since it was last asked
	hook     func(txn statedb.ReadTxn, id string) error // called by compute
	cancel   context.CancelFunc
	ended    chan error
	fence    atomic.Int32 // between the goroutines of the test and of the derivation
}

func newDerivation(t *testing.T, schema ...func(*statedb.Schema[joined])) *derivation {
	t.Helper()
	db := statedb.New()
	out := statedb.Schema[joined]{Name: "joined", Primary: joinedByID}
	for _, change := range schema {
		change(&out)
	}
	input := func(name string) statedb.RWTable[item] {
		return newTable(t, db, statedb.Schema[item]{Name: name, Primary: byID, Secondary: []statedb.Indexer[item]{byGroup}})
	}
	d := &derivation{t: t, db: db, left: input("left"), right: input("right"), out: newTable(t, db, out)}
	d.spec = statedb.Derivation[joined, string]{
		Output: d.out,
		Inputs: []statedb.DeriveInput[string]{
			statedb.DeriveFrom(d.left, func(_ statedb.ReadTxn, row item, affects func(string)) { affects(row.ID) }),
			statedb.DeriveFrom(d.right, d.leftsOf),
		},
		Compute: d.compute,
	}
	return d
}

func (d *derivation) leftsOf(txn statedb.ReadTxn, row item, affects func(string)) {
	for left := range d.left.List(txn, byGroup.Query(row.Group)) {
		affects(left.ID)
	}
}

func (d *derivation) compute(txn statedb.ReadTxn, id string) (joined, bool, error) {
	d.fence.Add(1)
	d.computed = append(d.computed, id)
	if d.hook != nil {
		if err := d.hook(txn, id); err != nil {
			return joined{}, false, err
		}
	}
	row, exists := d.join(txn, id)
	return row, exists, nil
}

// join is a row as it follows from the inputs: there is none without a row on
// the right.
func (d *derivation) join(txn statedb.ReadTxn, id string) (joined, bool) {
	left, _, exists := d.left.Get(txn, byID.Query(id))
	row := joined{ID: id, Group: left.Group}
	for right := range d.right.List(txn, byGroup.Query(left.Group)) {
		row.Sum += right.Number
		row.Rows++
	}
	return row, exists && row.Rows > 0
}

// sleep lets time go by until there is nothing left to do. What the test has
// changed before, functions of the derivation see.
func (d *derivation) sleep(long time.Duration) {
	d.fence.Add(1)
	time.Sleep(long)
	synctest.Wait()
}

// start begins to run it. The test has to be in a bubble.
func (d *derivation) start() {
	d.t.Helper()
	deriver, err := statedb.NewDeriver(d.t.Context(), d.spec)
	if err != nil {
		d.t.Fatal(err)
	}
	d.run(deriver)
}

func (d *derivation) run(deriver *statedb.Deriver[joined, string]) {
	ctx, cancel := context.WithCancel(d.t.Context())
	d.cancel, d.ended = cancel, make(chan error, 1)
	go func() { d.ended <- deriver.Run(ctx) }()
	synctest.Wait()
}

func (d *derivation) stop() {
	d.t.Helper()
	d.cancel()
	d.end(context.Canceled)
}

func (d *derivation) end(want error) {
	d.t.Helper()
	if err := <-d.ended; !errors.Is(err, want) {
		d.t.Errorf("Run returned %v, expected %v", err, want)
	}
	d.cancel()
}

// write changes both inputs in one transaction and waits until that is derived.
func (d *derivation) write(fn func(txn *statedb.WriteTxn) error) {
	d.t.Helper()
	d.commit(fn)
	synctest.Wait()
}

func (d *derivation) commit(fn func(txn *statedb.WriteTxn) error) {
	d.t.Helper()
	if err := d.db.Update(d.t.Context(), fn, d.left, d.right); err != nil {
		d.t.Fatal(err)
	}
}

func (d *derivation) put(table statedb.RWTable[item], rows ...item) {
	d.t.Helper()
	d.write(inserting(table, rows...))
}

func (d *derivation) remove(table statedb.RWTable[item], ids ...string) {
	d.t.Helper()
	d.write(func(txn *statedb.WriteTxn) error {
		for _, id := range ids {
			if _, _, err := table.Delete(txn, item{ID: id}); err != nil {
				return err
			}
		}
		return nil
	})
}

func inserting[Obj any](table statedb.RWTable[Obj], rows ...Obj) func(*statedb.WriteTxn) error {
	return func(txn *statedb.WriteTxn) error {
		for _, row := range rows {
			if _, _, err := table.Insert(txn, row); err != nil {
				return err
			}
		}
		return nil
	}
}

// want compares the output, as "id=sum" in key order.
func (d *derivation) want(want ...string) {
	d.t.Helper()
	var got []string
	for row := range d.out.All(d.db.ReadTxn()) {
		got = append(got, fmt.Sprintf("%s=%d", row.ID, row.Sum))
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		d.t.Errorf("the output is not as expected (-want +got):\n%s", diff)
	}
}

// wantComputed compares the keys that were computed since it was last called.
func (d *derivation) wantComputed(want ...string) {
	d.t.Helper()
	if diff := gocmp.Diff(want, d.computed); diff != "" {
		d.t.Errorf("other keys were computed than expected (-want +got):\n%s", diff)
	}
	d.computed = nil
}

// differs compares the output with what follows from the inputs.
func (d *derivation) differs() error {
	txn := d.db.ReadTxn()
	want, got := map[string]joined{}, map[string]joined{}
	for left := range d.left.All(txn) {
		if row, exists := d.join(txn, left.ID); exists {
			want[left.ID] = row
		}
	}
	for row := range d.out.All(txn) {
		got[row.ID] = row
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		return fmt.Errorf("the output is not what follows from the inputs (-want +got):\n%s", diff)
	}
	return nil
}

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
		deriver, err := statedb.NewDeriver(t.Context(), d.spec)
		if err != nil {
			t.Fatal(err)
		}
		d.run(deriver)
		d.want("a=1", "b=1")
		d.stop()
		d.remove(d.left, "a")
		d.put(d.left, item{ID: "c", Group: "x"})
		d.want("a=1", "b=1")
		before := d.out.Revision(d.db.ReadTxn())
		d.run(deriver)
		d.want("b=1", "c=1")
		if written := d.out.Revision(d.db.ReadTxn()) - before; written != 2 {
			t.Errorf("%d rows were written or deleted, expected 2", written)
		}
		if err := deriver.Run(t.Context()); err == nil || errors.Is(err, context.Canceled) {
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

// TestAResetOfAnInputLosesNothing: while a row is computed, more rows are deleted than
// the input remembers.
func TestAResetOfAnInputLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDerivation(t)
		statedb.SetMinWindow(d.left, 3)
		var rows []item
		var gone []string
		for i := range 900 {
			rows = append(rows, item{ID: fmt.Sprintf("%03d", i), Group: "x"})
			if i > 1 {
				gone = append(gone, rows[i].ID)
			}
		}
		d.put(d.left, rows...)
		d.put(d.right, item{ID: "1", Group: "x", Number: 1}, item{ID: "2", Group: "y", Number: 2})
		d.start()
		d.computed = nil
		before := d.out.Revision(d.db.ReadTxn())
		d.hook = func(statedb.ReadTxn, string) error {
			d.hook = nil
			for _, id := range gone {
				d.commit(func(txn *statedb.WriteTxn) error {
					_, _, err := d.left.Delete(txn, item{ID: id})
					return err
				})
			}
			return nil
		}
		d.put(d.left, item{ID: "000", Group: "y"})
		d.want("000=2", "001=1")
		if n := len(d.computed); n != 1+900 {
			t.Errorf("%d rows were computed, expected one, and then all that were there", n)
		}
		if written := d.out.Revision(d.db.ReadTxn()) - before; written != 1+898 {
			t.Errorf("%d rows were written or deleted, expected 899", written)
		}
		d.stop()
	})
}

// TestTheOrderOfEventsDoesNotMatter applies the same events, each to a row of its own, in
// many orders, all at once, 1 ms apart, or so that the derivation sees each.
func TestTheOrderOfEventsDoesNotMatter(t *testing.T) {
	var before, after []item
	for i := range 12 {
		before = append(before, item{ID: fmt.Sprint(i), Group: fmt.Sprint(i % 4), Number: i})
		after = append(after, item{ID: fmt.Sprint(i), Group: fmt.Sprint(i % 3), Number: 1 << i})
	}
	for seed := range uint64(30) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 0))
			d := newDerivation(t)
			var events []func(*statedb.WriteTxn) error
			for i := range after {
				for _, table := range []statedb.RWTable[item]{d.left, d.right} {
					if i%5 != 0 { // that one is new
						d.put(table, before[i])
					}
					if i%4 == 3 {
						events = append(events, func(txn *statedb.WriteTxn) error {
							_, _, err := table.Delete(txn, after[i])
							return err
						})
						continue
					}
					events = append(events, inserting(table, after[i]))
				}
			}
			d.start()
			random.Shuffle(len(events), func(i, j int) { events[i], events[j] = events[j], events[i] })
			for _, event := range events {
				d.commit(event)
				switch seed % 3 {
				case 1:
					d.sleep(time.Millisecond)
				case 2:
					synctest.Wait()
				}
			}
			synctest.Wait()
			check(t, fmt.Sprintf("seed %d", seed), d.differs())
			d.want("0=577", "1=1042", "10=1042", "2=292", "4=1042", "5=292", "6=577", "8=292", "9=577")
			d.stop()
		})
	}
}

// TestFoldOfInputsIsTheOutput writes at random, also while rows are computed, with inputs
// that remember little and a computation that often fails. Once the failures end,
// the output is what follows from the inputs.
func TestFoldOfInputsIsTheOutput(t *testing.T) {
	seeds := uint64(60)
	if raceEnabled {
		seeds = 10
	}
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			d := newDerivation(t)
			statedb.SetMinWindow(d.left, 1+random.IntN(10))
			statedb.SetMinWindow(d.right, 1+random.IntN(10))
			var failing atomic.Bool
			chance := rand.New(rand.NewPCG(seed, 2)) // of the goroutine that computes
			d.hook = func(statedb.ReadTxn, string) error {
				switch n := chance.IntN(80); {
				case !failing.Load():
				case n == 0:
					panic("now and then")
				case n < 12:
					return errAborted
				case n < 16:
					d.commit(d.randomWrites(chance, 20))
				case n == 16: // more than the inputs remember
					d.commit(d.randomWrites(chance, 1_000))
				}
				return nil
			}
			d.start()
			for round := range 40 {
				failing.Store(true)
				d.commit(d.randomWrites(random, 12))
				d.sleep(time.Duration(random.IntN(300)) * time.Millisecond)
				if round%10 == 9 {
					failing.Store(false)
					d.sleep(2 * time.Minute)
					synctest.Wait()
					check(t, fmt.Sprintf("seed %d, round %d", seed, round), d.differs())
					if state := d.out.Sources(d.db.ReadTxn()); !state[0].Initialized || state[0].Incomplete != "" {
						t.Errorf("all is well, but the source is %+v", state[0])
					}
				}
			}
			d.stop()
		})
	}
}

func (d *derivation) randomWrites(random *rand.Rand, most int) func(*statedb.WriteTxn) error {
	return func(txn *statedb.WriteTxn) error {
		for range random.IntN(most) {
			table := d.left
			if random.IntN(2) == 0 {
				table = d.right
			}
			row := item{ID: fmt.Sprint(random.IntN(20)), Group: fmt.Sprint(random.IntN(5)), Number: random.IntN(3)}
			var err error
			if random.IntN(3) > 0 {
				_, _, err = table.Insert(txn, row)
			} else {
				_, _, err = table.Delete(txn, row)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
}

func TestDerivationsFollowEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDerivation(t)
		sums := newTable(t, d.db, statedb.Schema[place]{
			Name: "sums", Primary: statedb.NewIndex("group", func(p place) string { return p.Group }),
		})
		deriver, err := statedb.NewDeriver(t.Context(), statedb.Derivation[place, string]{
			Output: sums,
			Inputs: []statedb.DeriveInput[string]{
				statedb.DeriveFrom(d.out, func(_ statedb.ReadTxn, row joined, affects func(string)) { affects(row.Group) }),
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
		go func() { ended <- deriver.Run(ctx) }()
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
