package route

import (
	"errors"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/statehive/statehive/reconciler/target/internal/nstest"
	"github.com/statehive/statehive/reconciler/target/rtnl"
	"github.com/statehive/statehive/statedb"
)

// TestAReplacementBesideOursDoesNotHideIt: the kernel tells that somebody has replaced a
// route with the key of ours, but not which.
func TestAReplacementBesideOursDoesNotHideIt(t *testing.T) {
	for name, c := range map[string]struct {
		row    Route
		others []string // arguments of ip route, each with the destination and a way to go
	}{
		"IPv4": {
			Route{Destination: to("10.1.0.0/16"), Gateway: gateway4},
			[]string{"prepend 10.1.0.0/16 via 192.0.2.97", "replace 10.1.0.0/16 via 192.0.2.98"},
		},
		"IPv6 by a gateway": {
			Route{Destination: to("2001:db8:1::/48"), Gateway: gateway6},
			[]string{"append 2001:db8:1::/48 dev e0", "replace 2001:db8:1::/48 dev e1"},
		},
		"IPv6 by a device": {
			Route{Destination: to("2001:db8:1::/48"), Device: "e0"},
			[]string{"append 2001:db8:1::/48 via 2001:db8::97", "replace 2001:db8:1::/48 via 2001:db8::98"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, target *Target) {
				mustUpdate(t, target, c.row, true)
				family, _ := selector(c.row)
				for _, other := range c.others {
					nstest.IP(t, append([]string{family, "route"}, strings.Fields(other+" proto static")...)...)
				}
				wantObserved(t, target, c.row.Key().String())
				if _, err := target.Update(t.Context(), txn(), c.row); c.row.Destination.prefix.Addr().Is4() && !errors.Is(err, ErrForeign) {
					t.Errorf("Update with a route of others before ours: %v", err)
				} else if c.row.Destination.prefix.Addr().Is6() && err != nil {
					t.Error(err)
				}
				mustDelete(t, target, c.row)
				wantObserved(t, target)
				if left := show(t, c.row, "static"); len(left) != 1 {
					t.Errorf("of others' routes there is %v", left)
				}
			})
		})
	}
}

// TestARowThatAdoptsAndChangesTakesOverWhatCameBefore: others have put a route before ours.
func TestARowThatAdoptsAndChangesTakesOverWhatCameBefore(t *testing.T) {
	each(t, func(t *testing.T, target *Target) {
		row := Route{Destination: to("10.1.0.0/16"), Gateway: gateway4, Adopt: true}
		mustUpdate(t, target, row, true)
		nstest.IP(t, "route", "prepend", "10.1.0.0/16", "dev", "e1", "proto", "static")
		row.Gateway = ip("192.0.2.98")
		mustUpdate(t, target, row, true)
		mustHold(t, target, row)
		if left := show(t, row, "static"); len(left) != 0 {
			t.Errorf("of others' routes there is %v", left)
		}
	})
}

// TestANextHopOfOthersIsNotTakenForOurs: the kernel tells of an IPv6 route by the protocol
// of its first next hop.
func TestANextHopOfOthersIsNotTakenForOurs(t *testing.T) {
	each(t, func(t *testing.T, target *Target) {
		row := Route{Destination: to("2001:db8:1::/48"), Gateway: gateway6}
		mustUpdate(t, target, row, true)
		nstest.IP(t, "-6", "route", "append", "2001:db8:1::/48", "via", "2001:db8::98", "proto", "static")
		target.mirror.Load().Settled(t.Context())
		nstest.IP(t, "-6", "route", "del", "2001:db8:1::/48", "via", "2001:db8::99", "proto", "79")
		if _, err := target.Update(t.Context(), txn(), row); !errors.Is(err, ErrForeign) {
			t.Errorf("Update = %v", err)
		}
		if left := show(t, row, "static"); len(left) != 1 || len(show(t, row, "79")) != 0 {
			t.Errorf("there is %v", left)
		}
	})
}

