package route

import (
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
