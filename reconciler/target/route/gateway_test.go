package route

import (
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/statehive/statehive/reconciler/target/internal/nstest"
	"github.com/statehive/statehive/statedb"
)

// A route stays on its device when the network of its gateway moves to another one, such as the bridge whose port the device becomes.
func TestARouteFollowsTheNetworkOfItsGateway(t *testing.T) {
	for name, row := range map[string]Route{
		"IPv4":                     {Destination: to("10.1.0.0/16"), Gateway: gateway4},
		"IPv4, several":            {Destination: to("10.1.0.0/16"), Nexthops: hops("192.0.2.98", "192.0.2.99")},
		"IPv6":                     {Destination: to("2001:db8:1::/48"), Gateway: gateway6},
		"IPv6, several":            {Destination: to("2001:db8:1::/48"), Nexthops: hops("2001:db8::98", "2001:db8::99")},
		"IPv6, default":            {Destination: to("::/0"), Gateway: gateway6},
		"IPv6, in a table":         {Destination: to("2001:db8:1::/48"), Gateway: gateway6, Table: 100},
		"IPv4, in a table, routed": {Destination: to("10.1.0.0/16"), Gateway: gateway4, Table: 101},
	} {
		t.Run(name, func(t *testing.T) {
			network(t)
			nstest.Veth(t, "br0", "br1")
			nstest.IP(t, "route", "add", "192.0.2.0/24", "dev", "e0", "table", "101")
			nstest.IP(t, "address", "add", "198.51.100.1/24", "dev", "e0") // one that stays
			target := newTarget(t)
			db, seen := runMirror(t, target)
			mustUpdate(t, target, row, true)
			differs := func() bool {
				target.mirror.Load().Settled(t.Context())
				return len(differences(db.ReadTxn(), statedb.ReadOnly(seen), row)) > 0
			}
			if differs() {
				t.Error("it differs at once")
			}
			nstest.IP(t, "address", "add", "192.0.2.5/24", "dev", "br0")
			nstest.IP(t, "address", "add", "2001:db8::5/64", "dev", "br0", "nodad")
			if differs() {
				t.Error("it differs while both devices are in the network")
			}
			// The network leaves the device.
			nstest.IP(t, "address", "del", "192.0.2.1/24", "dev", "e0") // with the other one
			nstest.IP(t, "address", "del", "2001:db8::1/64", "dev", "e0")
			nstest.IP(t, "address", "del", "2001:db8::7/64", "dev", "e0")
			want := "dev br0"
			if strings.HasSuffix(name, "routed") {
				want = "dev e0"
			}
			if (want == "dev br0") != differs() {
				t.Errorf("it differs is %v, which is wrong", differs())
			}
			mustUpdate(t, target, row, want == "dev br0")
			if differs() {
				t.Error("it differs after the update")
			}
			wantDiff(t, target, row)
			mustUpdate(t, target, row, false)
			text := nstest.IP(t, "-6", "route", "show", "table", "all", "proto", "79") + nstest.IP(t, "route", "show", "table", "all", "proto", "79")
			if !strings.Contains(text, want) || strings.Contains(text, "dev e0") != (want == "dev e0") {
				t.Errorf("the routes are\n%s", text)
			}

			// A row with a device keeps it.
			row.Device = "e0"
			if row.Nexthops.IsZero() && want == "dev br0" {
				nstest.IP(t, "address", "add", "2001:db8::6/64", "dev", "e0", "nodad")
				nstest.IP(t, "route", "add", "192.0.2.0/24", "dev", "e0", "metric", "5")
				mustUpdate(t, target, row, true)
				nstest.IP(t, "address", "del", "2001:db8::6/64", "dev", "e0")
				if differs() {
					t.Error("a row with a device differs")
				}
			}
		})
	}
}

