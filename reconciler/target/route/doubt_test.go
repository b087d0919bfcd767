package route

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/statehive/statehive/reconciler/target/internal/nstest"
	"github.com/statehive/statehive/reconciler/target/internal/procsys"
	"github.com/statehive/statehive/reconciler/target/rtnl"
	"github.com/statehive/statehive/statedb"
	"github.com/statehive/statehive/statedb/immutable"
)

// The network of the gateway leaves the device of a route, and others lead packets for the gateway elsewhere. The kernel would choose their
// device if the route were added now, or none.
func TestARouteStaysIfItIsInDoubtWhichNetworkItsGatewayIsIn(t *testing.T) {
	row4 := Route{Destination: to("10.1.0.0/16"), Gateway: gateway4}
	row6 := Route{Destination: to("2001:db8:1::/48"), Gateway: gateway6}
	for name, c := range map[string]struct {
		row    Route
		others []string
		says   string // the device that the row names; none if the kernel would refuse the route
	}{
		"a default route":          {row4, []string{"route add default dev e2"}, "e2"},
		"the halves of all":        {row4, []string{"route add 0.0.0.0/1 dev e2", "route add 128.0.0.0/1 dev e2"}, "e2"},
		"a wide route":             {row4, []string{"route add 192.0.0.0/16 dev e2"}, "e2"},
		"a route just too wide":    {row4, []string{"route add 192.0.2.0/23 dev e2"}, "e2"},
		"an IPv6 default route":    {row6, []string{"-6 route add default dev e2"}, "e2"},
		"a wide IPv6 route":        {row6, []string{"-6 route add 2001:db8::/48 dev e2"}, "e2"},
		"of a route's next hops":   {Route{Destination: to("10.1.0.0/16"), Nexthops: hops("192.0.2.98", "192.0.2.99")}, []string{"route add default dev e2"}, "e2"},
		"two devices":              {row4, []string{"address add 192.0.2.5/24 dev e2", "address add 192.0.2.6/24 dev e3"}, "e2"},
		"two devices with IPv6":    {row6, []string{"address add 2001:db8::5/64 dev e2 nodad", "address add 2001:db8::6/64 dev e3 nodad"}, "e"},
		"a route of global scope":  {row4, []string{"route append 192.0.2.0/24 dev e2 scope global"}, ""},
		"in a table":               {Route{Destination: to("10.1.0.0/16"), Gateway: gateway4, Table: 100}, []string{"route add default dev e2"}, "e2"},
		"a wide route in a table":  {Route{Destination: to("10.1.0.0/16"), Gateway: gateway4, Table: 101}, nil, "e2"},
		"global scope in a table":  {Route{Destination: to("10.1.0.0/16"), Gateway: gateway4, Table: 102}, nil, ""},
		"nothing leads to it":      {row4, nil, ""},
		"a gateway for another":    {row4, []string{"address add 203.0.113.1/24 dev e2", "route append 192.0.2.0/24 via 203.0.113.9"}, ""},
		"a wide route, a device":   {Route{Destination: to("10.1.0.0/16"), Gateway: gateway4, Device: "e0"}, []string{"route add default dev e2"}, ""},
		"several lead to it alike": {row4, []string{"route append 192.0.2.0/24 dev e2", "address add 192.0.2.6/24 dev e3 noprefixroute"}, "e2"},
	} {
		t.Run(name, func(t *testing.T) {
			network(t)
			nstest.Veth(t, "e2", "e3")
			nstest.IP(t, "address", "add", "198.51.100.1/24", "dev", "e0") // they stay
			nstest.IP(t, "address", "add", "2001:db8:5::1/64", "dev", "e0", "nodad")
			target := newTarget(t)
			db, seen := runMirror(t, target)
			mustUpdate(t, target, c.row, true)
			switch c.row.Table {
			case 101:
				mustUpdate(t, target, Route{Destination: to("192.0.0.0/16"), Device: "e2", Table: 101}, true)
			case 102:
				mustUpdate(t, target, Route{Destination: to("192.0.2.0/24"), Device: "e2", Table: 102, Scope: rtnl.GlobalScope}, true)
			}
			for _, arguments := range c.others {
				nstest.IP(t, strings.Fields(arguments)...)
			}
			nstest.IP(t, "address", "del", "192.0.2.1/24", "dev", "e0") // with the other one
			nstest.IP(t, "address", "del", "2001:db8::1/64", "dev", "e0")
			nstest.IP(t, "address", "del", "2001:db8::7/64", "dev", "e0")
			target.mirror.Load().Settled(t.Context())

			doubt := func() {
				t.Helper()
				changes := differences(db.ReadTxn(), statedb.ReadOnly(seen), c.row)
				if (len(changes) > 0) != (c.says != "") {
					t.Errorf("it differs: %v", changes)
				}
				_, err := target.Update(t.Context(), txn(), c.row)
				_, diffErr := target.Diff(t.Context(), txn(), c.row)
				for _, err := range []error{err, diffErr} {
					if (err != nil) != (c.says != "") || err != nil && !strings.Contains(err.Error(), "not certain that "+c.says) {
						t.Errorf("error %v, want one about %q", err, c.says)
					}
				}
			}
			doubt()
			doubt()
			text := nstest.IP(t, "-6", "route", "show", "table", "all", "proto", "79") + nstest.IP(t, "route", "show", "table", "all", "proto", "79")
			if !strings.Contains(text, "via") || strings.Contains(text, "via") && !strings.Contains(text, "dev e0") {
				t.Errorf("the routes are\n%s", text)
			}

			// It is no longer in doubt.
			nstest.IP(t, "address", "add", "192.0.2.1/24", "dev", "e0")
			nstest.IP(t, "address", "add", "2001:db8::1/64", "dev", "e0", "nodad")
			nstest.IP(t, "address", "add", "198.51.100.2/24", "dev", "e0")
			nstest.IP(t, "address", "del", "198.51.100.2/24", "dev", "e0") // so that all is listed again
			target.mirror.Load().Settled(t.Context())
			mustUpdate(t, target, c.row, false)
		})
	}
}

