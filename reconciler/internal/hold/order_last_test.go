package hold

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/statehive/statehive/internal/store"
	"github.com/statehive/statehive/reconciler/internal/pool"
)

// Each full pass records again that a row is still pending.
func TestARowThatStaysPendingIsKeptOnce(t *testing.T) {
	o, entries := pendingRows(t, 1000)
	for range 10 {
		for _, e := range entries {
			o.Changed(e)
		}
	}
	if n := len(o.unapplied.order); n != len(entries) {
		t.Errorf("%d rows are kept in %d places", len(entries), n)
	}
}

// A row may be applied, and be recorded again as it was, since the feed is behind.
func TestARowThatIsAppliedAndPendingAgainIsNotKeptForEver(t *testing.T) {
	o, entries := pendingRows(t, 10)
	for range 1000 {
		for _, e := range entries[1:] {
			o.Applied(string(e.Key()))
			o.Changed(e)
		}
	}
	if n := len(o.unapplied.order); n > 200 {
		t.Errorf("%d rows are kept in %d places", len(entries), n)
	}
}

// Rows are recorded, and applied, in any order.
func TestTheRowThatWasChangedLastIsFound(t *testing.T) {
	o, entries := pendingRows(t, 40)
	random, pending := rand.New(rand.NewPCG(1, 2)), map[string]store.Revision{}
	for _, e := range entries {
		pending[string(e.Key())] = e.Spec()
	}
	for range 20_000 {
		e := entries[random.IntN(len(entries))]
		if random.IntN(3) == 0 {
			o.Changed(e)
			pending[string(e.Key())] = e.Spec()
		} else {
			o.Applied(string(e.Key()))
			delete(pending, string(e.Key()))
		}
		want, last := "", store.Revision(0)
		for key, at := range pending {
			if at > last {
				want, last = key, at
			}
		}
		if key, at := o.unapplied.newest(); key != want || at != last {
			t.Fatalf("%q of %d, want %q of %d", key, at, want, last)
		}
	}
}

// pendingRows returns a policy that holds deletes until the rows of a table are applied, and these rows, which were changed in
// another order than that of their keys.
func pendingRows(tb testing.TB, n int) (*Order, []*store.Entry) {
	b := newBed(tb, "rows")
	var entries []*store.Entry
	for _, i := range rand.New(rand.NewPCG(3, 4)).Perm(n) {
		b.put("rows", row{ID: fmt.Sprintf("%06d", i)})
	}
	o := NewOrder(b.owner("rows"), nil, nil, nil, &DeletesLast{Status: statusOf}, nil)
	for e := range b.tables["rows"].Untyped().All(b.db.ReadTxn(), nil).Entries() {
		entries = append(entries, e)
		o.Changed(e)
	}
	return o, entries
}

// Deletes of rows that name the same one come and go, but for the oldest.
func TestADeleteThatComesAndGoesIsKeptOnce(t *testing.T) {
	b := newBed(t, "routes")
	b.put("routes", row{ID: "oldest"}, row{ID: "x"})
	set := newDeleteSet(b.tables["routes"].Untyped())
	add := func(key string) {
		set.set(deletedRow{key, "same", func() []namedRows { return nil }, b.task(pool.Delete, "routes", key).Entry})
	}
	add("oldest")
	for range 1000 {
		add("x")
		set.remove("x")
	}
	if n := len(set.byID["same"].order); n > 200 {
		t.Errorf("2 rows are kept in %d places", n)
	}
}

// BenchmarkPendingAgain is the part of a full pass that records that rows are still pending.
func BenchmarkPendingAgain(b *testing.B) {
	o, entries := pendingRows(b, 10_000)
	for b.Loop() {
		for _, e := range entries {
			o.Changed(e)
		}
	}
}
