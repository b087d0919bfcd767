package route

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/target/internal/nstest"
	"github.com/statehive/statehive/reconciler/target/rtnl"
	"github.com/statehive/statehive/statedb/immutable"
)

// mustHold checks that the route of a row is there, and that nothing more is to be done.
func mustHold(t *testing.T, target *Target, row Route) {
	t.Helper()
	if !holds(t, row) {
		t.Fatalf("the routes for %s are %v, expected %s", describe(row), show(t, row, "79"), shownFor(t, row))
	}
	wantDiff(t, target, row)
	mustUpdate(t, target, row, false)
}

// TestEachFieldIsAppliedAndRepaired makes a row with a field, changes the field, lets
// somebody change it in the kernel, and removes the row by its key.
func TestEachFieldIsAppliedAndRepaired(t *testing.T) {
	four, six := to("10.1.0.0/16"), to("2001:db8:1::/48")
	for name, c := range map[string]struct {
		row, changed Route
		drift        string              // arguments of ip route replace
		told         []reconciler.Change // of the drift
	}{
		"mtu": {
			Route{Destination: four, Gateway: gateway4, MTU: 1400},
			Route{Destination: four, Gateway: gateway4, MTU: 1300},
			"10.1.0.0/16 via 192.0.2.99 mtu 1200",
			[]reconciler.Change{{Field: "mtu", Is: "1200", Want: "1300"}},
		},
		"mtu of IPv6": {
			Route{Destination: six, Gateway: gateway6, MTU: 1400},
			Route{Destination: six, Gateway: gateway6},
			"2001:db8:1::/48 via 2001:db8::99 mtu 1400",
			[]reconciler.Change{{Field: "mtu", Is: "1400"}},
		},
		"scope": {
			Route{Destination: four, Device: "e0", Scope: rtnl.HostScope},
			Route{Destination: four, Device: "e0", Scope: rtnl.GlobalScope},
			"10.1.0.0/16 dev e0 scope link",
			[]reconciler.Change{{Field: "scope", Is: "link", Want: "global"}},
		},
		"scope left out": {
			Route{Destination: four, Device: "e0", Scope: rtnl.HostScope},
			Route{Destination: four, Device: "e0"},
			"10.1.0.0/16 dev e0 scope global",
			[]reconciler.Change{{Field: "scope", Is: "global", Want: "link"}},
		},
		"type": {
			Route{Destination: four, Type: Blackhole},
			Route{Destination: four, Type: Unreachable},
			"prohibit 10.1.0.0/16",
			[]reconciler.Change{{Field: "type", Is: "prohibit", Want: "unreachable"}},
		},
		"type of IPv6": {
			Route{Destination: six, Type: Prohibit},
			Route{Destination: six, Type: Blackhole},
			"2001:db8:1::/48 via 2001:db8::99",
			[]reconciler.Change{
				{Field: "gateway", Is: "2001:db8::99"},
				{Field: "device", Is: "e0"},
				{Field: "type", Is: "unicast", Want: "blackhole"},
			},
		},
		"nexthops": {
			Route{Destination: four, Nexthops: hops("192.0.2.98", "192.0.2.99")},
			Route{Destination: four, Nexthops: hops("192.0.2.97", "192.0.2.99 e0 7", "- e1")},
			"10.1.0.0/16 via 192.0.2.99",
			[]reconciler.Change{
				{Field: "gateway", Is: "192.0.2.99"},
				{Field: "device", Is: "e0"},
				{Field: "nexthops", Want: "via 192.0.2.97, via 192.0.2.99 dev e0 weight 7, dev e1"},
			},
		},
		"nexthops of IPv6": {
			Route{Destination: six, Nexthops: hops("2001:db8::98", "2001:db8::99")},
			Route{Destination: six, Nexthops: hops("2001:db8::99 * 256", "2001:db8::97 e0"), MTU: 1400},
			"2001:db8:1::/48 mtu 1400 nexthop via 2001:db8::99 weight 2 nexthop via 2001:db8::97",
			[]reconciler.Change{{
				Field: "nexthops", Is: "via 2001:db8::97 dev e0, via 2001:db8::99 dev e0 weight 2",
				Want: "via 2001:db8::99 weight 256, via 2001:db8::97 dev e0",
			}},
		},
		"locked mtu": {
			Route{Destination: four, Gateway: gateway4},
			Route{Destination: four, Gateway: gateway4, MTU: 1400},
			"10.1.0.0/16 via 192.0.2.99 mtu lock 1400",
			[]reconciler.Change{{Field: "type", Is: "with metrics other than the MTU", Want: "unicast"}},
		},
		"a metric of TCP": {
			Route{Destination: six, Gateway: gateway6, MTU: 1400},
			Route{Destination: six, Gateway: gateway6},
			"2001:db8:1::/48 via 2001:db8::99 initcwnd 1",
			[]reconciler.Change{{Field: "type", Is: "with metrics other than the MTU", Want: "unicast"}},
		},
		"encapsulation": {
			Route{Destination: four, Gateway: gateway4, MTU: 1400},
			Route{Destination: four, Gateway: gateway4},
			"10.1.0.0/16 encap ip id 7 dst 192.0.2.7 via 192.0.2.99",
			[]reconciler.Change{{Field: "type", Is: "encapsulated", Want: "unicast"}},
		},
		"encapsulation of a next hop": {
			Route{Destination: six, Nexthops: hops("2001:db8::97", "2001:db8::98")},
			Route{Destination: six, Nexthops: hops("2001:db8::98", "2001:db8::99")},
			"2001:db8:1::/48 nexthop via 2001:db8::98 dev e0 nexthop encap ip6 id 7 dst 2001:db8::7 via 2001:db8::99 dev e0",
			[]reconciler.Change{{Field: "type", Is: "encapsulated", Want: "unicast"}},
		},
		"realm": {
			Route{Destination: four, Gateway: gateway4, MTU: 1400},
			Route{Destination: four, Gateway: gateway4},
			"10.1.0.0/16 via 192.0.2.99 realm 5",
			[]reconciler.Change{{Field: "type", Is: "with a realm", Want: "unicast"}},
		},
		"realm of a next hop": {
			Route{Destination: four, Nexthops: hops("192.0.2.97", "192.0.2.98")},
			Route{Destination: four, Nexthops: hops("192.0.2.98", "192.0.2.99")},
			"10.1.0.0/16 nexthop via 192.0.2.98 dev e0 nexthop via 192.0.2.99 dev e0 realm 5",
			[]reconciler.Change{{Field: "type", Is: "with a realm", Want: "unicast"}},
		},
		"lifetime": {
			Route{Destination: six, Gateway: gateway6, MTU: 1400},
			Route{Destination: six, Gateway: gateway6},
			"2001:db8:1::/48 via 2001:db8::99 expires 1000",
			[]reconciler.Change{{Field: "type", Is: "with a lifetime", Want: "unicast"}},
		},
		"preference": {
			Route{Destination: six, Gateway: gateway6, MTU: 1400},
			Route{Destination: six, Gateway: gateway6},
			"2001:db8:1::/48 via 2001:db8::99 pref low",
			[]reconciler.Change{{Field: "type", Is: "with a preference", Want: "unicast"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, target *Target) {
				mustUpdate(t, target, c.row, true)
				mustHold(t, target, c.row)
				mustUpdate(t, target, c.changed, true)
				mustHold(t, target, c.changed)

				family, _ := selector(c.row)
				nstest.IP(t, append([]string{family, "route", "replace", "proto", "79"}, strings.Fields(c.drift)...)...)
				wantDiff(t, target, c.changed, c.told...)
				mustUpdate(t, target, c.changed, true)
				mustHold(t, target, c.changed)

				second := newTarget(t) // another process
				mustHold(t, second, c.changed)
				if rows := observe(t, second); len(rows) != 1 || rows[0].Key() != c.changed.Key() {
					t.Errorf("observed %v", rows)
				}
				mustDelete(t, second, Route{Destination: c.row.Destination})
				wantObserved(t, target)
			})
		})
	}
}

