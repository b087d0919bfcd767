package derive_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/statehive/statehive/statedb"
	"github.com/statehive/statehive/statedb/derive"
)

func (d *derivation) register(table *statedb.RWTable[item], name string) *statedb.Source {
	d.t.Helper()
	var source *statedb.Source
	d.commit(func(txn *statedb.WriteTxn) (err error) {
		source, err = table.RegisterSource(txn, name)
		return err
	})
	return source
}

// state is that of the output's source.
func (d *derivation) state() statedb.SourceState {
	d.t.Helper()
	states := d.out.Sources(d.db.ReadTxn())
	if len(states) != 1 || states[0].Name != "derived" {
		d.t.Fatalf("the sources of the output are %+v, expected one", states)
	}
	return states[0]
}

func (d *derivation) wantState(initialized bool, incomplete string) {
	d.t.Helper()
	if got := d.state(); got.Initialized != initialized || got.Incomplete != incomplete {
		d.t.Errorf("the source of the output is\n  %+v, expected\n  %t %q", got, initialized, incomplete)
	}
}

// TestTheOutputIsInitializedWithTheRowsOfAllInputsAndNotEarlier derives more rows than a
// transaction writes.
func TestTheOutputIsInitializedWithTheRowsOfAllInputsAndNotEarlier(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDerivation(t)
		left, right := d.register(d.left, "files"), d.register(d.right, "files")
		var rows []item
		for i := range 2_500 {
			rows = append(rows, item{ID: fmt.Sprintf("%04d", i), Group: "x"})
		}
		early := 0
		d.hook = func(statedb.ReadTxn, string) error {
			if txn := d.db.ReadTxn(); d.state().Initialized && d.out.Len(txn) < len(rows) {
				early++
			}
			return nil
		}
		initialized := make(chan int, 1)
		d.start()
		d.wantState(false, "")
		_, ready := d.out.Initialized(d.db.ReadTxn())
		go func() {
			<-ready
			initialized <- d.out.Len(d.db.ReadTxn())
		}()
		d.put(d.right, item{ID: "1", Group: "x"})
		d.put(d.left, rows[:10]...)
		d.write(left.Initialized)
		d.wantState(false, "")
		d.write(func(txn *statedb.WriteTxn) error {
			if err := inserting(d.left, rows...)(txn); err != nil {
				return err
			}
			return right.Initialized(txn)
		})
		d.wantState(true, "")
		if n := <-initialized; n != len(rows) || early > 0 {
			t.Errorf("there were %d rows when the output was initialized, expected %d; seen early %d times", n, len(rows), early)
		}
		d.stop()
	})
}

func TestTheOutputIsNotInitializedBeforeTheDerivationRuns(t *testing.T) {
	d := newDerivation(t)
	if _, err := derive.New(t.Context(), d.spec); err != nil {
		t.Fatal(err)
	}
	d.wantState(false, "")
	_, err := derive.New(t.Context(), d.spec)
	wantError(t, err, statedb.ErrSourceExists)
}

func TestIncompleteInputsMakeTheOutputIncomplete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDerivation(t)
		left, right := d.register(d.left, "files"), d.register(d.right, "cluster")
		d.start()
		d.write(left.Initialized)
		d.write(func(txn *statedb.WriteTxn) error { return left.Incomplete(txn, "a.yaml is broken") })
		d.wantState(false, "table left, source files: a.yaml is broken")
		d.write(right.Initialized)
		d.wantState(true, "table left, source files: a.yaml is broken")
		d.write(func(txn *statedb.WriteTxn) error { return right.Incomplete(txn, "no connection") })
		d.wantState(true, "table left, source files: a.yaml is broken; table right, source cluster: no connection")
		d.write(left.Complete)
		d.wantState(true, "table right, source cluster: no connection")
		d.write(right.Complete)
		d.wantState(true, "")
		before := d.db.ReadTxn()
		_, watch := d.out.AllWatch(before)
		d.write(right.Complete)
		if closed(watch) {
			t.Error("somebody was woken up for nothing")
		}
		d.stop()
	})
}

