package route

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/statehive/statehive/reconciler/target/internal/nstest"
	"github.com/statehive/statehive/statedb"
)

// wantBehind waits until the mirror of a target shows whether the route of a row is behind one of others, and checks
// that Update and Diff agree. If it is, they name the other one by its words.
func wantBehind(t *testing.T, target *Target, db *statedb.DB, seen *statedb.RWTable[Seen], row Route, words string) {
	t.Helper()
	ofRow := func(s Seen) bool { return s.Key == row.Key() }
	target.mirror.Load().Settled(t.Context())
	is, _, _ := seen.Get(db.ReadTxn(), SeenByKey.Query(row.Key()))
	is.Behind = words != ""
	nstest.WaitForRows(t, db, statedb.ReadOnly(seen), ofRow, is)
	if changes := differences(db.ReadTxn(), statedb.ReadOnly(seen), row); (len(changes) > 0) != is.Behind {
		t.Errorf("differences are %v", changes)
	}
	_, err := target.Update(t.Context(), txn(), row)
	changes, diffErr := target.Diff(t.Context(), txn(), row)
	for _, err := range []error{err, diffErr} {
		if errors.Is(err, ErrForeign) != is.Behind || err != nil && !strings.Contains(err.Error(), words) {
			t.Errorf("error %v, expected one with %q", err, words)
		}
	}
	if len(changes) > 0 {
		t.Errorf("Diff: %v", changes)
	}
}

func TestARouteStaysBehindUntilAllOfOthersBeforeItAreGone(t *testing.T) {
	for _, destination := range []string{"10.1.0.0/16", "0.0.0.0/0"} {
		t.Run(destination, func(t *testing.T) {
			network(t)
			target := newTarget(t)
			db, seen := runMirror(t, target)
			row := Route{Destination: to(destination), Gateway: gateway4}
			mustUpdate(t, target, row, true)
			want := func(words string) {
				t.Helper()
				wantBehind(t, target, db, seen, row, words)
			}
			others := func(verb, gateway string) {
				t.Helper()
				nstest.IP(t, "route", verb, destination, "via", gateway, "proto", "static")
			}
			others("append", "192.0.2.95")
			others("prepend", "192.0.2.96")
			others("prepend", "192.0.2.97")
			want("via 192.0.2.97")
			others("del", "192.0.2.97")
			want("via 192.0.2.96")
			others("del", "192.0.2.95")
			want("via 192.0.2.96")
			others("del", "192.0.2.96")
			want("")
			mustHold(t, target, row)
		})
	}
}

func TestAnIPv6RouteIsBehindThoseOfOthersWithAHigherPreference(t *testing.T) {
	for name, row := range map[string]Route{
		"by a gateway":  {Destination: to("::/0"), Gateway: gateway6},
		"by a device":   {Destination: to("::/0"), Device: "e0"},
		"by nexthops":   {Destination: to("::/0"), Nexthops: hops("2001:db8::98", "2001:db8::99")},
		"not a default": {Destination: to("2001:db8:1::/48"), Gateway: gateway6},
	} {
		t.Run(name, func(t *testing.T) {
			network(t)
			nstest.Veth(t, "e2", "e3")
			target := newTarget(t)
			db, seen := runMirror(t, target)
			mustUpdate(t, target, row, true)
			want := func(words string) {
				t.Helper()
				wantBehind(t, target, db, seen, row, words)
			}
			others := func(verb, words string) {
				t.Helper()
				nstest.IP(t, append([]string{"-6", "route", verb, row.Destination.String()}, strings.Fields(words)...)...)
			}
			others("append", "dev e2 pref low")
			others("append", "dev e1 pref medium")
			want("")
			others("append", "dev e3 pref high")
			want("dev e3")
			others("del", "dev e1")
			want("dev e3")
			others("append", "dev e1 pref high")
			others("del", "dev e3")
			want("dev e1")
			others("del", "dev e1")
			want("")
			others("append", "dev e3 pref high")
			want("dev e3")
			row.Adopt = true
			mustUpdate(t, target, row, true)
			want("")
			mustHold(t, target, row)
		})
	}
}