// TestOurNextHopBehindThoseOfOthersIsRemoved: ours comes last when it is changed.
func TestOurNextHopBehindThoseOfOthersIsRemoved(t *testing.T) {
	each(t, func(t *testing.T, target *Target) {
		row := Route{Destination: to("2001:db8:1::/48"), Gateway: gateway6}
		mustUpdate(t, target, row, true)
		nstest.IP(t, "-6", "route", "append", "2001:db8:1::/48", "via", "2001:db8::98", "proto", "static")
		for _, gateway := range []string{"2001:db8::97", "2001:db8::96"} {
			row.Gateway = ip(gateway)
			if _, err := target.Update(t.Context(), txn(), row); !errors.Is(err, ErrForeign) {
				t.Errorf("Update = %v", err)
			}
		}
		mustDelete(t, target, row)
		left := show(t, row, "static")
		if len(left) != 1 || left[0].Gateway != ip("2001:db8::98") || len(left[0].Nexthops) != 0 {
			t.Errorf("there is %v", left)
		}
	})
}

// TestAnIPv6RouteComesBackBesideNextHopsOfOthers when the kernel has refused another one.
func TestAnIPv6RouteComesBackBesideNextHopsOfOthers(t *testing.T) {
	each(t, func(t *testing.T, target *Target) {
		row := Route{Destination: to("2001:db8:1::/48"), Gateway: gateway6}
		mustUpdate(t, target, row, true)
		nstest.IP(t, "-6", "route", "append", "2001:db8:1::/48", "via", "2001:db8::98", "proto", "static")
		other := Route{Destination: row.Destination, Device: "e1"}
		if _, err := target.Update(t.Context(), txn(), other); err == nil {
			t.Error("Update has no error")
		}
		if shown := nstest.IP(t, "-6", "route", "show", "2001:db8:1::/48"); !strings.Contains(shown, "::99") || !strings.Contains(shown, "::98") {
			t.Errorf("after it there is\n%s", shown)
		}
	})
}

// TestAChangeStaysBeforeWhatOthersHaveAppended: the kernel uses the first of the routes with one key.
func TestAChangeStaysBeforeWhatOthersHaveAppended(t *testing.T) {
	for destination, hiding := range map[string]string{"10.1.0.0/16": "", "0.0.0.0/0": "", "10.3.0.0/16": "10.3.0.0/17"} {
		t.Run(destination, func(t *testing.T) {
			each(t, func(t *testing.T, target *Target) {
				row := Route{Destination: to(destination), Gateway: gateway4}
				if hiding != "" { // the kernel's answer for the destination is another route
					nstest.IP(t, "route", "add", hiding, "via", "192.0.2.95", "proto", "static")
				}
				mustUpdate(t, target, row, true)
				nstest.IP(t, "route", "append", destination, "via", "192.0.2.98", "proto", "static")
				for _, row.Gateway = range []netip.Addr{ip("192.0.2.97"), gateway4, ip("192.0.2.96")} {
					mustUpdate(t, target, row, true)
					routes := strings.Split(nstest.IP(t, "route", "show", destination), "\n")
					if len(routes) != 3 || !strings.Contains(routes[0], row.Gateway.String()) || !strings.Contains(routes[1], "192.0.2.98") {
						t.Errorf("after the change to %v there is %q", row.Gateway, routes)
					}
					mustUpdate(t, target, row, false)
				}
			})
		})
	}
}

