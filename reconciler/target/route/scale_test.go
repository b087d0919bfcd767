package route

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/target/internal/nstest"
)

// many returns IPv4 and IPv6 rows by a few gateways.
func many(n int) []Route {
	rows := make([]Route, n)
	for i := range rows {
		if i%2 == 0 {
			gateway := netip.AddrFrom4([4]byte{192, 0, 2, byte(20 + i%10)})
			rows[i] = Route{Destination: to(fmt.Sprintf("10.%d.%d.0/24", i>>8, i&0xff)), Gateway: gateway}
		} else {
			rows[i] = Route{Destination: to(fmt.Sprintf("2001:db8:%x:%x::/64", 1+i>>8, i&0xff)), Gateway: gateway6}
		}
	}
	return rows
}

// batches calls do with rows as a reconciler does: 256 at a time.
func batches(rows []Route, do func([]Route)) {
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

// TestManyRoutesNeedNoListing counts what a target asks the kernel: nothing lists,
// and what is right is not touched.
func TestManyRoutesNeedNoListing(t *testing.T) {
	network(t)
	const count = 4000
	rows := many(count)
	target := newTarget(t)
	runMirror(t, target)
	dumps, requests := target.conn.Asked(), target.conn.Requested()
	batches(rows, func(rows []Route) { wantBatch(t, target.UpdateBatch(t.Context(), txn(), rows), true) })
	if n := target.conn.Requested() - requests; n != count {
		t.Errorf("%d requests to add %d routes", n, count)
	}

	// Another process starts over.
	second := newTarget(t)
	runMirror(t, second)
	batches(rows, func(rows []Route) { wantBatch(t, second.UpdateBatch(t.Context(), txn(), rows), false) })
	if n := second.conn.Requested(); n != 0 {
		t.Errorf("%d requests to start over what is right", n)
	}
	if routes := observe(t, second); len(routes) != count {
		t.Errorf("%d routes are observed", len(routes))
	}
	const listing = 6 // one dump of links, one of addresses, and two of the routes of each family: of ours, and of others with their keys
	if n := second.conn.Asked(); n != listing {
		t.Errorf("%d questions to start over, expected %d", n, listing)
	}

	batches(rows, func(rows []Route) {
		for _, err := range second.DeleteBatch(t.Context(), txn(), rows) {
			if err != nil {
				t.Fatal(err)
			}
		}
	})
	if n := second.conn.Requested(); n != count {
		t.Errorf("%d requests to remove %d routes", n, count)
	}
	if n := second.conn.Asked(); n != listing {
		t.Errorf("%d questions in all, expected only those of the listing", n)
	}
	if n := target.conn.Asked() - dumps; n > listing {
		t.Errorf("%d questions meanwhile", n)
	}
	wantObserved(t, second)
}

func TestABatchTellsItsRowsApart(t *testing.T) {
	network(t)
	target := newTarget(t)
	runMirror(t, target)
	nstest.IP(t, "route", "add", "10.7.0.0/16", "via", "192.0.2.98", "proto", "static")
	rows := many(200)
	rows[17].Gateway = netip.MustParseAddr("2001:db8:ffff::1")
	rows[18].Gateway = netip.MustParseAddr("203.0.113.1")
	rows[40] = Route{Destination: to("10.7.0.0/16"), Gateway: gateway4}
	want := map[int]string{
		18: "add route 10.0.18.0/24 via 203.0.113.1: Nexthop has invalid gateway (network is unreachable)",
		40: "route 10.7.0.0/16: somebody else's route is there (protocol static via 192.0.2.98 dev e0); it is left alone: remove it, take it over with adopt: true, or choose another metric or table",
	}
	for i, result := range target.UpdateBatch(t.Context(), txn(), rows) {
		switch expected := want[i]; {
		case i == 17: // the words depend on the kernel
			if result.Err == nil {
				t.Error("a gateway that nobody can reach is taken")
			}
		case expected == "" && (result.Err != nil || !result.Result.Changed):
			t.Errorf("outcome %d: %+v", i, result)
		case expected != "" && fmt.Sprint(result.Err) != expected:
			t.Errorf("outcome %d: %v, expected %s", i, result.Err, expected)
		}
	}
}