// With another router advertisement the kernel changes the preference of the same route, and announces it like a new one.
// TestAnIPv6RouteIsBehindWhenOneOfOthersComesToStandFirst: what is changed comes last.
func TestAnIPv6RouteIsBehindWhenOneOfOthersComesToStandFirst(t *testing.T) {
	for name, c := range map[string]struct{ before, after Route }{
		"another gateway": {
			Route{Destination: to("2001:db8:1::/48"), Gateway: gateway6}, Route{Destination: to("2001:db8:1::/48"), Gateway: ip("2001:db8::98")},
		},
		"several gateways": {
			Route{Destination: to("2001:db8:1::/48"), Gateway: gateway6},
			Route{Destination: to("2001:db8:1::/48"), Nexthops: hops("2001:db8::97", "2001:db8::98")},
		},
		"an MTU": {
			Route{Destination: to("2001:db8:1::/48"), Gateway: gateway6}, Route{Destination: to("2001:db8:1::/48"), Gateway: gateway6, MTU: 1400},
		},
		"another device": {
			Route{Destination: to("2001:db8:1::/48"), Device: "e0"}, Route{Destination: to("2001:db8:1::/48"), Device: "e2"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			network(t)
			nstest.Veth(t, "e2", "e3")
			target := newTarget(t)
			db, seen := runMirror(t, target)
			mustUpdate(t, target, c.before, true)
			if (c.after.Gateway.IsValid() || !c.after.Nexthops.IsZero()) && c.after.MTU == 0 {
				nstest.IP(t, "-6", "route", "append", "2001:db8:1::/48", "dev", "e1", "proto", "static", "pref", "low")
			}
			nstest.IP(t, "-6", "route", "append", "2001:db8:1::/48", "dev", "e3", "proto", "static")
			wantBehind(t, target, db, seen, c.before, "")
			_, _ = target.Update(t.Context(), txn(), c.after) // may fail, too
			if chosen := nstest.IP(t, "-6", "route", "get", "2001:db8:1::1"); !strings.Contains(chosen, "e3") {
				t.Fatalf("the kernel does not use the route of others: %s", chosen)
			}
			wantBehind(t, target, db, seen, c.after, "dev e3")
			nstest.IP(t, "-6", "route", "del", "2001:db8:1::/48", "dev", "e3")
			_, _ = target.Update(t.Context(), txn(), c.after)
			wantBehind(t, target, db, seen, c.after, "")
			mustHold(t, target, c.after)
		})
	}
}

// TestARouteIsNotBehindOneThatTheKernelSkips: the link of that has no carrier.
func TestARouteIsNotBehindOneThatTheKernelSkips(t *testing.T) {
	for family, c := range map[string]struct {
		row  Route
		verb string
	}{
		"IPv4": {Route{Destination: to("10.1.0.0/16"), Gateway: gateway4}, "prepend"},
		"IPv6": {Route{Destination: to("2001:db8:1::/48"), Gateway: gateway6}, "append"},
	} {
		t.Run(family, func(t *testing.T) {
			network(t)
			nstest.Veth(t, "e2", "e3")
			for _, name := range []string{"ipv4/conf/all/", "ipv4/conf/e3/", "ipv6/conf/all/", "ipv6/conf/e3/"} {
				path := "/proc/sys/net/" + name + "ignore_routes_with_linkdown"
				if err := os.WriteFile(path, []byte("1"), 0); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = os.WriteFile(path, []byte("0"), 0) })
			}
			target := newTarget(t)
			db, seen := runMirror(t, target)
			row := c.row
			mustUpdate(t, target, row, true)
			flag, _ := selector(row)
			nstest.IP(t, flag, "route", c.verb, row.Destination.String(), "dev", "e3", "proto", "static")
			if flag == "-6" {
				row.Gateway = ip("2001:db8::98") // ours comes last now
				_, _ = target.Update(t.Context(), txn(), row)
			}
			wantBehind(t, target, db, seen, row, "dev e3")
			nstest.IP(t, "link", "set", "e2", "down")
			wantBehind(t, target, db, seen, row, "")
			nstest.IP(t, "link", "set", "e2", "up")
			wantBehind(t, target, db, seen, row, "dev e3")
		})
	}
}

func TestAfterAPreferenceThatIsNoLongerHighItIsUnsureWhatIsBehind(t *testing.T) {
	for _, behind := range []bool{false, true} {
		k := &keeper{beside: map[Key]struct{}{}}
		is := Seen{Key: Route{Destination: to("::/0")}.Key(), Behind: behind}
		if doubt, err := k.addedBeside(nil, is, event{route: Seen{Key: is.Key}}); err != nil || doubt != "" || k.unsure != behind {
			t.Errorf("behind %v: unsure %v, %q, %v", behind, k.unsure, doubt, err)
		}
	}
}

// The kernel does not announce the IPv4 routes that go with a link.
func TestARouteOfOthersBeforeOursGoesWithItsLink(t *testing.T) {
	network(t)
	nstest.Veth(t, "e2", "e3")
	target := newTarget(t)
	db, seen := runMirror(t, target)
	row := Route{Destination: to("10.1.0.0/16"), Gateway: gateway4}
	mustUpdate(t, target, row, true)
	nstest.IP(t, "route", "prepend", "10.1.0.0/16", "dev", "e2")
	wantBehind(t, target, db, seen, row, "dev e2")
	nstest.IP(t, "link", "set", "e2", "down")
	wantBehind(t, target, db, seen, row, "")
}

func TestARouteOfOthersBeforeOursIsFoundAtTheStart(t *testing.T) {
	for name, c := range map[string]struct {
		row   Route
		other string // arguments of ip route
		words string
	}{
		"IPv4": {Route{Destination: to("0.0.0.0/0"), Gateway: gateway4}, "prepend default via 192.0.2.97", "via 192.0.2.97"},
		"IPv6": {Route{Destination: to("::/0"), Gateway: gateway6}, "append default dev e1 pref high", "dev e1"},
	} {
		t.Run(name, func(t *testing.T) {
			network(t)
			mustUpdate(t, newTarget(t), c.row, true)
			family, _ := selector(c.row)
			nstest.IP(t, append([]string{family, "route"}, strings.Fields(c.other)...)...)
			target := newTarget(t)
			db, seen := runMirror(t, target)
			wantBehind(t, target, db, seen, c.row, c.words)
			mustDelete(t, target, c.row)
		})
	}
}