func TestFieldsThatExcludeEachOtherAreNamed(t *testing.T) {
	four, six := to("10.1.0.0/16"), to("2001:db8:1::/48")
	many := make([]Nexthop, 257)
	for i := range many {
		many[i].Gateway = netip.AddrFrom4([4]byte{192, 0, byte(i >> 8), byte(i)}).Next()
	}
	for _, c := range []struct {
		row         Route
		field, text string
	}{
		{Route{Destination: four, Type: Blackhole, Gateway: gateway4}, "gateway", "combined with type blackhole"},
		{Route{Destination: four, Type: Prohibit, Device: "e0"}, "device", "combined with type prohibit"},
		{Route{Destination: four, Type: Unreachable, Nexthops: hops("192.0.2.1")}, "nexthops", "combined with type unreachable"},
		{Route{Destination: four, Type: Blackhole, Source: gateway4}, "source", "combined with type blackhole"},
		{Route{Destination: four, Type: Blackhole, MTU: 1400}, "mtu", "combined with type blackhole"},
		{Route{Destination: four, Type: Blackhole, Scope: rtnl.LinkScope}, "scope", "combined with type blackhole"},
		{Route{Destination: four, Type: 17}, "type", "type 17 is unknown"},
		{Route{Destination: four, Gateway: gateway4, MTU: 67}, "mtu", "expected a number from 68 to 65520"},
		{Route{Destination: four, Gateway: gateway4, MTU: 65521}, "mtu", "expected a number from 68 to 65520"},
		{Route{Destination: six, Gateway: gateway6, MTU: 1279}, "mtu", "expected a number from 1280 to 65520"},
		{Route{Destination: six, Device: "e0", Scope: rtnl.LinkScope}, "scope", "IPv6 routes have no scope"},
		{Route{Destination: four, Gateway: gateway4, Nexthops: hops("192.0.2.1")}, "gateway", "combined with nexthops"},
		{Route{Destination: four, Device: "e0", Nexthops: hops("192.0.2.1")}, "device", "combined with nexthops"},
		{Route{Destination: four, Nexthops: hops("192.0.2.1", "2001:db8::1")}, "nexthops[1].gateway", "not of the family"},
		{Route{Destination: four, Nexthops: hops("192.0.2.1", "-")}, "nexthops[1].gateway", "it is missing"},
		{Route{Destination: six, Nexthops: hops("- e0", "2001:db8::1")}, "nexthops[0].gateway", "of several IPv6 next hops each needs a gateway"},
		{Route{Destination: four, Nexthops: hops("192.0.2.1 a/b")}, "nexthops[0].device", "not the name of a link"},
		{Route{Destination: four, Nexthops: hops("192.0.2.1 e0 257")}, "nexthops[0].weight", "expected a number from 1 to 256"},
		{Route{Destination: four, Nexthops: hops("192.0.2.1", "192.0.2.2", "192.0.2.1")}, "nexthops[2]", "the same as nexthops[0]"},
		{Route{Destination: four, Nexthops: immutable.ListOf(many...)}, "nexthops", "more than 256"},
	} {
		_, err := c.row.Normalized()
		var field *reconciler.FieldError
		if !errors.As(err, &field) || field.Field != c.field || !strings.Contains(field.Err.Error(), c.text) {
			t.Errorf("%s: error %v, expected one about %s with %q", describe(c.row), err, c.field, c.text)
		}
	}
}

