package derive_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/statehive/statehive/statedb"
	"github.com/statehive/statehive/statedb/derive"
)

// attempts notes when a key that fails is computed, as seconds since the test began.
func (d *derivation) attempts(id string, err func() error) *[]float64 {
	began := time.Now()
	var at []float64
	d.hook = func(_ statedb.ReadTxn, computed string) error {
		if computed != id {
			return nil
		}
		at = append(at, time.Since(began).Seconds())
		return err()
	}
	return &at
}

func alwaysAborted() error { return errAborted }

// simple has a row on the left and on the right for each id, derived already.
func simple(t *testing.T, ids ...string) *derivation {
	d := newDerivation(t)
	for _, id := range ids {
		d.commit(inserting(d.left, item{ID: id, Group: id}))
		d.commit(inserting(d.right, item{ID: id, Group: id, Number: 1}))
	}
	return d
}

func TestAFailingKeyIsRetriedWithGrowingPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := simple(t, "a", "b")
		d.spec.MinBackoff, d.spec.MaxBackoff = time.Second, 10*time.Second
		var told []error
		d.spec.OnError = func(err error) { told = append(told, err) }
		at := d.attempts("a", alwaysAborted)
		d.start()
		d.sleep(100 * time.Second)
		pause := 1.0
		for i := range *at {
			if i == 0 {
				continue
			}
			if got := (*at)[i] - (*at)[i-1]; got < 0.8*pause-0.01 || got > 1.2*pause+0.01 {
				t.Errorf("pause %d is %.2f s, expected %.2f ± 20 %%", i, got, pause)
			}
			pause = min(2*pause, 10)
		}
		if n := len(*at); n < 10 || n != len(told) {
			t.Errorf("%d attempts, of which %d were told", n, len(told))
		}
		var row *statedb.RowError
		if !errors.As(told[0], &row) || row.Key != "a" || row.Table != "joined" {
			t.Errorf("told of %v, which does not name the row", told[0])
		}
		wantError(t, told[0], errAborted)
		d.want("b=1")
		d.stop()
	})
}

func TestPausesVary(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := simple(t, "a")
		d.spec.MinBackoff, d.spec.MaxBackoff = time.Second, time.Second
		at := d.attempts("a", alwaysAborted)
		d.start()
		d.sleep(20 * time.Second)
		pauses := map[string]bool{}
		for i := 1; i < len(*at); i++ {
			pauses[fmt.Sprintf("%.3f", (*at)[i]-(*at)[i-1])] = true
		}
		if len(pauses) < 5 {
			t.Errorf("the pauses are %v", pauses)
		}
		d.stop()
	})
}

func TestAnEventOnAFailingKeyIsTriedAtOnceAndBeginsItsPausesAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := simple(t, "a", "b")
		at := d.attempts("a", alwaysAborted)
		d.start()
		d.sleep(10 * time.Minute)
		*at = nil
		d.put(d.right, item{ID: "b", Group: "b", Number: 2}) // of no concern to a
		if len(*at) != 0 {
			t.Fatal("an event on another key was an attempt")
		}
		d.want("b=2")
		d.put(d.right, item{ID: "a", Group: "a", Number: 2})
		if len(*at) != 1 {
			t.Fatalf("%d attempts after the event, expected one", len(*at))
		}
		d.sleep(130 * time.Millisecond)
		if len(*at) != 2 {
			t.Errorf("%d attempts a little later, expected a second one", len(*at))
		}
		d.hook = nil
		d.sleep(time.Second)
		d.want("a=2", "b=2")
		d.stop()
	})
}

func TestAPanicIsAFailureOfItsKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := simple(t, "a", "b")
		d.spec.OnError = func(error) { panic("here too") }
		d.attempts("a", func() error { panic("out of cheese") })
		d.start()
		d.want("b=1")
		d.wantState(true, `table joined, row "a": panic: out of cheese`)
		d.hook = nil
		d.sleep(time.Second)
		d.want("a=1", "b=1")
		d.wantState(true, "")
		d.stop()
	})
}

