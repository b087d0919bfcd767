package route

import (
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/statehive/statehive/reconciler/target/internal/nstest"
)

func TestRoutesWithSeveralNextHopsAreOursAsAWhole(t *testing.T) {
	for name, c := range map[string]struct {
		row Route
		add [][]string
	}{
		"IPv4": {
			Route{Destination: to("10.1.0.0/16"), Gateway: gateway4},
			[][]string{{"route", "add", "10.1.0.0/16", "proto", "79", "nexthop", "via", "192.0.2.98", "nexthop", "via", "192.0.2.99"}},
		},
		"IPv6": {
			Route{Destination: to("2001:db8:1::/48"), Gateway: gateway6},
			[][]string{{"-6", "route", "add", "2001:db8:1::/48", "proto", "79", "nexthop", "via", "2001:db8::98", "nexthop", "via", "2001:db8::99"}},
		},
		"IPv6, appended": {
			Route{Destination: to("2001:db8:1::/48"), Gateway: gateway6},
			[][]string{
				{"-6", "route", "add", "2001:db8:1::/48", "proto", "79", "via", "2001:db8::99"},
				{"-6", "route", "append", "2001:db8:1::/48", "proto", "79", "via", "2001:db8::98"},
			},
		},
		"IPv6, appended to a device": {
			Route{Destination: to("2001:db8:1::/48"), Gateway: gateway6},
			[][]string{
				{"-6", "route", "add", "2001:db8:1::/48", "proto", "79", "dev", "e1"},
				{"-6", "route", "append", "2001:db8:1::/48", "proto", "79", "via", "2001:db8::98"},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			network(t)
			target := newTarget(t)
			add := func() {
				for _, arguments := range c.add {
					nstest.IP(t, arguments...)
				}
				wantObserved(t, target, c.row.Key().String())
			}
			add()
			mustDelete(t, target, observe(t, target)[0])
			wantObserved(t, target)
			add()
			if changes, err := target.Diff(t.Context(), txn(), c.row); err != nil || len(changes) == 0 {
				t.Errorf("Diff = %v, %v", changes, err)
			}
			mustUpdate(t, target, c.row, true)
			mustUpdate(t, target, c.row, false)
			if rows := observe(t, target); len(rows) != 1 || rows[0].Gateway != c.row.Gateway {
				t.Errorf("observed %v", rows)
			}
			mustDelete(t, target, c.row)
			wantObserved(t, target)
		})
	}
}

func TestRoutesOfOtherTypesAreReplaced(t *testing.T) {
	network(t)
	target := newTarget(t)
	for _, c := range []struct {
		row Route
		add []string
	}{
		{Route{Destination: to("10.1.0.0/16"), Gateway: gateway4}, []string{"route", "add", "blackhole", "10.1.0.0/16", "proto", "79"}},
		{Route{Destination: to("2001:db8:1::/48"), Gateway: gateway6}, []string{"-6", "route", "add", "unreachable", "2001:db8:1::/48", "proto", "79"}},
	} {
		nstest.IP(t, c.add...)
		mustUpdate(t, target, c.row, true)
		mustUpdate(t, target, c.row, false)
		mustDelete(t, target, c.row)
		nstest.IP(t, c.add...)
		mustDelete(t, target, c.row)
	}
	wantObserved(t, target)
}

func TestRoutesOfAServiceAreOursByTheirProtocol(t *testing.T) {
	network(t)
	target := newTarget(t)
	row := Route{Destination: to("10.1.0.0/16"), Gateway: gateway4}
	add := []string{"route", "add", "10.1.0.0/16", "tos", "0x10", "via", "192.0.2.98", "proto", "79"}
	nstest.IP(t, "route", "add", "10.1.0.0/16", "tos", "0x08", "via", "192.0.2.98", "proto", "static")

	nstest.IP(t, add...)
	wantObserved(t, target, "10.1.0.0/16")
	mustDelete(t, target, observe(t, target)[0])
	wantObserved(t, target)

	nstest.IP(t, add...)
	mustUpdate(t, target, row, true)
	mustUpdate(t, target, row, false)
	mustDelete(t, target, row)
	if got := nstest.IP(t, "route", "show", "10.1.0.0/16"); !strings.Contains(got, "proto static") || strings.Count(got, "\n") != 1 {
		t.Errorf("routes are\n%s", got)
	}
}