func TestOneNexthopIsAGateway(t *testing.T) {
	row := Route{Destination: destination(t, "default"), Nexthops: hops("2001:db8::99 e0 7")}
	got, err := row.Normalized()
	want := Route{Destination: to("::/0"), Family: Inet6, Gateway: gateway6, Device: "e0", Metric: 1024, Table: MainTable}
	if err != nil || got != want {
		t.Errorf("Normalized = %+v, %v, expected %+v", got, err, want)
	}
	row.Nexthops = hops("2001:db8::99", "2001:db8::98")
	got, err = row.Normalized()
	if again, _ := got.Normalized(); err != nil || again != got || got.Key() != row.Key() || got.Key() != want.Key() {
		t.Errorf("Normalized = %+v, %v, again %+v", got, err, again)
	}
}

func TestTypesAndScopesAsText(t *testing.T) {
	for _, text := range []string{"unicast", "blackhole", "unreachable", "prohibit"} {
		var typ Type
		if err := typ.UnmarshalText([]byte(text)); err != nil || typ.String() != text {
			t.Errorf("%q is %v, %v", text, typ, err)
		}
	}
	var typ Type
	if err := typ.UnmarshalText([]byte("throw")); err == nil || !strings.Contains(err.Error(), "expected unicast, blackhole") {
		t.Errorf("throw: %v", err)
	}
}

func TestNexthopsArePairedWhateverTheirOrder(t *testing.T) {
	is := []SeenNexthop{
		{Gateway: gateway4, index: 1, Device: "e0", Weight: 1},
		{Gateway: gateway4, index: 2, Device: "e1", OtherNames: "lan wan", Weight: 1},
		{Gateway: ip("192.0.2.1"), index: 1, Device: "e0", Weight: 3},
	}
	for name, c := range map[string]struct {
		wants            []wantedHop
		missing, surplus int
	}{
		"as they are":              {[]wantedHop{{Nexthop{gateway4, "", 1}, 0}, {Nexthop{gateway4, "e1", 1}, 0}, {Nexthop{ip("192.0.2.1"), "", 3}, 0}}, 0, 0},
		"open before given":        {[]wantedHop{{Nexthop{ip("192.0.2.1"), "", 3}, 0}, {Nexthop{gateway4, "", 1}, 0}, {Nexthop{gateway4, "e0", 1}, 0}}, 0, 0},
		"by index":                 {[]wantedHop{{Nexthop{gateway4, "x", 1}, 2}, {Nexthop{gateway4, "y", 1}, 1}, {Nexthop{ip("192.0.2.1"), "", 3}, 0}}, 0, 0},
		"by another name":          {[]wantedHop{{Nexthop{ip("192.0.2.1"), "", 3}, 0}, {Nexthop{gateway4, "wan", 1}, 0}, {Nexthop{gateway4, "", 1}, 0}}, 0, 0},
		"with another weight":      {[]wantedHop{{Nexthop{gateway4, "", 1}, 0}, {Nexthop{gateway4, "e1", 1}, 0}, {Nexthop{ip("192.0.2.1"), "", 2}, 0}}, 1, 1},
		"one too many":             {[]wantedHop{{Nexthop{gateway4, "", 1}, 0}, {Nexthop{ip("192.0.2.1"), "", 3}, 0}}, 0, 1},
		"another device, the same": {[]wantedHop{{Nexthop{gateway4, "e2", 1}, 3}, {Nexthop{gateway4, "", 1}, 0}, {Nexthop{ip("192.0.2.1"), "", 3}, 0}}, 1, 1},
	} {
		missing, surplus := pair(c.wants, is)
		if diff := cmp.Diff([]int{c.missing, c.surplus}, []int{len(missing), len(surplus)}); diff != "" {
			t.Errorf("%s: missing and surplus (-want +got):\n%s", name, diff)
		}
	}
}