// TestAPanicOfTheMappingLosesNothing: what the row affects is not known, so all is computed.
func TestAPanicOfTheMappingLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := simple(t, "a", "b", "c")
		panics := ""
		d.spec.Inputs[1] = derive.From(statedb.ReadOnly(d.right), func(txn statedb.ReadTxn, row item, affects func(string)) {
			if row.Tags == "bad" && panics != "" {
				panic(panics)
			}
			d.leftsOf(txn, row, affects)
		})
		d.start()
		panics = "out of cheese"
		d.put(d.right, item{ID: "a", Group: "b", Number: 5, Tags: "bad"})
		d.want("b=1", "c=1") // a was affected by the row as it was
		d.wantState(true, `table right, row "a": panic: out of cheese`)
		d.put(d.right, item{ID: "c", Group: "c", Number: 7}) // others go on
		d.want("b=1", "c=7")
		d.sleep(10 * time.Minute)
		d.want("b=6", "c=7")
		d.computed = nil
		d.sleep(10 * time.Minute)
		if n := len(d.computed); n < 20 || n > 40 { // 3 keys, every minute
			t.Errorf("%d keys were computed in 10 minutes", n)
		}
		d.put(d.right, item{ID: "a", Group: "a", Number: 5})
		d.sleep(time.Second)
		d.want("a=5", "b=1", "c=7")
		d.wantState(true, "")
		d.computed = nil
		d.sleep(10 * time.Minute)
		d.wantComputed()
		d.stop()
	})
}

func TestARefusedRowFailsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := 10
		d := newDerivation(t, func(s *statedb.Schema[joined]) {
			s.Validators = append(s.Validators, func(_ statedb.ReadTxn, p statedb.Proposal[joined]) error {
				switch {
				case p.Object.Sum > 1_000:
					panic("much too large")
				case p.Object.Sum > limit:
					return errAborted
				}
				return nil
			})
		})
		d.put(d.left, item{ID: "a", Group: "a"}, item{ID: "b", Group: "b"}, item{ID: "c", Group: "c"})
		d.put(d.right, item{ID: "a", Group: "a", Number: 1}, item{ID: "b", Group: "b", Number: 20}, item{ID: "c", Group: "c", Number: 3})
		var told error
		d.spec.OnError = func(err error) { told = err }
		d.start()
		d.want("a=1", "c=3")
		wantError(t, told, statedb.ErrRejected, errAborted)
		if state := d.state(); !state.Initialized || !strings.Contains(state.Incomplete, `row "b"`) {
			t.Errorf("the source says %+v", state)
		}
		d.put(d.right, item{ID: "a", Group: "a", Number: 2_000}, item{ID: "c", Group: "c", Number: 4})
		d.want("a=1", "c=4")
		limit = 50
		d.put(d.right, item{ID: "a", Group: "a", Number: 30})
		d.sleep(time.Second)
		d.want("a=30", "b=20", "c=4")
		d.wantState(true, "")
		d.stop()
	})
}

func uniqueSums(s *statedb.Schema[joined]) {
	s.Secondary = append(s.Secondary, statedb.NewIndex("sum", func(j joined) int { return j.Sum }).Unique())
}

func numbered(numbers ...int) []item {
	rows := make([]item, len(numbers))
	for i, n := range numbers {
		id := fmt.Sprintf("%02d", i)
		rows[i] = item{ID: id, Group: id, Number: n}
	}
	return rows
}

func TestAClashOfUniqueKeysDoesNotStopTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDerivation(t, uniqueSums)
		d.put(d.left, numbered(make([]int, 5)...)...)
		d.put(d.right, numbered(1, 2, 2, 3, 4)...)
		var told error
		d.spec.OnError = func(err error) { told = err }
		d.start()
		d.want("00=1", "03=3", "04=4")
		wantError(t, told, statedb.ErrNotUnique)
		if state := d.state(); !strings.Contains(state.Incomplete, `unique index sum: rows "01" and "02" share the key "2"`) {
			t.Errorf("the source says %+v", state)
		}
		d.put(d.right, numbered(4, 2, 5, 3, 1)...) // a swap, and the end of the clash
		d.want("00=4", "02=5", "03=3", "04=1")
		d.sleep(time.Minute)
		d.want("00=4", "01=2", "02=5", "03=3", "04=1")
		d.wantState(true, "")
		d.stop()
	})
}