func TestARouteOfOthersBeforeOursIsNoticed(t *testing.T) {
	network(t)
	target := newTarget(t)
	db, seen := runMirror(t, target)
	row := Route{Destination: to("10.1.0.0/16"), Gateway: gateway4}
	mustUpdate(t, target, row, true)
	wantBehind := func(behind bool) {
		t.Helper()
		target.mirror.Load().Settled(t.Context())
		is, _, _ := seen.Get(db.ReadTxn(), SeenByKey.Query(row.Key()))
		is.Behind = behind
		nstest.WaitForRows(t, db, statedb.ReadOnly(seen), func(Seen) bool { return true }, is)
		if changes := differences(db.ReadTxn(), statedb.ReadOnly(seen), row); (len(changes) > 0) != behind {
			t.Errorf("differences are %v", changes)
		}
		if _, err := target.Update(t.Context(), txn(), row); errors.Is(err, ErrForeign) != behind {
			t.Errorf("Update: %v", err)
		}
		if changes, err := target.Diff(t.Context(), txn(), row); errors.Is(err, ErrForeign) != behind || len(changes) > 0 {
			t.Errorf("Diff: %v, %v", changes, err)
		}
	}
	wantBehind(false)
	others := func(verb, gateway string) {
		t.Helper()
		nstest.IP(t, "route", verb, "10.1.0.0/16", "via", gateway, "proto", "static")
	}
	others("append", "192.0.2.98")
	wantBehind(false)
	others("prepend", "192.0.2.97")
	wantBehind(true)
	if _, err := target.mirror.Load().Listed(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantBehind(true)
	changed := row
	changed.Gateway = ip("192.0.2.96")
	if _, err := target.Update(t.Context(), txn(), changed); !errors.Is(err, ErrForeign) {
		t.Errorf("Update of a changed row: %v", err)
	}
	others("del", "192.0.2.97")
	wantBehind(false)
	others("prepend", "192.0.2.97")
	wantBehind(true)
	mustDelete(t, target, row)
}

// The kernel changes the MTU of IPv6 routes along with that of their link, and tells nobody.
func TestAnMTUThatFollowedThatOfTheLinkIsNoticed(t *testing.T) {
	network(t)
	target := newTarget(t)
	db, seen := runMirror(t, target)
	row := Route{Destination: to("2001:db8:1::/48"), Gateway: gateway6, MTU: 1400}
	mustUpdate(t, target, row, true)
	target.mirror.Load().Settled(t.Context())
	is, _, _ := seen.Get(db.ReadTxn(), SeenByKey.Query(row.Key()))
	for _, mtu := range []uint32{1300, 1500} {
		nstest.IP(t, "link", "set", "e0", "mtu", strconv.Itoa(int(mtu)))
		is.MTU = mtu
		nstest.WaitForRows(t, db, statedb.ReadOnly(seen), func(Seen) bool { return true }, is)
	}
	mustUpdate(t, target, row, true)
	mustHold(t, target, row)
}

func TestAnMTUThatTheKernelSetWhenTheLinkStartedRunningIsNoticed(t *testing.T) {
	network(t)
	nstest.IP(t, "link", "set", "e1", "down")
	nstest.IP(t, "link", "set", "e0", "down")
	nstest.IP(t, "link", "set", "e0", "up")
	nstest.IP(t, "address", "replace", "2001:db8::1/64", "dev", "e0", "nodad")
	if err := os.WriteFile("/proc/sys/net/ipv6/conf/e0/mtu", []byte("1400"), 0); err != nil {
		t.Fatal(err)
	}
	target := newTarget(t)
	db, seen := runMirror(t, target)
	row := Route{Destination: to("2001:db8:1::/48"), Gateway: gateway6, MTU: 1400}
	mustUpdate(t, target, row, true)
	target.mirror.Load().Settled(t.Context())
	is, _, _ := seen.Get(db.ReadTxn(), SeenByKey.Query(row.Key()))
	nstest.IP(t, "link", "set", "e1", "up")
	is.MTU = 1500
	nstest.WaitForRows(t, db, statedb.ReadOnly(seen), func(Seen) bool { return true }, is)
}

// With net.ipv6.route.skip_notify_on_dev_down the kernel does not announce the routes that go when IPv6 is disabled on their device.
func TestRoutesMayGoWithAnyAddressOfTheirDevice(t *testing.T) {
	k := &keeper{devices: map[int]int{7: 1}}
	for _, c := range []struct {
		address string
		index   int
		doubt   bool
	}{
		{"192.0.2.1", 7, true},
		{"2001:db8::1", 7, true},
		{"2001:db8::1", 8, false},
	} {
		e := event{kind: addressGone, link: rtnl.Link{Index: c.index}, address: netip.PrefixFrom(ip(c.address), 24)}
		if doubt, err := k.apply(nil, e); err != nil || (doubt != "") != c.doubt {
			t.Errorf("%s on #%d: %q, %v", c.address, c.index, doubt, err)
		}
	}
}

// Of a device without IPv6 addresses not even those are announced.
func TestIPv6RoutesMayGoUnannounced(t *testing.T) {
	db, target := statedb.New(), newTarget(t)
	table, err := statedb.NewTable(db, SeenSchema())
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		e     event
		doubt bool
	}{
		"IPv6 begins":             {event{kind: routeAdded, route: Seen{Key: multicast6, index: 7}}, true},
		"IPv6 begins elsewhere":   {event{kind: routeAdded, route: Seen{Key: multicast6, index: 8}}, false},
		"another route of others": {event{kind: routeAdded, route: Seen{Key: Key{Destination: multicast6.Destination, Metric: 256}, index: 7}}, false},
		"a small MTU":             {event{kind: linkChanged, link: rtnl.Link{Index: 7, Up: true, MTU: 1279}}, true},
		"a smaller MTU":           {event{kind: linkChanged, link: rtnl.Link{Index: 7, Up: true, MTU: 1280}}, false},
	} {
		k := &keeper{devices: map[int]int{7: 1}, table: table}
		if err := k.links.List(t.Context(), target.conn); err != nil {
			t.Fatal(err)
		}
		k.links.Change(rtnl.Link{Index: 7, Up: true, MTU: 1500})
		txn, err := db.WriteTxn(t.Context(), table)
		if err != nil {
			t.Fatal(err)
		}
		if doubt, err := k.apply(txn, c.e); err != nil || (doubt != "") != c.doubt {
			t.Errorf("%s: %q, %v", name, doubt, err)
		}
		txn.Abort()
	}
}

