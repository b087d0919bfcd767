package route

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/target/internal/nstest"
	"github.com/statehive/statehive/reconciler/target/rtnl"
	"github.com/statehive/statehive/statedb"
)

func txn() statedb.ReadTxn { return statedb.New().ReadTxn() }

func mustUpdate(t *testing.T, target *Target, row Route, changed bool) {
	t.Helper()
	result, err := target.Update(t.Context(), txn(), row)
	if err != nil || result.Changed != changed {
		t.Fatalf("Update(%s) = %v, %v, expected changed %v", describe(row), result, err, changed)
	}
}

func mustDelete(t *testing.T, target *Target, row Route) {
	t.Helper()
	if err := target.Delete(t.Context(), txn(), row); err != nil {
		t.Fatal(err)
	}
}

func wantDiff(t *testing.T, target *Target, row Route, want ...reconciler.Change) {
	t.Helper()
	changes, err := target.Diff(t.Context(), txn(), row)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, changes); diff != "" && len(want)+len(changes) > 0 {
		t.Errorf("Diff(%s) (-want +got):\n%s", describe(row), diff)
	}
}

func observe(t *testing.T, target *Target) []Route {
	t.Helper()
	var rows []Route
	for row, err := range target.Observe(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, row)
	}
	return rows
}

func wantObserved(t *testing.T, target *Target, want ...string) {
	t.Helper()
	var keys []string
	for _, row := range observe(t, target) {
		keys = append(keys, row.Key().String())
	}
	slices.Sort(keys)
	slices.Sort(want)
	if diff := cmp.Diff(want, keys); diff != "" && len(want)+len(keys) > 0 {
		t.Errorf("observed (-want +got):\n%s", diff)
	}
}

func TestARouteThatOthersMadeIsLeftAlone(t *testing.T) {
	for name, c := range map[string]struct {
		row    Route
		add    []string
		list   []string
		holder string
	}{
		"IPv4": {
			Route{Destination: to("10.1.0.0/16"), Gateway: gateway4},
			[]string{"route", "add", "10.1.0.0/16", "via", "192.0.2.98", "proto", "static"},
			[]string{"route", "show", "10.1.0.0/16"},
			"route 10.1.0.0/16: somebody else's route is there (protocol static via 192.0.2.98 dev e0)",
		},
		"the same, but for its protocol": {
			Route{Destination: to("10.1.0.0/16"), Gateway: gateway4},
			[]string{"route", "add", "10.1.0.0/16", "via", "192.0.2.99", "proto", "boot"},
			[]string{"route", "show", "10.1.0.0/16"},
			"(protocol boot via 192.0.2.99 dev e0)",
		},
		"IPv4 in a table": {
			Route{Destination: to("10.1.0.0/16"), Device: "e0", Table: 1000, Metric: 9},
			[]string{"route", "add", "10.1.0.0/16", "dev", "e1", "table", "1000", "metric", "9", "proto", "99"},
			[]string{"route", "show", "table", "1000"},
			"route 10.1.0.0/16 table 1000 metric 9: somebody else's route is there (protocol 99 dev e1)",
		},
		"IPv6": {
			Route{Destination: to("2001:db8:1::/48"), Gateway: gateway6},
			[]string{"-6", "route", "add", "2001:db8:1::/48", "via", "2001:db8::98", "proto", "bird"},
			[]string{"-6", "route", "show", "2001:db8:1::/48"},
			"route 2001:db8:1::/48: somebody else's route is there (protocol bird via 2001:db8::98 dev e0)",
		},
		"IPv6, its metric given": {
			Route{Destination: to("2001:db8:1::/48"), Device: "e1", Metric: 1024},
			[]string{"-6", "route", "add", "2001:db8:1::/48", "dev", "e0", "proto", "ra"},
			[]string{"-6", "route", "show", "2001:db8:1::/48"},
			"(protocol ra dev e0)",
		},
	} {
		t.Run(name, func(t *testing.T) {
			network(t)
			target := newTarget(t)
			nstest.IP(t, c.add...)
			before := nstest.IP(t, c.list...)
			_, err := target.Update(t.Context(), txn(), c.row)
			if !errors.Is(err, ErrForeign) || !strings.Contains(err.Error(), c.holder) {
				t.Errorf("Update: %v, expected %q", err, c.holder)
			}
			if _, err := target.Diff(t.Context(), txn(), c.row); !errors.Is(err, ErrForeign) {
				t.Errorf("Diff: %v", err)
			}
			// It comes between the mirror's look and our request.
			mirrored := newTarget(t)
			runMirror(t, mirrored)
			if _, err := mirrored.Update(t.Context(), txn(), c.row); !errors.Is(err, ErrForeign) || !strings.Contains(err.Error(), c.holder) {
				t.Errorf("Update with a mirror: %v, expected %q", err, c.holder)
			}
			if err := mirrored.Delete(t.Context(), txn(), c.row); err != nil {
				t.Error(err)
			}
			wantObserved(t, target)
			mustDelete(t, target, c.row)
			if after := nstest.IP(t, c.list...); after != before || before == "" {
				t.Errorf("the route was\n%s\nand is\n%s", before, after)
			}
		})
	}
}