// TestAClashedSwapIsRepeatedTogether: two rows want to swap, but one of them also wants what a
// third one has. When that makes room both have to be tried in one transaction.
func TestAClashedSwapIsRepeatedTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDerivation(t, uniqueSums, func(s *statedb.Schema[joined]) {
			s.Secondary = append(s.Secondary, statedb.NewMultiIndex("group", func(j joined) iter.Seq[string] {
				return slices.Values(strings.Fields(j.Group))
			}).Unique())
		})
		groups := func(groups ...string) (rows []item) {
			for i, g := range groups {
				rows = append(rows, item{ID: fmt.Sprint(i), Group: g})
			}
			return rows
		}
		sums := func(sums map[string]int) (rows []item) {
			for g, n := range sums {
				rows = append(rows, item{ID: g, Group: g, Number: n})
			}
			return rows
		}
		d.put(d.left, groups("x", "y", "z")...)
		d.put(d.right, sums(map[string]int{"x": 1, "y": 2, "z": 3, "z q": 2, "y ": 1, "q": 3})...)
		d.start()
		d.want("0=1", "1=2", "2=3")
		d.put(d.left, groups("z q", "y ", "z")...) // 0 and 1 swap 1 and 2, but 0 also wants z
		d.want("0=1", "1=2", "2=3")
		d.sleep(time.Hour)
		d.want("0=1", "1=2", "2=3")
		d.remove(d.left, "2")
		d.want("0=1", "1=2")
		d.sleep(2 * time.Minute)
		d.want("0=2", "1=1")
		d.wantState(true, "")
		d.stop()
	})
}

// TestManyClashesEndInTheSameWay has more of them than are taken out one by one.
func TestManyClashesEndInTheSameWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDerivation(t, uniqueSums)
		numbers := make([]int, 100)
		for i := range numbers {
			numbers[i] = i / 2 // pairs clash
			if i >= 60 {
				numbers[i] = 1_000 + i
			}
		}
		d.put(d.left, numbered(numbers...)...)
		d.put(d.right, numbered(numbers...)...)
		d.start()
		d.sleep(time.Minute)
		alone := 0
		for row := range d.out.All(d.db.ReadTxn()) {
			if row.Sum >= 1_000 {
				alone++
			}
		}
		if alone != 40 {
			t.Errorf("%d of the 40 rows that clash with nobody are there", alone)
		}
		for i := range numbers {
			numbers[i] = i
		}
		d.put(d.right, numbered(numbers...)...)
		d.sleep(time.Minute)
		check(t, "without clashes", d.differs())
		d.wantState(true, "")
		d.stop()
	})
}

func TestARowWithAnotherKeyThanAskedForIsAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := simple(t, "a", "b")
		compute := d.spec.Compute
		d.spec.Compute = func(txn statedb.ReadTxn, id string) (joined, bool, error) {
			row, exists, err := compute(txn, id)
			if id == "a" {
				row.ID = "c"
			}
			return row, exists, err
		}
		var told error
		d.spec.OnError = func(err error) { told = err }
		d.start()
		d.want("b=1")
		wantError(t, told, statedb.ErrKeyChanged)
		d.stop()
	})
}

// TestPointersMayComeOutAsTheyAre: a computation may return the object that is stored, and
// must not return nil.
func TestPointersMayComeOutAsTheyAre(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDerivation(t)
		d.put(d.left, item{ID: "a"}, item{ID: "b"})
		byID := statedb.NewIndex("id", func(j *joined) string { return j.ID })
		out := newTable(t, d.db, statedb.Schema[*joined]{Name: "pointers", Primary: byID})
		row := &joined{ID: "a"}
		var told []error
		derived, err := derive.New(t.Context(), derive.Spec[*joined, string]{
			Output:  out,
			Primary: byID,
			Inputs:  d.spec.Inputs[:1],
			Logger:  d.spec.Logger,
			Compute: func(_ statedb.ReadTxn, id string) (*joined, bool, error) {
				if id == "b" {
					return nil, true, nil
				}
				return row, true, nil
			},
			OnError: func(err error) { told = append(told, err) },
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		d.cancel, d.ended = cancel, make(chan error, 1)
		go func() { d.ended <- derived.Run(ctx) }()
		synctest.Wait()
		d.put(d.left, item{ID: "a", Number: 1})
		if txn := d.db.ReadTxn(); out.Len(txn) != 1 || out.Revision(txn) != 1 || len(told) != 1 {
			t.Errorf("%d rows, revision %d, failures %v", out.Len(txn), out.Revision(txn), told)
		}
		wantError(t, told[0], statedb.ErrNilRow)
		d.stop()
	})
}

