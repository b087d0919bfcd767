package rule

import (
	"net/netip"
	"testing"
	"time"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/target/route"
)

// many returns rules of both families in 100 tables.
func many(n int) []Rule {
	rows := make([]Rule, n)
	for i := range rows {
		rows[i] = Rule{Priority: uint32(1000 + i/2), Table: route.Table(1000 + i%100)}
		if i%2 == 0 {
			rows[i].From = netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), 32)
		} else {
			rows[i].Family = route.Inet6
			rows[i].Mark = Mark{uint32(i), 1<<32 - 1}
		}
	}
	return rows
}

// batches calls do with rows as a reconciler does: 256 at a time.
func batches(rows []Rule, do func([]Rule)) {
	const size = 256
	for first := 0; first < len(rows); first += size {
		do(rows[first:min(first+size, len(rows))])
	}
}

func wantBatch(t *testing.T, results []reconciler.BatchResult, changed bool) {
	t.Helper()
	for i, result := range results {
		if result.Err != nil || result.Result.Changed != changed {
			t.Fatalf("outcome %d: %+v, expected changed %v", i, result, changed)
		}
	}
}

// TestManyRulesNeedNoListing counts what a target asks the kernel: nothing lists, and
// what is right is not touched.
func TestManyRulesNeedNoListing(t *testing.T) {
	const count = 10_000
	rows := many(count)
	t.Run("made", func(t *testing.T) { // and the target is gone by the end
		target := newTarget(t)
		runMirror(t, target)
		began := time.Now()
		batches(rows, func(rows []Rule) { wantBatch(t, target.UpdateBatch(t.Context(), txn(), rows), true) })
		t.Logf("%d rules were added in %v", count, time.Since(began))
		if n := target.conn.Requested(); n != count {
			t.Errorf("%d requests to add %d rules", n, count)
		}
	})

	// Another process starts over, and changes all of them. The first one's mirror must not run
	// beside it: nothing waits for what that receives, so a small buffer would overflow.
	second := newTarget(t)
	runMirror(t, second)
	batches(rows, func(rows []Rule) { wantBatch(t, second.UpdateBatch(t.Context(), txn(), rows), false) })
	if n := second.conn.Requested(); n != 0 {
		t.Errorf("%d requests to start over what is right", n)
	}
	for i := range rows {
		rows[i].Table++
	}
	began := time.Now()
	batches(rows, func(rows []Rule) { wantBatch(t, second.UpdateBatch(t.Context(), txn(), rows), true) })
	t.Logf("they were changed in %v", time.Since(began))
	began = time.Now()
	batches(rows, func(rows []Rule) {
		for _, err := range second.DeleteBatch(t.Context(), txn(), rows) {
			if err != nil {
				t.Fatal(err)
			}
		}
	})
	t.Logf("they were removed in %v", time.Since(began))
	if n := second.conn.Requested(); n != 3*count {
		t.Errorf("%d requests to change and to remove %d rules, expected three for each", n, count)
	}
	if n := second.conn.Asked(); n != 1 {
		t.Errorf("%d questions in all, expected only that of the listing", n)
	}
	wantObserved(t, second)
}

func TestABatchTellsItsRowsApart(t *testing.T) {
	target := newTarget(t)
	runMirror(t, target)
	rows := many(100)
	add(t, "priority", "1005", "table", "9", "protocol", "static")
	rows[11].Table, rows[11].Action = 7, Blackhole
	for i, result := range target.UpdateBatch(t.Context(), txn(), rows) {
		if fails := i == 10 || i == 11; (result.Err != nil) != fails || result.Result.Changed == fails {
			t.Errorf("outcome %d: %+v", i, result)
		}
	}
	for i, err := range target.DeleteBatch(t.Context(), txn(), rows) {
		if err != nil {
			t.Errorf("outcome %d: %v", i, err)
		}
	}
	wantObserved(t, target)
	wantLines(t, 1005, "lookup 9")
}