func TestARouteOfOursBesideAnotherMetricIsTheOneThatGoes(t *testing.T) {
	network(t)
	target := newTarget(t)
	plain := Route{Destination: to("10.1.0.0/16"), Gateway: gateway4}
	second := Route{Destination: to("10.1.0.0/16"), Gateway: gateway4, Metric: 5}
	mustUpdate(t, target, second, true)
	nstest.IP(t, "route", "add", "10.1.0.0/16", "via", "192.0.2.98", "proto", "static")
	mustDelete(t, target, plain)
	wantObserved(t, target, "10.1.0.0/16 metric 5")
	mustDelete(t, target, second)
	if got := nstest.IP(t, "route", "show", "10.1.0.0/16"); !strings.Contains(got, "proto static") || strings.Count(got, "\n") != 1 {
		t.Errorf("routes are\n%s", got)
	}
}

func TestAMissingGatewayIsToldInTheKernelsWords(t *testing.T) {
	network(t)
	target := newTarget(t)
	row := Route{Destination: to("10.99.0.0/16"), Gateway: netip.MustParseAddr("203.0.113.1")}
	_, err := target.Update(t.Context(), txn(), row)
	const want = "add route 10.99.0.0/16 via 203.0.113.1: Nexthop has invalid gateway (network is unreachable)"
	if fmt.Sprint(err) != want || !errors.Is(err, syscall.ENETUNREACH) {
		t.Errorf("error\n%v\nexpected\n%s", err, want)
	}
	nstest.IP(t, "address", "add", "203.0.113.2/24", "dev", "e1")
	mustUpdate(t, target, row, true)
	mustUpdate(t, target, row, false)
}

func TestAMissingDeviceIsNamed(t *testing.T) {
	target := newTarget(t)
	row := Route{Destination: to("10.99.0.0/16"), Device: "none0", Metric: 3, Table: 100}
	_, err := target.Update(t.Context(), txn(), row)
	const want = `route 10.99.0.0/16 dev none0 table 100 metric 3: device "none0" does not exist`
	if fmt.Sprint(err) != want || !errors.Is(err, syscall.ENODEV) {
		t.Errorf("error\n%v\nexpected\n%s", err, want)
	}
	mustDelete(t, target, row)
}

func TestRoutesThatTheKernelFlushedAreRepaired(t *testing.T) {
	network(t)
	target := newTarget(t)
	rows := []Route{
		{Destination: to("10.1.0.0/16"), Gateway: gateway4, Device: "e0"},
		{Destination: to("10.2.0.0/16"), Device: "e0"},
	}
	for _, row := range rows {
		mustUpdate(t, target, row, true)
	}
	t.Run("link down and up", func(t *testing.T) {
		nstest.IP(t, "link", "set", "e0", "down")
		wantObserved(t, target)
		nstest.IP(t, "link", "set", "e0", "up")
		wantDiff(
			t, target, rows[0],
			reconciler.Change{Field: "destination", Want: "10.1.0.0/16"},
			reconciler.Change{Field: "gateway", Want: "192.0.2.99"},
			reconciler.Change{Field: "device", Want: "e0"},
		)
		for _, row := range rows {
			mustUpdate(t, target, row, true)
			mustUpdate(t, target, row, false)
		}
	})
	t.Run("link made again", func(t *testing.T) {
		nstest.IP(t, "link", "del", "e1") // takes the other end along
		network(t)
		for _, row := range rows {
			mustUpdate(t, target, row, true)
			mustUpdate(t, target, row, false)
		}
	})
}

func TestOneFieldIsChangedInPlace(t *testing.T) {
	network(t)
	target := newTarget(t)
	for _, row := range []Route{
		{Destination: to("10.1.0.0/16"), Gateway: gateway4},
		{Destination: to("2001:db8:1::/48"), Gateway: gateway6},
	} {
		mustUpdate(t, target, row, true)
		was := row.Gateway.String()
		row.Gateway = row.Gateway.Prev()
		wantDiff(t, target, row, reconciler.Change{Field: "gateway", Is: was, Want: row.Gateway.String()})
		mustUpdate(t, target, row, true)
		wantDiff(t, target, row)
	}
	wantObserved(t, target, "10.1.0.0/16", "2001:db8:1::/48")
}

// The kernel was started with ipv6.disable=1.
func TestAKernelWithoutIPv6HasEachRouteOnce(t *testing.T) {
	nstest.Veth(t, "e0", "e1")
	target := newTarget(t)
	mustUpdate(t, target, Route{Destination: to("198.51.100.0/24"), Device: "e0"}, true)
	request := fixed{family: Inet6, protocol: Protocol}.request(unix.RTM_GETROUTE, 0)
	request.Data[0] = unix.AF_DECnet // no kernel with network namespaces of late has it
	all, err := rtnl.Dump(t.Context(), target.conn, request, decodeRoute)
	if err != nil || len(all) != 1 {
		t.Fatalf("the kernel lists %d routes of a family that it does not have, %v, expected those of all others", len(all), err)
	}
	if routes, err := rtnl.Dump(t.Context(), target.conn, request, Inet6.decode); err != nil || len(routes) > 0 {
		t.Errorf("the routes of IPv6 are %v, %v", routes, err)
	}
	if routes, err := target.list(t.Context(), Inet, 0, Protocol); err != nil || len(routes) != 1 {
		t.Errorf("the routes of IPv4 are %v, %v", routes, err)
	}
}