func TestObserveYieldsAllOfOursAndNothingElse(t *testing.T) {
	network(t)
	target := newTarget(t)
	nstest.IP(t, "route", "add", "10.3.0.0/16", "via", "192.0.2.98", "proto", "static")
	rows := []Route{
		{Destination: to("0.0.0.0/0"), Gateway: gateway4, Table: 300},
		{Destination: to("10.1.0.0/16"), Gateway: gateway4, Device: "e0", Source: netip.MustParseAddr("192.0.2.7"), Metric: 7, Table: MainTable},
		{Destination: to("2001:db8:1::/48"), Device: "e1", Table: 5},
		{Destination: to("::/0"), Gateway: gateway6, Device: "e0"},
	}
	want := map[string]Route{}
	for _, row := range rows {
		mustUpdate(t, target, row, true)
		row, err := row.Normalized()
		if err != nil {
			t.Fatal(err)
		}
		if row.Device == "" {
			row.Device = "e0" // the kernel's choice
		}
		want[row.Key().String()] = row
	}
	got := map[string]Route{}
	for _, row := range observe(t, target) {
		got[row.Key().String()] = row
	}
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b Route) bool { return a == b })); diff != "" {
		t.Errorf("observed (-want +got):\n%s", diff)
	}
	for _, row := range got {
		mustDelete(t, target, row)
	}
	wantObserved(t, target)
}

func TestMostRoutesInSyncNeedNoListing(t *testing.T) {
	network(t)
	target := newTarget(t)
	for _, row := range []Route{
		{Destination: to("10.1.0.0/16"), Gateway: gateway4},
		{Destination: to("10.2.0.0/16"), Device: "e0", Metric: 7},
		{Destination: to("2001:db8:1::/48"), Gateway: gateway6},
	} {
		mustUpdate(t, target, row, true)
		w, err := target.resolve(t.Context(), row, target.indexes())
		if err != nil {
			t.Fatal(err)
		}
		if r, ok, _ := target.chosen(t.Context(), w.row.Key()); !ok || r.protocol != Protocol || !w.matches(r.Seen) {
			t.Errorf("route %s is not found to be in sync", describe(row))
		}
		w.row.Gateway = netip.MustParseAddr("192.0.2.98")
		if r, _, _ := target.chosen(t.Context(), w.row.Key()); w.matches(r.Seen) {
			t.Errorf("route %s is found to be in sync with another gateway", describe(row))
		}
	}
}

func TestRowsMayBeUpdatedAtOnce(t *testing.T) {
	network(t)
	target := newTarget(t)
	var group sync.WaitGroup
	for worker := range 4 {
		group.Go(func() {
			for i := range 25 {
				row := Route{Destination: to(fmt.Sprintf("10.%d.%d.0/24", worker, i)), Gateway: gateway4}
				if result, err := target.Update(t.Context(), txn(), row); err != nil || !result.Changed {
					t.Errorf("Update(%s) = %v, %v", describe(row), result, err)
				}
			}
		})
	}
	group.Wait()
	if rows := observe(t, target); len(rows) != 100 {
		t.Errorf("%d routes, expected 100", len(rows))
	}
}

func TestMoreSpecificRoutesDoNotHideOurs(t *testing.T) {
	network(t)
	target := newTarget(t)
	wide := Route{Destination: to("10.0.0.0/8"), Gateway: gateway4}
	mustUpdate(t, target, wide, true)
	nstest.IP(t, "route", "add", "10.0.0.0/24", "via", "192.0.2.98", "proto", "79")
	mustUpdate(t, target, wide, false)
	nstest.IP(t, "route", "del", "10.0.0.0/8")
	mustUpdate(t, target, wide, true)
}
