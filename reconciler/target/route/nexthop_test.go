package route

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/target/internal/nstest"
	"github.com/statehive/statehive/reconciler/target/rtnl"
	"github.com/statehive/statehive/statedb"
	"github.com/statehive/statehive/statedb/immutable"
)

// twoNetworks is network with other addresses on e1 (198.51.100.1/24, 2001:db8:f::1/64).
func twoNetworks(t *testing.T) {
	t.Helper()
	network(t)
	nstest.IP(t, "address", "add", "198.51.100.1/24", "dev", "e1")
	nstest.IP(t, "address", "add", "2001:db8:f::1/64", "dev", "e1", "nodad")
}

// overBoth are rows with next hops on both links.
func overBoth() map[string]Route {
	return map[string]Route{
		"IPv4": {Destination: to("10.1.0.0/16"), Nexthops: hops("192.0.2.99 e0", "198.51.100.99 e1")},
		"IPv6": {Destination: to("2001:db8:1::/48"), Nexthops: hops("2001:db8::99 e0", "2001:db8:f::99 e1")},
	}
}

// TestTheMirrorFollowsNextHops compares what the mirror makes of notifications with what
// another one lists.
func TestTheMirrorFollowsNextHops(t *testing.T) {
	for name, row := range overBoth() {
		t.Run(name, func(t *testing.T) {
			twoNetworks(t)
			db, seen := runMirror(t, newTarget(t))
			family, key := "-4", row.Key()
			if key.family() == Inet6 {
				family = "-6"
			}
			way := row.Nexthops.Slice()
			destination := key.Destination.String()
			seenBy := func(hops ...SeenNexthop) Seen {
				return Seen{Key: key, Scope: rtnl.GlobalScope, Nexthops: immutable.ListOf(hops...)}
			}
			index := func(name string) int {
				link, err := net.InterfaceByName(name)
				if err != nil {
					t.Fatal(err)
				}
				return link.Index
			}
			first := SeenNexthop{Gateway: way[0].Gateway, Device: "e0", index: index("e0"), Weight: 1}
			second := SeenNexthop{Gateway: way[1].Gateway, Device: "e1", index: index("e1"), Weight: 1}
			want := func(step string, want ...Seen) {
				t.Helper()
				all := func(Seen) bool { return true }
				nstest.WaitForRows(t, db, statedb.ReadOnly(seen), all, want...)
				fresh, freshSeen := runMirror(t, newTarget(t))
				nstest.WaitForRows(t, fresh, statedb.ReadOnly(freshSeen), all, want...)
				if t.Failed() {
					t.Fatal(step)
				}
			}
			add := []string{
				family, "route", "add", destination, "proto", "79",
				"nexthop", "via", first.Gateway.String(), "nexthop", "via", second.Gateway.String(), "weight", "3",
			}
			nstest.IP(t, add...)
			second.Weight = 3
			want("added", seenBy(first, second))
			nstest.IP(t, "link", "set", "e1", "name", "e2")
			second.Device = "e2"
			want("renamed", seenBy(first, second))
			nstest.IP(t, "link", "property", "add", "dev", "e0", "altname", "lan")
			first.OtherNames = "lan"
			want("another name", seenBy(first, second))
			nstest.IP(t, "link", "set", "e0", "down")
			first.Dead = true
			want("down", seenBy(first, second))
			nstest.IP(t, "link", "set", "e0", "up")
			first.Dead = false
			if family == "-6" {
				nstest.IP(t, "address", "add", "2001:db8::1/64", "dev", "e0", "nodad") // they went with the link
			}
			want("up", seenBy(first, second))
			if family == "-6" {
				nstest.IP(t, family, "route", "append", destination, "proto", "static", "via", second.Gateway.Prev().String())
				third := SeenNexthop{Gateway: second.Gateway.Prev(), Device: "e2", index: second.index, Weight: 1}
				want("others have added one", seenBy(first, third, second))
				nstest.IP(t, family, "route", "append", destination, "proto", "79", "via", second.Gateway.Prev().Prev().String())
				fourth := SeenNexthop{Gateway: third.Gateway.Prev(), Device: "e2", index: second.index, Weight: 1}
				want("one was added", seenBy(first, fourth, third, second))
				nstest.IP(t, family, "route", "del", destination, "proto", "static", "via", third.Gateway.String())
				want("others have removed one", seenBy(first, fourth, second))
				nstest.IP(t, family, "route", "del", destination, "proto", "79", "via", fourth.Gateway.String())
				want("one was removed", seenBy(first, second))
				nstest.IP(t, family, "route", "del", destination, "proto", "79", "via", second.Gateway.String())
				single := Seen{Key: key, Scope: rtnl.GlobalScope, Gateway: first.Gateway, Device: "e0", OtherNames: "lan", index: first.index}
				want("one is left", single)
				nstest.IP(t, family, "route", "del", destination)
				want("none is left")
				nstest.IP(t, add...)
				want("added again", seenBy(first, second))
			} else {
				nstest.IP(t, family, "route", "append", destination, "proto", "79", "via", second.Gateway.String())
				several := seenBy(first, second)
				several.Kind = "several"
				want("another route was added", several)
				nstest.IP(t, family, "route", "del", destination, "proto", "79", "via", second.Gateway.String())
				want("and removed", seenBy(first, second))
			}
			nstest.IP(t, "link", "del", "e2")
			want("without a link")
		})
	}
}

