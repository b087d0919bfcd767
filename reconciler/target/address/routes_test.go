package address

import (
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/target/internal/nstest"
	"github.com/statehive/statehive/reconciler/target/link"
	"github.com/statehive/statehive/reconciler/target/mirror"
	"github.com/statehive/statehive/reconciler/target/rtnl"
	"github.com/statehive/statehive/statedb"
)

// newWatcher returns a watcher that knows of some existing links.
func newWatcher(t *testing.T, target *Target, db *statedb.DB, seen *statedb.RWTable[Seen], links ...link.Seen) *RouteWatcher {
	t.Helper()
	existing, err := statedb.NewTable(db, link.SeenSchema())
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Update(t.Context(), func(txn *statedb.WriteTxn) error { return mirror.Write(txn, existing, links, nil) }, existing); err != nil {
		t.Fatal(err)
	}
	devices := link.NewDevices(db, nil, statedb.ReadOnly(existing), reconciler.Observation[link.Link]{})
	return target.NewRouteWatcher(db, devices, statedb.ReadOnly(seen), slog.New(slog.DiscardHandler))
}

// lostRoutes returns the addresses that a watcher finds to have lost the route to their network.
func lostRoutes(t *testing.T, w *RouteWatcher) []string {
	t.Helper()
	w.target.mirror.Load().Settled(t.Context())
	_, lost, err := w.look(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var addresses []string
	for _, s := range lost {
		addresses = append(addresses, s.Address.String())
	}
	slices.Sort(addresses)
	return addresses
}

func routesOf(t *testing.T, family, device string) string {
	t.Helper()
	return strings.Join(strings.Fields(nstest.IP(t, family, "route", "show", "dev", device, "proto", "kernel")), " ")
}

func TestTheRouteOfANetworkThatOthersRemoveIsBack(t *testing.T) {
	const want4, want6 = "192.0.2.0/24 scope link src 192.0.2.1", "2001:db8::/64 metric 256 pref medium"
	for _, c := range []struct {
		family string
		row    Address
		remove string
		want   string
	}{
		{"-4", row("e0", "192.0.2.1/24"), "route flush 192.0.2.0/24", want4},
		{"-6", row("e0", "2001:db8::1/64"), "-6 route flush 2001:db8::/64", want6},
		{"-6", row("e0", "2001:db8::1/64"), "address change 2001:db8::1/64 dev e0 noprefixroute", want6},
		{"-6", row("e0", "2001:db8::1/128"), "-6 route flush 2001:db8::1/128", "2001:db8::1 metric 256 pref medium"},
		{"-6", row("lo", "2001:db8::1/128"), "-6 route flush 2001:db8::1/128 table main", "2001:db8::1 metric 256 pref medium"},
		{"-4", row("e0", "192.0.2.1/24"), "-4 route flush table main", want4 + " linkdown"},
		{"-4", row("e0", "192.0.2.1/24"), "-4 route flush table all", want4},
		{"-6", row("e0", "2001:db8::1/64"), "-6 route flush table main", "2001:db8::/64 metric 256 linkdown pref medium"},
	} {
		t.Run(c.remove, func(t *testing.T) {
			nstest.Veth(t, "e0", "e1")
			if strings.Contains(c.want, "linkdown") {
				nstest.IP(t, "link", "set", "e1", "down")
			}
			nstest.IP(t, "link", "set", "lo", "up")
			target := newTarget(t, t.TempDir())
			db, seen := runMirror(t, target)
			watcher := newWatcher(t, target, db, seen)
			mustUpdate(t, target, c.row, true)
			if lost := lostRoutes(t, watcher); len(lost) > 0 {
				t.Errorf("with its route: %v", lost)
			}
			network := c.row.Address.Masked().String()
			shown, _, _ := strings.Cut(c.want, " ")
			nstest.IP(t, strings.Fields(c.remove)...)
			if is := routesOf(t, c.family, c.row.Device); strings.Contains(is, shown) {
				t.Fatalf("the routes %q", is)
			}
			if lost := lostRoutes(t, watcher); !slices.Equal(lost, []string{c.row.Address.String()}) {
				t.Errorf("without its route: %v", lost)
			}
			changes, err := target.Diff(t.Context(), txn(), c.row)
			if err != nil || len(changes) != 1 || changes[0].Field != networkRoute || changes[0].Want != network {
				t.Errorf("the plan: %v, %v", changes, err)
			}
			mustUpdate(t, target, c.row, true)
			if is := routesOf(t, c.family, c.row.Device); !strings.Contains(is, c.want) || strings.Count(is, shown) != 1 {
				t.Errorf("the routes %q, want %q", is, c.want)
			}
			mustUpdate(t, target, c.row, false)
			if lost := lostRoutes(t, watcher); len(lost) > 0 {
				t.Errorf("with its new route: %v", lost)
			}
			mustDelete(t, target, c.row)
		})
	}
}

// The kernel still lists it for up to half a minute, but does not use it. A router advertisement can bring that about.
func TestTheRouteOfANetworkThatHasExpiredIsBack(t *testing.T) {
	nstest.Veth(t, "e0", "e1")
	target := newTarget(t, t.TempDir())
	db, seen := runMirror(t, target)
	watcher := newWatcher(t, target, db, seen)
	lasting := with("e0", "2001:db8::1/64", rtnl.Scope{}, "1h", "30m")
	mustUpdate(t, target, lasting, true)
	if lost := lostRoutes(t, watcher); len(lost) > 0 {
		t.Errorf("with its route: %v", lost)
	}
	forOtherPackets := strings.Fields("2001:db8::/64 from 2001:db8:77::/64 dev e0 proto static")
	nstest.IP(t, append([]string{"-6", "route", "add"}, forOtherPackets...)...)
	nstest.IP(t, strings.Fields("-6 route change 2001:db8::/64 dev e0 proto kernel metric 256 expires 1")...)
	waitUntil(t, func() bool {
		is := routesOf(t, "-6", "e0")
		return strings.Contains(is, "expires -") || !strings.Contains(is, "2001:db8::/64")
	})
	if lost := lostRoutes(t, watcher); !slices.Equal(lost, []string{"2001:db8::1/64"}) {
		t.Errorf("with a route that has expired: %v", lost)
	}
	mustUpdate(t, target, lasting, true)
	if lost := lostRoutes(t, watcher); len(lost) > 0 {
		t.Errorf("with its new route: %v", lost)
	}
	nstest.IP(t, append([]string{"-6", "route", "del"}, forOtherPackets...)...)
	if to := nstest.IP(t, "-6", "route", "get", "2001:db8::9"); !strings.Contains(to, "dev e0") {
		t.Errorf("the route is %s", to)
	}
	mustDelete(t, target, lasting)
}

func TestTheRouteOfANetworkThatWouldExpireBeforeItsAddressesIsBack(t *testing.T) {
	nstest.Veth(t, "e0", "e1")
	target := newTarget(t, t.TempDir())
	db, seen := runMirror(t, target)
	watcher := newWatcher(t, target, db, seen)
	short, long := with("e1", "2001:db8:1::1/64", rtnl.Scope{}, "15s", "15s"), with("e0", "2001:db8::1/64", rtnl.Scope{}, "1h", "30m")
	other := with("e0", "2001:db8::2/64", rtnl.Scope{}, "forever", "30m")
	for _, row := range []Address{short, long, other} {
		mustUpdate(t, target, row, true)
	}
	if lost := lostRoutes(t, watcher); len(lost) > 0 {
		t.Errorf("with routes that expire when their addresses do: %v", lost)
	}
	for _, expires := range []struct {
		in   string
		look time.Duration
		lost []string
	}{
		{"40", 0, nil}, // it may be looked at again before that
		{"40", 4 * time.Second, []string{"2001:db8::1/64", "2001:db8::2/64"}},
		{"80", time.Minute, nil},
		{"15", 0, []string{"2001:db8::1/64", "2001:db8::2/64"}},
	} {
		watcher.every = routesEvery(expires.look)
		nstest.IP(t, strings.Fields("-6 route change 2001:db8::/64 dev e0 proto kernel metric 256 expires "+expires.in)...)
		if lost := lostRoutes(t, watcher); !slices.Equal(lost, expires.lost) {
			t.Errorf("with a route that expires in %s s, when a look takes %v: %v, want %v", expires.in, expires.look, lost, expires.lost)
		}
	}
	mustUpdate(t, target, long, true)
	if lost := lostRoutes(t, watcher); len(lost) > 0 {
		t.Errorf("with its new route: %v", lost)
	}
	for _, row := range []Address{short, long, other} {
		mustDelete(t, target, row)
	}
}

func TestRoutesThatAreLostAgainAndAgainAreReported(t *testing.T) {
	a, b := Seen{Device: "e0", Index: 2, Address: netip.MustParsePrefix("2001:db8::1/64")}, Seen{Device: "e1", Index: 3, Address: netip.MustParsePrefix("192.0.2.1/24")}
	w := new(Target).NewRouteWatcher(nil, link.Devices{}, nil, nil)
	for i, check := range []struct {
		lost []Seen
		want string
	}{
		{},
		{lost: []Seen{a}},
		{},
		{},
		{},
		{lost: []Seen{a}},
		{},
		{lost: []Seen{a}, want: "2001:db8::1/64 on e0"},
		{lost: []Seen{b}, want: "2001:db8::1/64 on e0"},
		{lost: []Seen{b}, want: "192.0.2.1/24 on e1, and 1 more"},
		{want: "192.0.2.1/24 on e1"},
		{want: "192.0.2.1/24 on e1"},
		{},
		{lost: []Seen{a, b}},
	} {
		got := ""
		if err := w.again(check.lost); err != nil {
			got = err.Error()
		}
		if got != check.want {
			t.Errorf("check %d: got %q, want %q", i, got, check.want)
		}
	}
}

// The kernel's route to the network of several addresses has the first one as its source, which others may have added.
func TestTheRouteOfANetworkIsBackWhoseFirstAddressIsOfOthers(t *testing.T) {
	for name, c := range map[string]struct {
		first string // the address of others and its arguments
		want  string
	}{
		"of others":     {"192.0.2.9/24", "192.0.2.0/24 scope link src 192.0.2.9"},
		"with a metric": {"192.0.2.9/24 metric 7", "192.0.2.0/24 scope link src 192.0.2.9 metric 7"},
	} {
		t.Run(name, func(t *testing.T) {
			nstest.Veth(t, "e0", "e1")
			nstest.IP(t, append(strings.Fields("address add dev e0"), strings.Fields(c.first)...)...)
			target := newTarget(t, t.TempDir())
			db, seen := runMirror(t, target)
			watcher := newWatcher(t, target, db, seen)
			first, second := row("e0", "192.0.2.1/24"), row("e0", "192.0.2.2/24")
			mustUpdate(t, target, first, true)
			mustUpdate(t, target, second, true)
			if lost := lostRoutes(t, watcher); len(lost) > 0 {
				t.Errorf("with its route: %v", lost)
			}
			before := nstest.IP(t, "-details", "address", "show", "dev", "e0")
			nstest.IP(t, "route", "flush", "192.0.2.0/24")
			if lost := lostRoutes(t, watcher); !slices.Equal(lost, []string{"192.0.2.1/24"}) {
				t.Errorf("without its route: %v", lost)
			}
			mustUpdate(t, target, first, true)
			mustUpdate(t, target, second, false)
			if is := routesOf(t, "-4", "e0"); is != c.want {
				t.Errorf("the routes %q, want %q", is, c.want)
			}
			if lost := lostRoutes(t, watcher); len(lost) > 0 {
				t.Errorf("with its new route: %v", lost)
			}
			if after := nstest.IP(t, "-details", "address", "show", "dev", "e0"); after != before {
				t.Errorf("the addresses\n%s\nwere\n%s", after, before)
			}
			mustDelete(t, target, first)
			mustDelete(t, target, second)
			nstest.IP(t, "address", "del", "192.0.2.9/24", "dev", "e0")
			if is := routesOf(t, "-4", "e0"); is != "" {
				t.Errorf("after the last address has gone: the routes %q", is)
			}
		})
	}
}

func TestTheRouteOfANetworkWithSeveralAddressesOfOursIsBack(t *testing.T) {
	nstest.Veth(t, "e0", "e1")
	target := newTarget(t, t.TempDir())
	db, seen := runMirror(t, target)
	watcher := newWatcher(t, target, db, seen)
	for _, address := range []string{"192.0.2.7/24", "192.0.2.1/24"} {
		mustUpdate(t, target, row("e0", address), true)
	}
	nstest.IP(t, "route", "flush", "192.0.2.0/24")
	if lost := lostRoutes(t, watcher); !slices.Equal(lost, []string{"192.0.2.7/24"}) {
		t.Errorf("without its route: %v", lost)
	}
	mustUpdate(t, target, row("e0", "192.0.2.7/24"), true)
	if is, want := routesOf(t, "-4", "e0"), "192.0.2.0/24 scope link src 192.0.2.7"; is != want {
		t.Errorf("the routes %q, want %q", is, want)
	}
}

func TestAddressesThatNeedNoRouteHaveLostNone(t *testing.T) {
	for name, c := range map[string]struct {
		address string
		do      []string // by others, after the address was added
	}{
		"a host":             {"192.0.2.1/32", nil},
		"any network":        {"192.0.2.1/0", nil},
		"another route":      {"192.0.2.1/24", []string{"route replace 192.0.2.0/24 dev e0 proto static"}},
		"another metric":     {"192.0.2.1/24", []string{"route add 192.0.2.0/24 dev e0 metric 5", "route del 192.0.2.0/24 dev e0 proto kernel"}},
		"another IPv6 route": {"2001:db8::1/64", []string{"-6 route add 2001:db8::/64 dev e0 metric 5", "-6 route del 2001:db8::/64 dev e0 proto kernel"}},
		"the link is down":   {"192.0.2.1/24", []string{"link set e0 down"}},
		"no carrier":         {"192.0.2.1/24", []string{"link set e1 down"}},
		"no carrier, IPv6":   {"2001:db8::1/64", []string{"link set e1 down"}},
	} {
		t.Run(name, func(t *testing.T) {
			nstest.Veth(t, "e0", "e1")
			target := newTarget(t, t.TempDir())
			db, seen := runMirror(t, target)
			mustUpdate(t, target, row("e0", c.address), true)
			for _, arguments := range c.do {
				nstest.IP(t, strings.Fields(arguments)...)
			}
			if lost := lostRoutes(t, newWatcher(t, target, db, seen)); len(lost) > 0 {
				t.Errorf("lost: %v", lost)
			}
		})
	}
}

func TestANetworkWhoseFirstAddressHasNoRouteHasLostNone(t *testing.T) {
	nstest.Veth(t, "e0", "e1")
	nstest.IP(t, strings.Fields("address add 192.0.2.9/24 dev e0 noprefixroute")...)
	target := newTarget(t, t.TempDir())
	db, seen := runMirror(t, target)
	mustUpdate(t, target, row("e0", "192.0.2.1/24"), true)
	if lost := lostRoutes(t, newWatcher(t, target, db, seen)); len(lost) > 0 {
		t.Errorf("lost: %v", lost)
	}
}

func TestOnlyRoutesInTheTableOfTheKernelCount(t *testing.T) {
	nstest.Veth(t, "e0", "e1")
	target := newTarget(t, t.TempDir())
	db, seen := runMirror(t, target)
	mustUpdate(t, target, row("e0", "192.0.2.1/24"), true)
	nstest.IP(t, "address", "add", "198.51.100.1/24", "dev", "e0") // of others
	nstest.IP(t, "route", "add", "192.0.2.0/24", "dev", "e0", "table", "100")
	nstest.IP(t, "route", "add", "192.0.2.0/24", "dev", "e0", "table", "101", "proto", "kernel", "scope", "link", "src", "192.0.2.1")
	nstest.IP(t, "route", "flush", "table", "main")
	mustUpdate(t, target, row("lo", "203.0.113.1/24"), true) // the kernel adds a local route
	if lost := lostRoutes(t, newWatcher(t, target, db, seen)); !slices.Equal(lost, []string{"192.0.2.1/24"}) {
		t.Errorf("lost: %v", lost)
	}
	mustDelete(t, target, row("lo", "203.0.113.1/24"))
}

// addresses returns the arguments of ip to do something with several addresses.
func addresses(what string, first, last int) (all []string) {
	for i := first; i <= last; i++ {
		all = append(all, fmt.Sprintf("address "+what, i))
	}
	return all
}

func TestARouteOfOthersThatLeadsTheNetworkOfAnAddressElsewhereIsReported(t *testing.T) {
	for name, c := range map[string]struct {
		row    Address
		others []string // arguments of ip
		want   string
	}{
		"instead of the kernel's": {row("e0", "192.0.2.1/24"), []string{"route replace 192.0.2.0/24 dev v0"}, "192.0.2.0/24 of e0: another route leads to v0"},
		"before the kernel's":     {row("e0", "192.0.2.1/24"), []string{"route prepend 192.0.2.0/24 dev v0"}, "192.0.2.0/24 of e0: another route leads to v0"},
		"after the kernel's":      {row("e0", "192.0.2.1/24"), []string{"route append 192.0.2.0/24 dev v0"}, ""},
		"in IPv6":                 {row("e0", "2001:db8::1/64"), []string{"-6 route replace 2001:db8::/64 dev v0 metric 100"}, "2001:db8::/64 of e0: another route leads to v0"},
		"with another metric":     {row("e0", "2001:db8::1/64"), []string{"-6 route add 2001:db8::/64 dev v0 metric 300"}, ""},
		"through the device":      {row("e0", "192.0.2.1/24"), []string{"route prepend 192.0.2.0/24 dev e0 src 192.0.2.1"}, ""},
		"by a gateway": {
			row("e0", "192.0.2.1/24"),
			[]string{"address add 10.0.0.1/24 dev v0", "route replace 192.0.2.0/24 via 10.0.0.2"},
			"192.0.2.0/24 of e0: another route leads to v0",
		},
		"with an address":      {row("e0", "192.0.2.1/24"), []string{"address add 192.0.2.2/24 dev v0"}, ""},
		"without a carrier":    {row("e0", "192.0.2.1/24"), []string{"route prepend 192.0.2.0/24 dev v0", "link set e1 down"}, ""},
		"to a part of it":      {row("e0", "192.0.2.1/24"), []string{"route add 192.0.2.0/25 dev v0"}, ""},
		"by a rule":            {row("e0", "192.0.2.1/24"), []string{"route add 192.0.2.0/24 dev v0 table 7", "rule add priority 10 lookup 7"}, ""},
		"that drops packets":   {row("e0", "192.0.2.1/24"), []string{"route add unreachable 192.0.2.0/25"}, ""},
		"of an address itself": {row("e0", "2001:db8::1/128"), nil, ""},
		"by a gateway on the device": {
			row("e0", "192.0.2.1/24"),
			[]string{"address add 10.0.0.1/24 dev e0", "route replace 192.0.2.0/24 via 10.0.0.2"},
			"",
		},
		"by a gateway on a device with an address": {
			row("e0", "192.0.2.1/24"),
			[]string{"address add 192.0.2.2/24 dev v0 noprefixroute", "address add 10.0.0.1/24 dev v0", "route prepend 192.0.2.0/24 via 10.0.0.2"},
			"192.0.2.0/24 of e0: another route leads to v0",
		},
		"to a device with an address": {
			row("e0", "2001:db8::1/64"),
			[]string{"address add 2001:db8::2/64 dev v0 noprefixroute", "-6 route add 2001:db8::/64 dev v0 proto ra metric 100"},
			"",
		},
		"with several next hops, one of which has an address": {
			row("e0", "192.0.2.1/24"),
			[]string{"address add 192.0.2.2/24 dev e1 noprefixroute", "route prepend 192.0.2.0/24 nexthop dev e1 nexthop dev v0"},
			"192.0.2.0/24 of e0: another route leads to v0",
		},
		"of a document, that drops packets": {row("e0", "192.0.2.1/24"), []string{"route prepend blackhole 192.0.2.0/24 proto 79"}, ""},
		"of a document":                     {row("e0", "192.0.2.1/24"), []string{"route prepend 192.0.2.0/24 dev v0 proto 79"}, ""},
		"link-local":                        {row("e0", "fe80::5/64"), []string{"-6 route add fe80::/64 dev v0 metric 50"}, ""},
		"an odd /31":                        {row("e0", "192.0.2.1/31"), []string{"route replace 192.0.2.0/31 dev v0"}, "192.0.2.0/31 of e0: another route leads to v0"},
		"an odd /127":                       {row("e0", "2001:db8::1/127"), []string{"-6 route add 2001:db8::/127 dev v0 metric 100"}, "2001:db8::/127 of e0: another route leads to v0"},
		"an even /31":                       {row("e0", "192.0.2.0/31"), []string{"route replace blackhole 192.0.2.0/31"}, "192.0.2.0/31 of e0: a route of type blackhole comes first"},
		"to no other host":                  {row("e0", "192.0.2.1/30"), []string{"address add 192.0.2.2/30 dev e0", "route prepend 192.0.2.0/30 dev v0"}, ""},
		"to hosts behind many of this machine": {
			row("e0", "192.0.2.1/24"),
			append(addresses("add 192.0.2.%d/24 dev e0", 2, 60), "route prepend 192.0.2.0/24 dev v0"),
			"192.0.2.0/24 of e0: another route leads to v0",
		},
		"to hosts behind many with routes of their own": {
			row("e0", "192.0.2.1/24"),
			[]string{"route add 192.0.2.0/25 dev e0", "route prepend 192.0.2.0/24 dev v0"},
			"192.0.2.0/24 of e0: another route leads to v0",
		},
		"that drops packets in part, and others after the kernel's": {
			row("e0", "192.0.2.1/24"),
			[]string{"route add unreachable 192.0.2.0/25", "route add unreachable 192.0.2.128/25", "route add blackhole 192.0.2.0/24 metric 254"},
			"",
		},
		"with several next hops": {
			row("e0", "192.0.2.1/24"),
			[]string{"route prepend 192.0.2.0/24 nexthop dev e0 nexthop dev v0"},
			"192.0.2.0/24 of e0: another route leads to v0",
		},
		"with several next hops in IPv6": {
			row("e0", "2001:db8::1/64"),
			[]string{"-6 route add 2001:db8::/64 metric 100 nexthop via fe80::1 dev e0 nexthop via fe80::2 dev v0"},
			"2001:db8::/64 of e0: another route leads to v0",
		},
		"with several next hops through the device": {
			row("e0", "192.0.2.1/24"),
			[]string{"route prepend 192.0.2.0/24 nexthop dev e0 nexthop dev e0"},
			"",
		},
		"unreachable":                    {row("e0", "192.0.2.1/24"), []string{"route replace unreachable 192.0.2.0/24"}, "192.0.2.0/24 of e0: a route of type unreachable comes first"},
		"unreachable, one host first":    {row("e0", "192.0.2.9/24"), []string{"route prepend unreachable 192.0.2.0/24", "route add 192.0.2.1 dev v0"}, "192.0.2.0/24 of e0: a route of type unreachable comes first"},
		"blackhole":                      {row("e0", "192.0.2.1/24"), []string{"route prepend blackhole 192.0.2.0/24"}, "192.0.2.0/24 of e0: a route of type blackhole comes first"},
		"prohibit":                       {row("e0", "192.0.2.1/24"), []string{"route prepend prohibit 192.0.2.0/24"}, "192.0.2.0/24 of e0: a route of type prohibit comes first"},
		"throw":                          {row("e0", "192.0.2.1/24"), []string{"route prepend throw 192.0.2.0/24"}, "192.0.2.0/24 of e0: a route of type throw comes first"},
		"unreachable in IPv6":            {row("e0", "2001:db8::1/64"), []string{"-6 route add unreachable 2001:db8::/64 metric 32"}, "2001:db8::/64 of e0: a route of type unreachable comes first"},
		"blackhole in IPv6":              {row("e0", "2001:db8::1/64"), []string{"-6 route add blackhole 2001:db8::/64 metric 32"}, "2001:db8::/64 of e0: a route of type blackhole comes first"},
		"throw in IPv6":                  {row("e0", "2001:db8::1/64"), []string{"-6 route add throw 2001:db8::/64 metric 32"}, "2001:db8::/64 of e0: a route of type throw comes first"},
		"unreachable after the kernel's": {row("e0", "192.0.2.1/24"), []string{"route append unreachable 192.0.2.0/24"}, ""},
		"local":                          {row("e0", "2001:db8::1/64"), []string{"-6 route add local 2001:db8::/64 dev lo"}, ""},
		"on a port":                      {row("e0", "192.0.2.1/24"), []string{"link add b0 type bridge", "link set e0 master b0", "route prepend 192.0.2.0/24 dev v0"}, "192.0.2.0/24 of e0: another route leads to v0"},
	} {
		t.Run(name, func(t *testing.T) {
			nstest.Veth(t, "e0", "e1")
			nstest.Veth(t, "v0", "v1")
			target := newTarget(t, t.TempDir())
			db, seen := runMirror(t, target)
			watcher := newWatcher(t, target, db, seen)
			mustUpdate(t, target, c.row, true)
			for _, args := range c.others {
				nstest.IP(t, strings.Fields(args)...)
			}
			switch name {
			case "by a rule":
				defer nstest.IP(t, "rule", "del", "priority", "10")
			case "local":
				defer nstest.IP(t, "-6", "route", "del", "local", "2001:db8::/64")
			case "on a port":
				defer nstest.IP(t, "link", "del", "b0")
			}
			defer func() {
				nstest.IP(t, "-4", "route", "flush", "table", "main")
				nstest.IP(t, "-6", "route", "flush", "table", "main")
			}()
			for _, s := range lostRoutes(t, watcher) { // it is behind that of others then
				mustUpdate(t, target, row("e0", s), true)
			}
			waitUntil(t, func() bool { // the kernel takes a while to notice a carrier, or its loss
				e0, err := net.InterfaceByName("e0")
				return err == nil && (e0.Flags&net.FlagRunning != 0) != (name == "without a carrier")
			})
			all, _, err := watcher.look(t.Context())
			if err != nil || len(all) != 1 {
				t.Fatalf("addresses %v, %v", all, err)
			}
			got := ""
			if err := watcher.elsewhere(t.Context(), all); err != nil {
				got = err.Error()
			}
			if got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
			mustDelete(t, target, c.row)
		})
	}
}

func TestAnAddressOfAPortIsReported(t *testing.T) {
	for name, c := range map[string]struct {
		master string // the type of the link that e0 is a port of
		rows   []Address
		want   string
	}{
		"of a bridge":    {link.Bridge, []Address{row("e0", "192.0.2.1/24")}, "192.0.2.1/24 of e0: it is a port of m0, which takes its packets"},
		"of a bond":      {"bond", []Address{row("e0", "192.0.2.1/32")}, "192.0.2.1/32 of e0: it is a port of m0, which takes its packets"},
		"several":        {link.Bridge, []Address{row("e0", "192.0.2.1/24"), row("e0", "2001:db8::1/64")}, ", and 1 more"},
		"of a VRF":       {"vrf", []Address{row("e0", "192.0.2.1/24")}, ""},
		"link-local":     {link.Bridge, []Address{row("e0", "fe80::5/64")}, "fe80::5/64 of e0: it is a port of m0, which takes its packets"},
		"of no port":     {"", []Address{row("e0", "192.0.2.1/24")}, ""},
		"of another one": {link.Bridge, []Address{row("e1", "192.0.2.1/24")}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			nstest.Veth(t, "e0", "e1")
			e0, err := net.InterfaceByName("e0")
			if err != nil {
				t.Fatal(err)
			}
			port := link.Seen{Name: "e0", Index: e0.Index, Type: link.Veth}
			if c.master != "" {
				port.Master = 4711
			}
			target := newTarget(t, t.TempDir())
			db, seen := runMirror(t, target)
			watcher := newWatcher(t, target, db, seen, port, link.Seen{Name: "m0", Index: 4711, Type: c.master})
			nstest.IP(t, "address", "add", "198.51.100.1/24", "dev", "e0") // of others, and not declared
			for _, row := range c.rows {
				mustUpdate(t, target, row, true)
			}
			target.mirror.Load().Settled(t.Context())
			got := ""
			if err := watcher.onPorts(); err != nil {
				got = err.Error()
			}
			if got != c.want && (name != "several" || !strings.HasSuffix(got, c.want)) {
				t.Errorf("got %q, want %q", got, c.want)
			}
			for _, row := range c.rows {
				mustDelete(t, target, row)
			}
		})
	}
}