// TestNoSnapshotLacksARowWithoutSayingSo: a row goes because the input is incomplete now. At
// every moment the output either has it or says that it is incomplete.
func TestNoSnapshotLacksARowWithoutSayingSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDerivation(t)
		source := d.register(d.left, "files")
		var rows []item
		for i := range 1_500 {
			rows = append(rows, item{ID: fmt.Sprintf("%04d", i), Group: "x"})
		}
		d.put(d.right, item{ID: "1", Group: "x"})
		d.put(d.left, rows...)
		d.write(source.Initialized)
		d.start()
		wrong := 0
		d.hook = func(statedb.ReadTxn, string) error {
			if d.out.Len(d.db.ReadTxn()) < len(rows) && d.state().Incomplete == "" {
				wrong++
			}
			return nil
		}
		d.write(func(txn *statedb.WriteTxn) error {
			if _, err := d.left.DeleteAll(txn); err != nil {
				return err
			}
			return source.Incomplete(txn, "disk failure")
		})
		d.write(func(txn *statedb.WriteTxn) error {
			if err := inserting(d.left, rows...)(txn); err != nil {
				return err
			}
			return source.Complete(txn)
		})
		check(t, "at the end", d.differs())
		if d.wantState(true, ""); wrong > 0 {
			t.Errorf("%d times a row was missing without a reason", wrong)
		}
		d.stop()
	})
}

func TestNoRowIsDeletedBeforeTheInputsAreInitialized(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDerivation(t)
		source := d.register(d.right, "files")
		old := inserting(d.out, joined{ID: "a"}, joined{ID: "b"}, joined{ID: "c"})
		if err := d.db.Update(t.Context(), old, d.out); err != nil {
			t.Fatal(err)
		}
		d.put(d.left, item{ID: "a", Group: "x"}, item{ID: "b", Group: "y"})
		d.start()
		d.want("a=0", "b=0", "c=0")
		d.put(d.right, item{ID: "1", Group: "x", Number: 1})
		d.want("a=1", "b=0", "c=0")
		d.remove(d.right, "1")
		d.want("a=1", "b=0", "c=0")
		d.put(d.right, item{ID: "1", Group: "y", Number: 2})
		d.computed = nil
		d.write(source.Initialized)
		d.want("b=2")
		d.wantComputed("a") // nothing yields c
		d.wantState(true, "")
		d.stop()
	})
}

func TestAtARestartNothingIsRemovedWhileAnInputIsIncomplete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDerivation(t)
		source := d.register(d.left, "files")
		d.write(source.Initialized)
		d.write(func(txn *statedb.WriteTxn) error { return source.Incomplete(txn, "a.yaml is broken") })
		if err := d.db.Update(t.Context(), inserting(d.out, joined{ID: "a"}, joined{ID: "b"}), d.out); err != nil {
			t.Fatal(err)
		}
		d.put(d.right, item{ID: "1", Group: "x"})
		d.put(d.left, item{ID: "c", Group: "x"})
		d.start()
		d.want("a=0", "b=0", "c=0")
		d.wantState(true, "table left, source files: a.yaml is broken")
		d.remove(d.left, "c") // this one was deleted before our eyes
		d.want("a=0", "b=0")
		d.put(d.left, item{ID: "b", Group: "x"})
		d.write(source.Complete)
		d.want("b=0")
		d.wantState(true, "")
		d.stop()
	})
}

func TestAnInitializedOutputMayStillLackRowsThatCannotBeComputed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDerivation(t)
		d.put(d.left, item{ID: "a", Group: "x"}, item{ID: "b", Group: "x"}, item{ID: "c", Group: "x"})
		d.put(d.right, item{ID: "1", Group: "x"})
		broken := map[string]bool{"a": true, "c": true}
		d.hook = func(_ statedb.ReadTxn, id string) error {
			if broken[id] {
				return errAborted
			}
			return nil
		}
		d.start()
		d.want("b=0")
		if state := d.state(); !state.Initialized || !strings.Contains(state.Incomplete, `table joined, row "`) ||
			!strings.Contains(state.Incomplete, errAborted.Error()) || !strings.Contains(state.Incomplete, "(and 1 more)") {
			t.Errorf("the source says %+v", state)
		}
		delete(broken, "a")
		d.sleep(time.Second)
		d.wantState(true, fmt.Sprintf(`table joined, row "c": %v`, errAborted))
		delete(broken, "c")
		d.sleep(time.Minute)
		d.wantState(true, "")
		d.want("a=0", "b=0", "c=0")
		d.stop()
	})
}