// TestADeadNexthopIsADifference: the row's packets do not go where it says, and the kernel
// says why when it is to be mended.
func TestADeadNexthopIsADifference(t *testing.T) {
	for name, row := range overBoth() {
		t.Run(name, func(t *testing.T) {
			for _, mirrored := range []bool{false, true} {
				twoNetworks(t)
				target := newTarget(t)
				mustUpdate(t, target, row, true)
				if mirrored {
					runMirror(t, target)
					target.mirror.Load().Settled(t.Context())
				}
				nstest.IP(t, "link", "set", "e0", "down")
				changes, err := target.Diff(t.Context(), txn(), row)
				if err != nil || len(changes) != 1 || changes[0].Field != "nexthops" || !strings.Contains(changes[0].Is, "dev e0 dead") {
					t.Errorf("Diff = %v, %v", changes, err)
				}
				if _, err := target.Update(t.Context(), txn(), row); err == nil || !strings.Contains(err.Error(), " route "+row.Destination.String()) {
					t.Errorf("Update = %v", err)
				}
				if got := show(t, row, "79"); len(got) != 1 || len(got[0].Nexthops) != 2 {
					t.Errorf("after it the routes are %v", got)
				}
				nstest.IP(t, "link", "set", "e0", "up")
				nstest.IP(t, "-6", "address", "replace", "2001:db8::1/64", "dev", "e0", "nodad")
				if name == "IPv4" {
					wantRevived(t, target, row)
				}
				mustDelete(t, target, row)
				wantObserved(t, target)
				nstest.IP(t, "link", "del", "e0")
			}
		})
	}
}

// The kernel does not announce that next hops are used again.
func TestNextHopsComeBackWithTheAddressesOfTheirLink(t *testing.T) {
	twoNetworks(t)
	row := overBoth()["IPv4"]
	target := newTarget(t)
	db, seen := runMirror(t, target)
	mustUpdate(t, target, row, true)
	target.mirror.Load().Settled(t.Context())
	alive, _, _ := seen.Get(db.ReadTxn(), SeenByKey.Query(row.Key()))
	dead, hops := alive, alive.Nexthops.Slice()
	hops[0].Dead = true
	dead.Nexthops = immutable.ListOf(hops...)
	all := func(Seen) bool { return true }
	for range 2 {
		nstest.IP(t, "-4", "address", "flush", "dev", "e0")
		nstest.WaitForRows(t, db, statedb.ReadOnly(seen), all, dead)
		nstest.IP(t, "address", "add", "192.0.2.1/24", "dev", "e0")
		nstest.WaitForRows(t, db, statedb.ReadOnly(seen), all, alive)
	}
}

// wantRevived waits until the kernel uses the next hops of a row again.
func wantRevived(t *testing.T, target *Target, row Route) {
	t.Helper()
	deadline, look := time.After(30*time.Second), time.NewTicker(20*time.Millisecond)
	defer look.Stop()
	for !holds(t, row) { // the carrier comes back later than the link
		select {
		case <-look.C:
		case <-deadline:
			t.Fatalf("the routes are %v", show(t, row, "79"))
		}
	}
	mustHold(t, target, row)
}

func TestNextHopsOfALinkThatWasMadeAgain(t *testing.T) {
	for name, row := range overBoth() {
		t.Run(name, func(t *testing.T) {
			twoNetworks(t)
			target := newTarget(t)
			runMirror(t, target)
			mustUpdate(t, target, row, true)
			nstest.IP(t, "link", "del", "e0") // takes the other end along
			wantObserved(t, target)
			twoNetworks(t)
			mustUpdate(t, target, row, true)
			mustHold(t, target, row)
		})
	}
}

