package derive_test

import (
	"context"
	"errors"
	"net/netip"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/statehive/statehive/statedb"
	"github.com/statehive/statehive/statedb/derive"
)

// runs runs a derivation in a bubble until the function that is returned.
func runs[Out, Key any](t *testing.T, spec derive.Spec[Out, Key]) (stop func()) {
	t.Helper()
	derived, err := derive.New(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- derived.Run(ctx) }()
	synctest.Wait()
	return func() {
		cancel()
		wantError(t, <-ended, context.Canceled)
	}
}

func TestKeysMayBeOfAnyTypeThatIndexesKnow(t *testing.T) {
	type pair struct{ group, id string } // has no text form
	byPair := statedb.NewIndex("pair", func(i item) pair { return pair{i.Group, i.ID} })
	synctest.Test(t, func(t *testing.T) {
		d := newDerivation(t)
		out := newTable(t, d.db, statedb.Schema[item]{Name: "pairs", Primary: byPair})
		stop := runs(t, derive.Spec[item, pair]{
			Output:  out,
			Primary: byPair,
			Inputs: []derive.Input[pair]{
				derive.From(statedb.ReadOnly(d.left), func(_ statedb.ReadTxn, row item, affects func(pair)) { affects(pair{row.Group, row.ID}) }),
			},
			Compute: func(txn statedb.ReadTxn, key pair) (item, bool, error) {
				row, _, exists := d.left.Get(txn, byID.Query(key.id))
				return row, exists && row.Group == key.group, nil
			},
		})
		d.put(d.left, item{ID: "a", Group: "x"}, item{ID: "b", Group: "x"})
		d.put(d.left, item{ID: "a", Group: "y"})
		d.remove(d.left, "b")
		stop()
		row, _, exists := out.Get(d.db.ReadTxn(), byPair.Query(pair{"y", "a"}))
		if n := out.Len(d.db.ReadTxn()); n != 1 || !exists {
			t.Errorf("%d rows, among them %+v", n, row)
		}
	})
}

func TestKeysMayBeNetworks(t *testing.T) {
	type network struct{ Prefix netip.Prefix }
	byPrefix := statedb.NewPrefixIndex("prefix", func(n network) netip.Prefix { return n.Prefix })
	synctest.Test(t, func(t *testing.T) {
		d := newDerivation(t)
		out := newTable(t, d.db, statedb.Schema[network]{Name: "networks", Primary: byPrefix})
		check(t, "an old row", d.db.Update(t.Context(), inserting(out, network{netip.MustParsePrefix("10.2.0.0/16")}), out))
		stop := runs(t, derive.Spec[network, netip.Prefix]{
			Output:  out,
			Primary: byPrefix.Index,
			Inputs: []derive.Input[netip.Prefix]{
				derive.From(statedb.ReadOnly(d.left), func(_ statedb.ReadTxn, row item, affects func(netip.Prefix)) { affects(netip.MustParsePrefix(row.ID)) }),
			},
			Compute: func(txn statedb.ReadTxn, p netip.Prefix) (network, bool, error) {
				_, _, exists := d.left.Get(txn, byID.Query(p.String()))
				return network{p}, exists, nil
			},
		})
		d.put(d.left, item{ID: "10.1.0.0/16"})
		stop()
		txn := d.db.ReadTxn()
		if _, _, exists := byPrefix.Lookup(txn, statedb.ReadOnly(out), netip.MustParseAddr("10.1.2.3")); out.Len(txn) != 1 || !exists {
			t.Errorf("there are %d rows, the one that is wanted: %t", out.Len(txn), exists)
		}
	})
}

// TestNoRowIsDeletedWhileItIsNotKnownWhatAffectsIt: the output has rows from before. No
// row of an input seems to affect them, but that is because the mapping panics.
func TestNoRowIsDeletedWhileItIsNotKnownWhatAffectsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDerivation(t)
		check(t, "old rows", d.db.Update(t.Context(), inserting(d.out, joined{ID: "a"}, joined{ID: "b"}, joined{ID: "c"}), d.out))
		d.put(d.left, item{ID: "a", Group: "bad"}, item{ID: "b", Group: "x"})
		d.put(d.right, item{ID: "1", Group: "bad"}, item{ID: "2", Group: "x"})
		broken := true
		d.spec.Inputs[0] = derive.From(statedb.ReadOnly(d.left), func(_ statedb.ReadTxn, row item, affects func(string)) {
			if d.fence.Add(1); broken && row.Group == "bad" {
				panic("out of cheese")
			}
			affects(row.ID)
		})
		d.spec.Inputs[1] = derive.From(statedb.ReadOnly(d.right), func(_ statedb.ReadTxn, _ item, affects func(string)) { affects("b") })
		d.start()
		d.want("a=0", "b=0", "c=0")
		d.put(d.right, item{ID: "2", Group: "x", Number: 7})
		d.want("a=0", "b=7", "c=0")
		d.remove(d.right, "2") // one that is seen to go
		d.want("a=0", "c=0")
		d.sleep(10 * time.Minute)
		d.want("a=0", "c=0")
		broken = false
		d.sleep(2 * time.Minute)
		d.want("a=0")
		d.wantState(true, "")
		d.stop()
	})
}

// TestOldRowsOfOtherTablesAreForgotten: what changes are compared with is a snapshot, but
// an old one is not kept for long.
func TestOldRowsOfOtherTablesAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := simple(t, "a")
		byID := statedb.NewIndex("id", func(i *item) string { return i.ID })
		others := newTable(t, d.db, statedb.Schema[*item]{Name: "others", Primary: byID})
		put := func() weak.Pointer[item] {
			row := &item{ID: "a"}
			check(t, "another table", d.db.Update(t.Context(), inserting(others, row), others))
			return weak.Make(row)
		}
		old := put()
		d.start()
		put()
		d.sleep(time.Minute + time.Second)
		put() // what the table keeps for its next transaction is not what the test is about
		runtime.GC()
		if old.Value() != nil {
			t.Error("the old row is still kept")
		}
		d.put(d.right, item{ID: "a", Group: "a", Number: 2})
		d.want("a=2")
		d.stop()
	})
}

func TestAKeyFunctionThatIsNotTheTablesIsAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := simple(t, "a")
		var told error
		stop := runs(t, derive.Spec[joined, int]{
			Output:  d.out,
			Primary: statedb.NewIndex("id", func(j joined) int { return len(j.ID) }),
			Inputs:  []derive.Input[int]{derive.From(statedb.ReadOnly(d.left), func(_ statedb.ReadTxn, _ item, affects func(int)) { affects(1) })},
			Compute: func(statedb.ReadTxn, int) (joined, bool, error) { return joined{ID: "a"}, true, nil },
			Logger:  d.spec.Logger,
			OnError: func(err error) { told = err },
		})
		stop()
		if !errors.Is(told, statedb.ErrKeyChanged) || d.out.Len(d.db.ReadTxn()) != 0 {
			t.Errorf("told of %v, and there are %d rows", told, d.out.Len(d.db.ReadTxn()))
		}
	})
}
