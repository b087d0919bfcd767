package derive_test

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/statehive/statehive/statedb"
)

// TestAResetOfAnInputLosesNothing: while a row is computed, more rows are deleted than
// the input remembers.
func TestAResetOfAnInputLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDerivation(t)
		d.left.Untyped().SetMinWindow(3)
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
		if n := len(d.computed); n != 1+2 {
			t.Errorf("%d rows were computed, expected one, and then the two that the input still yields", n)
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
				for _, table := range []*statedb.RWTable[item]{d.left, d.right} {
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
			d.left.Untyped().SetMinWindow(1 + random.IntN(10))
			d.right.Untyped().SetMinWindow(1 + random.IntN(10))
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