// TestARouteThatOthersAppendedIsKnown when something changes that may let it come first.
func TestARouteThatOthersAppendedIsKnown(t *testing.T) {
	network(t)
	target := newTarget(t)
	db, seen := runMirror(t, target)
	row := Route{Destination: to("10.1.0.0/16"), Gateway: gateway4}
	mustUpdate(t, target, row, true)
	view := target.mirror.Load().View(t.Context())
	is, _ := view.Get(SeenByKey.Query(row.Key()))
	nstest.IP(t, "route", "append", "10.1.0.0/16", "via", "192.0.2.98", "proto", "static")
	nstest.IP(t, "route", "del", "10.1.0.0/16", "via", gateway4.String(), "proto", "79")
	nstest.IP(t, "route", "append", "10.1.0.0/16", "via", gateway4.String(), "proto", "79")
	is.Behind = true
	nstest.WaitForRows(t, db, statedb.ReadOnly(seen), func(s Seen) bool { return s.Behind }, is)
}

// TestARouteThatIsUsedAgainIsNoticed: with ignore_routes_with_linkdown the kernel skips those through links without a carrier.
func TestARouteThatIsUsedAgainIsNoticed(t *testing.T) {
	network(t)
	nstest.Veth(t, "q0", "q1")
	nstest.IP(t, "address", "add", "10.77.0.1/24", "dev", "q0")
	setting := func(value string) {
		t.Helper()
		if err := os.WriteFile("/proc/sys/net/ipv4/conf/q0/ignore_routes_with_linkdown", []byte(value), 0); err != nil {
			t.Fatal(err)
		}
	}
	setting("1")
	target := newTarget(t)
	db, seen := runMirror(t, target)
	row := Route{Destination: to("10.1.0.0/16"), Gateway: gateway4}
	mustUpdate(t, target, row, true)
	view := target.mirror.Load().View(t.Context())
	is, _ := view.Get(SeenByKey.Query(row.Key()))
	wantBehind := func(behind bool) {
		t.Helper()
		is.Behind = behind
		nstest.WaitForRows(t, db, statedb.ReadOnly(seen), func(Seen) bool { return true }, is)
	}
	nstest.IP(t, "route", "prepend", "10.1.0.0/16", "via", "10.77.0.9", "proto", "static")
	wantBehind(true)
	nstest.IP(t, "link", "set", "q1", "down")
	wantBehind(false)
	setting("0")
	wantBehind(true)
	mustDelete(t, target, row)
}