// TestIPv6NextHopsChangeOneByOne looks whether the kernel tells of a route that was gone
// meanwhile.
func TestIPv6NextHopsChangeOneByOne(t *testing.T) {
	twoNetworks(t)
	target := newTarget(t)
	runMirror(t, target)
	row := Route{Destination: to("2001:db8:1::/48"), Nexthops: hops("2001:db8::99", "2001:db8:f::99 e1")}
	mustUpdate(t, target, row, true)
	for _, next := range []Route{
		{Destination: row.Destination, Nexthops: hops("2001:db8::99", "2001:db8:f::98 e1")},
		{Destination: row.Destination, Nexthops: hops("2001:db8::99", "2001:db8:f::98 e1 9")},
		{Destination: row.Destination, Gateway: ip("2001:db8::99")},
		{Destination: row.Destination, Gateway: ip("2001:db8::98")},
		{Destination: row.Destination, Nexthops: hops("2001:db8::97", "2001:db8:f::97 e1 7", "2001:db8::98")},
	} {
		requests := target.conn.Requested()
		w, err := target.resolve(t.Context(), next, target.indexes())
		if err != nil {
			t.Fatal(err)
		}
		before, _ := target.mirror.Load().View(t.Context()).Get(SeenByKey.Query(next.Key()))
		missing, surplus := pair(w.nexthops(), before.seenNexthops())
		mustUpdate(t, target, next, true)
		if n := target.conn.Requested() - requests; n != len(missing)+len(surplus) {
			t.Errorf("%s: %d requests for %d next hops to add and %d to remove", describe(next), n, len(missing), len(surplus))
		}
		mustHold(t, target, next)
	}
}

func TestANextHopOfOthersIsNamedAndStays(t *testing.T) {
	each(t, func(t *testing.T, target *Target) {
		for _, row := range []Route{
			{Destination: to("2001:db8:1::/48"), Gateway: gateway6},
			{Destination: to("2001:db8:2::/48"), Nexthops: hops("2001:db8::99", "2001:db8::97")},
		} {
			mustUpdate(t, target, row, true)
			destination := row.Key().Destination.String()
			nstest.IP(t, "-6", "route", "append", destination, "via", "2001:db8::98", "proto", "static")
			_, err := target.Update(t.Context(), txn(), row)
			want := "route " + destination + ": somebody else's route is there (next hop via 2001:db8::98 dev e0)"
			if !errors.Is(err, ErrForeign) || !strings.Contains(fmt.Sprint(err), want) {
				t.Errorf("Update = %v, expected %s", err, want)
			}
			shown := nstest.IP(t, "-6", "route", "show", destination)
			if !strings.Contains(shown, "::99") || !strings.Contains(shown, "::98") {
				t.Errorf("after it there is\n%s", shown)
			}
			row.Adopt = true
			mustUpdate(t, target, row, true)
			mustHold(t, target, row)
			mustDelete(t, target, row)
		}
		wantObserved(t, target)
	})
}

func TestRowsWithNexthopsComeFromObserve(t *testing.T) {
	twoNetworks(t)
	target := newTarget(t)
	for _, row := range overBoth() {
		row.Scope = rtnl.Scope{}
		mustUpdate(t, target, row, true)
		normalized, err := row.Normalized()
		if err != nil {
			t.Fatal(err)
		}
		rows := observe(t, newTarget(t))
		mirrored := newTarget(t)
		runMirror(t, mirrored)
		rows = append(rows, observe(t, mirrored)...)
		for i := range rows {
			rows[i].Nexthops = immutable.List[Nexthop]{} // without a mirror they have no names
			normalized.Nexthops = rows[i].Nexthops
			if diff := cmp.Diff([]Route{normalized}, rows[i:i+1], cmp.Comparer(func(a, b Route) bool { return a == b })); diff != "" {
				t.Errorf("observed (-want +got):\n%s", diff)
			}
		}
		mustDelete(t, target, row)
	}
}

func TestBatchesWithSeveralNexthops(t *testing.T) {
	network(t)
	const count = 2000
	target := newTarget(t)
	runMirror(t, target)
	rows := many(count)
	for i := range rows {
		rows[i].Gateway = netip.Addr{}
		rows[i].Nexthops = hops("192.0.2.98", "192.0.2.99 * 2")
		if i%2 == 1 {
			rows[i].Nexthops = hops("2001:db8::98", "2001:db8::99 * 2")
		}
	}
	asked := target.conn.Asked()
	requests := target.conn.Requested()
	batches(rows, func(rows []Route) { wantBatch(t, target.UpdateBatch(t.Context(), txn(), rows), true) })
	batches(rows, func(rows []Route) { wantBatch(t, target.UpdateBatch(t.Context(), txn(), rows), false) })
	if n := target.conn.Requested() - requests; n != count {
		t.Errorf("%d requests to add %d routes", n, count)
	}
	batches(rows, func(rows []Route) {
		results := make([]reconciler.BatchResult, len(rows))
		for i, err := range target.DeleteBatch(t.Context(), txn(), rows) {
			results[i].Err = err
		}
		wantBatch(t, results, false)
	})
	if n := target.conn.Asked() - asked; n > 6 {
		t.Errorf("%d questions", n)
	}
	wantObserved(t, target)
}