// The network of an address may be of any length, and the kernel ignores IPv4 routes of global scope.
func TestARouteFollowsTheNetworkOfAnAddressOfAnyLength(t *testing.T) {
	for name, c := range map[string]struct {
		row    Route
		others []string
	}{
		"wide":          {Route{Destination: to("10.1.0.0/16"), Gateway: gateway4}, []string{"address add 192.0.0.5/15 dev e2"}},
		"wide IPv6":     {Route{Destination: to("2001:db8:1::/48"), Gateway: gateway6}, []string{"address add 2001:db8::5/40 dev e2 nodad"}},
		"narrow":        {Route{Destination: to("10.1.0.0/16"), Gateway: gateway4}, []string{"address add 192.0.2.97/28 dev e2"}},
		"a route of 24": {Route{Destination: to("10.1.0.0/16"), Gateway: gateway4}, []string{"route append 192.0.2.0/24 dev e2"}},
		"a wider one on another device": {
			Route{Destination: to("10.1.0.0/16"), Gateway: gateway4}, []string{"address add 192.0.2.5/24 dev e2", "address add 192.0.0.5/16 dev e3"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			network(t)
			nstest.Veth(t, "e2", "e3")
			nstest.IP(t, "address", "add", "198.51.100.1/24", "dev", "e0") // they stay
			nstest.IP(t, "address", "add", "2001:db8:5::1/64", "dev", "e0", "nodad")
			target := newTarget(t)
			db, seen := runMirror(t, target)
			mustUpdate(t, target, c.row, true)
			for _, arguments := range c.others {
				nstest.IP(t, strings.Fields(arguments)...)
			}
			nstest.IP(t, "address", "del", "192.0.2.1/24", "dev", "e0") // with the other one
			nstest.IP(t, "address", "del", "2001:db8::1/64", "dev", "e0")
			nstest.IP(t, "address", "del", "2001:db8::7/64", "dev", "e0")
			mustFollow(t, target, db, seen, c.row)
		})
	}
}

// Routers say which MTU a link has. The kernel then changes that of its routes, and announces nothing; the MTU of the link stays.
func TestTheMTUThatARouterAdvertisesIsNoticed(t *testing.T) {
	network(t)
	target := newTarget(t)
	db, seen := runMirror(t, target)
	row := Route{Destination: to("2001:db8:1::/48"), Gateway: gateway6, MTU: 1400}
	mustUpdate(t, target, row, true)
	view := target.mirror.Load().View(t.Context())
	is, found := view.Get(SeenByKey.Query(row.Key()))
	if !found || is.MTU != row.MTU {
		t.Fatalf("%+v", is)
	}
	advertise(t, "e1", 1300)
	is.MTU = 1300
	nstest.WaitForRows(t, db, statedb.ReadOnly(seen), func(Seen) bool { return true }, is)
	mustUpdate(t, target, row, true)
	is.MTU = 1400
	nstest.WaitForRows(t, db, statedb.ReadOnly(seen), func(Seen) bool { return true }, is)
}