func TestDerivingEndsWhenATableIsDropped(t *testing.T) {
	drop := func(d *derivation, table statedb.TableMeta) {
		if err := d.db.Drop(d.t.Context(), table); err != nil {
			d.t.Fatal(err)
		}
	}
	t.Run("an input", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			d := simple(t, "a")
			d.start()
			drop(d, d.right)
			d.end(statedb.ErrDropped)
			d.want("a=1") // not taken for a wish
			d.wantState(true, "derivation has ended: table right: table was dropped")
		})
	})
	t.Run("an input before", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			d := simple(t, "a")
			drop(d, d.left)
			d.start()
			d.end(statedb.ErrDropped)
		})
	})
	t.Run("the output", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			d := simple(t, "a")
			d.start()
			drop(d, d.out)
			d.put(d.right, item{ID: "a", Group: "a", Number: 2})
			d.end(statedb.ErrDropped)
			_, err := derive.New(t.Context(), d.spec)
			wantError(t, err, statedb.ErrDropped)
		})
	})
}

func TestDerivingEndsWithItsContextWhileItWaitsForTheTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := simple(t, "a")
		d.start()
		txn, err := d.db.WriteTxn(t.Context(), d.out)
		if err != nil {
			t.Fatal(err)
		}
		d.put(d.right, item{ID: "a", Group: "a", Number: 2})
		d.sleep(time.Minute)
		d.stop()
		txn.Abort()
		d.want("a=1")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		d.spec.Source = "another"
		_, err = derive.New(ctx, d.spec)
		wantError(t, err, context.Canceled)
	})
}

func TestAWrongDerivationIsAnErrorThatSaysWhy(t *testing.T) {
	type spec = derive.Spec[joined, string]
	for want, breakIt := range map[string]func(d *derivation, spec *spec){
		"Output is not set":  func(_ *derivation, s *spec) { s.Output = nil },
		"Primary is not set": func(_ *derivation, s *spec) { s.Primary = statedb.Index[joined, string]{} },
		`index of the table is "id"`: func(_ *derivation, s *spec) {
			s.Primary = statedb.NewIndex("group", func(j joined) string { return j.Group })
		},
		"Compute is not set":      func(_ *derivation, s *spec) { s.Compute = nil },
		"there are no Inputs":     func(_ *derivation, s *spec) { s.Inputs = nil },
		"Inputs[2] has no table":  func(_ *derivation, s *spec) { s.Inputs = append(s.Inputs, derive.Input[string]{}) },
		"Inputs[2] is the output": func(d *derivation, s *spec) { s.Inputs = append(s.Inputs, inputOf(statedb.ReadOnly(d.out))) },
		"belongs to another database": func(_ *derivation, s *spec) {
			s.Inputs = append(s.Inputs, inputOf(statedb.ReadOnly(newDerivation(t).out)))
		},
		"no table or no function: make": func(d *derivation, s *spec) {
			s.Inputs = append(s.Inputs, derive.From[item, string](statedb.ReadOnly(d.left), nil))
		},
	} {
		t.Run(want, func(t *testing.T) {
			d := newDerivation(t)
			breakIt(d, &d.spec)
			_, err := derive.New(t.Context(), d.spec)
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("error %v, expected one with %q", err, want)
			}
			if !errors.Is(err, statedb.ErrSchema) && !errors.Is(err, statedb.ErrForeignTable) {
				t.Errorf("error %v is of no kind", err)
			}
		})
	}
}

func inputOf(table *statedb.Table[joined]) derive.Input[string] {
	return derive.From(table, func(_ statedb.ReadTxn, row joined, affects func(string)) { affects(row.ID) })
}