// What else may lead packets for a gateway elsewhere has no effect on the device that the kernel would choose, or may go again.
func TestARouteStaysOnADeviceThatLeadsToItsGateway(t *testing.T) {
	for name, others := range map[string][][]string{
		"a rule of a VPN": {
			{"rule", "add", "priority", "100", "lookup", "52"},
			{"-6", "rule", "add", "priority", "100", "lookup", "52"},
			{"route", "add", "default", "dev", "e2", "table", "52"},
			{"-6", "route", "add", "default", "dev", "e2", "table", "52"},
		},
		"a network of a VPN": {
			{"route", "add", "192.0.2.96/28", "dev", "e2"}, {"-6", "route", "add", "2001:db8::90/124", "dev", "e2"},
		},
		"a route of others through the device, and an address on another": {
			{"address", "add", "198.51.100.1/24", "dev", "e0"},
			{"address", "del", "192.0.2.1/24", "dev", "e0"},
			{"address", "del", "2001:db8::1/64", "dev", "e0"},
			{"address", "del", "2001:db8::7/64", "dev", "e0"},
			{"route", "add", "192.0.2.0/24", "dev", "e0"},
			{"-6", "route", "add", "2001:db8::/64", "dev", "e0"},
			{"address", "add", "192.0.2.97/28", "dev", "e2"},
			{"address", "add", "2001:db8::97/124", "dev", "e2", "nodad"},
		},
		"within a table": {
			{"route", "add", "192.0.2.0/24", "dev", "e2", "table", "100"},
			{"-6", "route", "add", "2001:db8::/64", "dev", "e2", "table", "100"},
			{"route", "add", "unreachable", "192.0.2.96/28", "table", "100"},
			{"-6", "route", "add", "unreachable", "2001:db8::90/124", "table", "100"},
		},
		"both devices in the network": {{"address", "add", "192.0.2.5/24", "dev", "e2"}, {"address", "add", "2001:db8::5/64", "dev", "e2", "nodad"}},
		"a part of the network":       {{"address", "add", "192.0.2.97/28", "dev", "e2"}, {"address", "add", "2001:db8::97/124", "dev", "e2", "nodad"}},
	} {
		t.Run(name, func(t *testing.T) {
			network(t)
			nstest.Veth(t, "e2", "e3")
			target := newTarget(t)
			db, seen := runMirror(t, target)
			rows := []Route{
				{Destination: to("10.1.0.0/16"), Gateway: gateway4},
				{Destination: to("2001:db8:1::/48"), Gateway: gateway6},
				{Destination: to("10.1.0.0/16"), Gateway: gateway4, Table: 100},
				{Destination: to("2001:db8:1::/48"), Gateway: gateway6, Table: 100},
			}
			for _, row := range rows {
				mustUpdate(t, target, row, true)
			}
			for _, arguments := range others {
				nstest.IP(t, arguments...)
			}
			defer func() {
				for _, arguments := range others {
					if i := slices.Index(arguments, "add"); slices.Contains(arguments, "rule") || slices.Contains(arguments, "unreachable") {
						arguments = slices.Clone(arguments)
						arguments[i] = "del"
						nstest.IP(t, arguments...)
					}
				}
			}()
			nstest.IP(t, "address", "add", "2001:db8:99::1/64", "dev", "e0", "nodad")
			nstest.IP(t, "address", "del", "2001:db8:99::1/64", "dev", "e0") // so that all is listed again
			second := newTarget(t)
			runMirror(t, second)
			target.mirror.Load().Settled(t.Context())
			for _, row := range rows {
				if changes := differences(db.ReadTxn(), statedb.ReadOnly(seen), row); len(changes) > 0 {
					t.Errorf("%s differs: %v", describe(row), changes)
				}
				mustUpdate(t, target, row, false)
				mustUpdate(t, second, row, false)
			}
		})
	}
}

func TestARouteFollowsTheRouteToItsGateway(t *testing.T) {
	for name, c := range map[string]struct {
		network, gateway string
		table            Table
	}{
		"IPv4":             {"203.0.113.0/24", "203.0.113.1", MainTable},
		"IPv6":             {"2001:db8:9::/64", "2001:db8:9::1", MainTable},
		"IPv4, in a table": {"192.0.2.0/24", "192.0.2.99", 100}, // and in the main table through e0
		"IPv6, in a table": {"2001:db8::/64", "2001:db8::99", 100},
	} {
		t.Run(name, func(t *testing.T) {
			network(t)
			nstest.Veth(t, "e2", "e3")
			target := newTarget(t)
			db, seen := runMirror(t, target)
			direct := Route{Destination: to(c.network), Device: "e0", Table: c.table}
			row := Route{Destination: To(netip.PrefixFrom(ip(c.gateway), 0).Masked()), Gateway: ip(c.gateway), Table: c.table}
			mustUpdate(t, target, direct, true)
			mustUpdate(t, target, row, true)
			for _, device := range []string{"e2", "e0"} {
				direct.Device = device
				mustUpdate(t, target, direct, true)
				mustFollow(t, target, db, seen, row)
			}
		})
	}
}

// The network of a gateway is on a device that comes up later.
func TestARouteFollowsToADeviceThatComesUp(t *testing.T) {
	network(t)
	nstest.Veth(t, "e2", "e3")
	nstest.IP(t, "link", "set", "e2", "down")
	nstest.IP(t, "address", "add", "198.51.100.1/24", "dev", "e0") // one that stays
	target := newTarget(t)
	db, seen := runMirror(t, target)
	row := Route{Destination: to("10.1.0.0/16"), Gateway: gateway4}
	mustUpdate(t, target, row, true)
	nstest.IP(t, "address", "add", "192.0.2.5/24", "dev", "e2")
	nstest.IP(t, "address", "del", "192.0.2.1/24", "dev", "e0")
	target.mirror.Load().Settled(t.Context())
	nstest.IP(t, "link", "set", "e2", "up")
	mustFollow(t, target, db, seen, row)
}

// mustFollow checks that the mirror finds a route on the wrong device, and that Update mends that.
func mustFollow(t *testing.T, target *Target, db *statedb.DB, seen *statedb.RWTable[Seen], row Route) {
	t.Helper()
	target.mirror.Load().Settled(t.Context())
	if len(differences(db.ReadTxn(), statedb.ReadOnly(seen), row)) == 0 {
		t.Error("it stays on the other device")
	}
	mustUpdate(t, target, row, true)
	mustUpdate(t, target, row, false)
}

// A route that is dead only because its link has no carrier is not removed.
func TestADeadRouteIsNotReplacedByItself(t *testing.T) {
	network(t)
	sysctl(t, "net/ipv4/conf/e0/ignore_routes_with_linkdown", "1")
	target := newTarget(t)
	row := Route{Destination: to("10.1.0.0/16"), Gateway: gateway4}
	mustUpdate(t, target, row, true)
	nstest.IP(t, "link", "set", "e1", "down")
	second := newTarget(t)
	runMirror(t, second) // which lists it as dead
	for range 3 {
		_, _ = second.Update(t.Context(), txn(), row)
		if route := nstest.IP(t, "route", "show", "10.1.0.0/16"); !strings.Contains(route, "via 192.0.2.99") {
			t.Fatalf("the route is %q", route)
		}
	}
}

func sysctl(t *testing.T, name, value string) {
	t.Helper()
	if err := os.WriteFile("/proc/sys/"+name, []byte(value), 0); err != nil {
		t.Fatal(err)
	}
}