// Each next hop of an IPv6 route has an MTU of its own, of which the kernel lists only that of the first.
func TestAnotherMTUOfANextHopIsNoticed(t *testing.T) {
	setMTU := func(device, to string) func(t *testing.T) {
		return func(t *testing.T) {
			nstest.IP(t, "link", "set", device, "mtu", "1290")
			nstest.IP(t, "link", "set", device, "mtu", to)
		}
	}
	for name, c := range map[string]struct {
		destination string
		change      func(t *testing.T)
		mtu, other  uint32
	}{
		"advertised":         {"2001:db8:1::/48", func(t *testing.T) { advertise(t, "e3", 1300) }, 1400, 1300},
		"of the second link": {"::/0", setMTU("e2", "1500"), 1400, 1500},
		"of the first link":  {"::/0", setMTU("e0", "1500"), 1500, 1400},
		"of both links":      {"2001:db8:1::/48", func(t *testing.T) { setMTU("e0", "1500")(t); setMTU("e2", "1480")(t) }, 1500, 1480},
	} {
		t.Run(name, func(t *testing.T) {
			network(t)
			nstest.Veth(t, "e2", "e3")
			nstest.IP(t, "address", "add", "2001:db8:e::1/64", "dev", "e2", "nodad")
			target := newTarget(t)
			db, seen := runMirror(t, target)
			row := Route{Destination: to(c.destination), MTU: 1400, Nexthops: immutable.ListOf(
				Nexthop{Gateway: gateway6}, Nexthop{Gateway: netip.MustParseAddr("2001:db8:e::99"), Device: "e2"},
			)}
			mustUpdate(t, target, row, true)
			is, found := target.mirror.Load().View(t.Context()).Get(SeenByKey.Query(row.Key()))
			if !found || is.MTU != row.MTU {
				t.Fatalf("%+v", is)
			}
			c.change(t)
			is.MTU, is.OtherMTU = c.mtu, c.other
			nstest.WaitForRows(t, db, statedb.ReadOnly(seen), func(Seen) bool { return true }, is)
			if diff, err := target.Diff(t.Context(), db.ReadTxn(), row); err != nil || len(diff) != 1 || diff[0].Field != "mtu" || diff[0].Is == diff[0].Want {
				t.Errorf("it differs by %+v, %v", diff, err)
			}
			mustUpdate(t, target, row, true)
			if _, err := target.mirror.Load().Listed(t.Context()); err != nil {
				t.Fatal(err)
			}
			is.MTU, is.OtherMTU = 1400, 0
			nstest.WaitForRows(t, db, statedb.ReadOnly(seen), func(Seen) bool { return true }, is)
			mustDelete(t, target, row)
		})
	}
}

// Where net.ipv6.route.skip_notify_on_dev_down is set, the kernel announces nothing when IPv6 is disabled on a device without IPv6 addresses.
func TestIPv6RoutesThatGoSilentlyAreNoticed(t *testing.T) {
	network(t)
	target := newTarget(t)
	row := Route{Destination: to("2001:db8:1::/48"), Device: "e0"}
	mustUpdate(t, target, row, true)
	db := statedb.New()
	table, err := statedb.NewTable(db, SeenSchema())
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	path := filepath.Join(root, procsys.PathOf("net.ipv6.route.skip_notify_on_dev_down"))
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	k := &keeper{target: target, db: db, table: table, parameters: procsys.New(root)}
	check := func(when string, known int, value string, want bool) {
		t.Helper()
		if err := os.WriteFile(path, []byte(value+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		k.inet6 = known
		if got := k.unannounced(t.Context()); got != want {
			t.Errorf("%s, and the setting is %s: %v", when, value, got)
		}
	}
	check("it is there", 1, "1", false)
	check("another one is gone", 2, "1", true)
	check("another one is gone", 2, "0", false)
	mustDelete(t, target, row)
	check("it is gone", 1, "1", true)
	check("there was none", 0, "1", false)
}

// advertise sends a router advertisement with an MTU through a device, once this has found no duplicate of its address.
func advertise(t *testing.T, device string, mtu uint32) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); strings.Contains(nstest.IP(t, "-6", "address", "show", "dev", device), "tentative"); {
		if time.Now().After(deadline) {
			t.Fatal("its address is still tentative")
		}
	}
	fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_ICMPV6)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(fd) }() // what was sent is sent
	if err := errors.Join(unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_HOPS, 255), unix.BindToDevice(fd, device)); err != nil {
		t.Fatal(err)
	}
	message := make([]byte, 24)
	message[0] = 134                // router advertisement, without a lifetime
	message[16], message[17] = 5, 1 // the option MTU, of 8 bytes
	binary.BigEndian.PutUint32(message[20:], mtu)
	all := &unix.SockaddrInet6{Addr: netip.MustParseAddr("ff02::1").As16()}
	if err := unix.Sendto(fd, message, 0, all); err != nil {
		t.Fatal(err)
	}
}
