package route

import (
	"cmp"
	"fmt"
	"net/netip"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/target/internal/nstest"
	"github.com/statehive/statehive/reconciler/target/rtnl"
	"github.com/statehive/statehive/reconciler/targettest"
	"github.com/statehive/statehive/statedb/immutable"
)

func newTarget(t *testing.T) *Target {
	t.Helper()
	target, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { target.Close() })
	return target
}

// network makes e0 (192.0.2.1/24, 2001:db8::1/64) and its other end e1.
func network(t *testing.T) {
	t.Helper()
	nstest.Veth(t, "e0", "e1")
	nstest.IP(t, "address", "add", "192.0.2.1/24", "dev", "e0")
	nstest.IP(t, "address", "add", "192.0.2.7/24", "dev", "e0")
	nstest.IP(t, "address", "add", "2001:db8::1/64", "dev", "e0", "nodad")
	nstest.IP(t, "address", "add", "2001:db8::7/64", "dev", "e0", "nodad")
}

func keyText(row Route) string { return row.Key().String() }

func to(prefix string) Destination { return To(netip.MustParsePrefix(prefix)) }

var (
	gateway4 = netip.MustParseAddr("192.0.2.99")
	gateway6 = netip.MustParseAddr("2001:db8::99")
)

func TestTargetKeepsTheContract(t *testing.T) {
	keepsTheContract(t, newTarget)
}

func TestTargetWithAMirrorKeepsTheContract(t *testing.T) {
	keepsTheContract(t, func(t *testing.T) *Target {
		t.Helper()
		target := newTarget(t)
		runMirror(t, target)
		return target
	})
}

func keepsTheContract(t *testing.T, open func(*testing.T) *Target) {
	t.Helper()
	network(t)
	anywhere, err := ParseDestination("default")
	if err != nil {
		t.Fatal(err)
	}
	ips := map[string]*nstest.Shower{"-4": newShower(t, "-4"), "-6": newShower(t, "-6")}
	targettest.Run(t, targettest.Contract[Route]{
		Open: func(t *testing.T) reconciler.Target[Route] { return open(t) },
		Key:  keyText,
		Rows: []Route{
			{Destination: to("10.1.0.0/16"), Gateway: gateway4},
			{Destination: to("10.1.0.0/24"), Device: "e0"},
			{Destination: to("10.1.0.0/16"), Gateway: gateway4, Metric: 5},
			{Destination: to("10.1.0.0/16"), Gateway: gateway4, Table: 1000},
			{Destination: anywhere, Gateway: gateway4, Device: "e0", Source: netip.MustParseAddr("192.0.2.7")},
			{Destination: anywhere, Gateway: gateway6},
			{Destination: anywhere, Family: Inet6, Device: "e1", Table: 7},
			{Destination: to("2001:db8:1::/48"), Gateway: gateway6, Device: "e0"},
			{Destination: to("2001:db8:1::/48"), Gateway: gateway6, Metric: 5},
			{Destination: to("2001:db8:2::/48"), Device: "e0"},
			{Destination: to("10.4.0.0/16"), Type: Blackhole},
			{Destination: to("2001:db8:4::/48"), Type: Prohibit, Table: 8},
			{Destination: to("10.5.0.0/16"), Device: "e0", Scope: rtnl.HostScope, MTU: 1400},
			{Destination: to("2001:db8:5::/48"), Gateway: gateway6, MTU: 1400},
			{Destination: to("10.6.0.0/16"), Nexthops: hops("192.0.2.98", "192.0.2.99 e0 3")},
			{Destination: to("2001:db8:6::/48"), Nexthops: hops("2001:db8::98 e0", "2001:db8::99 e0 3"), Source: ip("2001:db8::7")},
		},
		Variants: []Route{
			{Destination: to("10.4.0.0/16"), Type: Unreachable},
			{Destination: to("10.4.0.0/16"), Nexthops: hops("192.0.2.97", "192.0.2.96")},
			{Destination: to("2001:db8:4::/48"), Type: Blackhole, Table: 8},
			{Destination: to("2001:db8:4::/48"), Nexthops: hops("2001:db8::97", "2001:db8::96"), Table: 8},
			{Destination: to("10.5.0.0/16"), Device: "e0", Scope: rtnl.ScopeOf(200), MTU: 1400},
			{Destination: to("10.5.0.0/16"), Device: "e0", Scope: rtnl.HostScope, MTU: 1300},
			{Destination: to("10.5.0.0/16"), Device: "e0"},
			{Destination: to("2001:db8:5::/48"), Gateway: gateway6},
			{Destination: to("10.6.0.0/16"), Nexthops: hops("192.0.2.98", "192.0.2.99")},
			{Destination: to("10.6.0.0/16"), Nexthops: hops("192.0.2.98", "192.0.2.97", "192.0.2.99 e0 3")},
			{Destination: to("10.6.0.0/16"), Gateway: gateway4},
			{Destination: to("2001:db8:6::/48"), Nexthops: hops("2001:db8::98 e0", "2001:db8::97"), Source: ip("2001:db8::7")},
			{Destination: to("2001:db8:6::/48"), Nexthops: hops("2001:db8::98 e0 2", "2001:db8::99 e0"), Source: ip("2001:db8::7")},
			{Destination: to("2001:db8:6::/48"), Gateway: gateway6, Source: ip("2001:db8::7")},
			{Destination: to("2001:db8:6::/48"), Device: "e0"},
			{Destination: to("10.1.0.0/16"), Device: "e1"},
			{Destination: to("10.1.0.0/16"), Gateway: netip.MustParseAddr("192.0.2.98"), Metric: 5, Source: netip.MustParseAddr("192.0.2.7")},
			{Destination: to("2001:db8:1::/48"), Device: "e1"},
			{Destination: to("2001:db8:1::/48"), Gateway: netip.MustParseAddr("2001:db8::98")},
			{Destination: to("2001:db8:2::/48"), Gateway: gateway6},
		},
		Invalid: []Route{
			{Destination: to("10.2.0.0/16")},
			{Destination: to("10.2.0.0/16"), Gateway: gateway6},
			{Destination: anywhere, Family: "ipx", Device: "e0"},
			{Destination: to("10.2.0.0/16"), Type: Blackhole, Device: "e0"},
			{Destination: to("10.2.0.0/16"), Gateway: gateway4, Nexthops: hops("192.0.2.98")},
		},
		Holds: func(t *testing.T, row Route) bool {
			family, _ := selector(row)
			return holdsBy(t, ips[family], row)
		},
		Remove:  remove,
		Disturb: disturb,
		Foreign: foreign,
	})
}

// selector returns what names a route to ip(8), whoever made it.
func selector(row Route) (family string, arguments []string) {
	key := row.Key()
	family, arguments = "-4", []string{key.Destination.String(), "table", key.Table.String()}
	if key.family() == Inet6 {
		family = "-6"
	}
	if key.Metric != 0 {
		arguments = append(arguments, "metric", strconv.FormatUint(uint64(key.Metric), 10))
	}
	return family, arguments
}

// hops returns next hops that are given as "gateway device weight"; "-" is no gateway,
// and "*" no device.
func hops(texts ...string) immutable.List[Nexthop] {
	var all []Nexthop
	for _, text := range texts {
		words := append(strings.Fields(text), "", "")
		weight, _ := strconv.ParseUint(words[2], 10, 16) // 0 if there is none
		gateway, _ := netip.ParseAddr(words[0])          // none if there is none
		all = append(all, Nexthop{gateway, words[1], uint16(weight)})
		if words[1] == "*" {
			all[len(all)-1].Device = ""
		}
	}
	return immutable.ListOf(all...)
}

// shown is a route as ip(8) shows it.
type shown struct {
	Type     string     `json:"type"`
	Table    string     `json:"table"`
	Gateway  netip.Addr `json:"gateway"`
	Dev      string     `json:"dev"`
	Scope    string     `json:"scope"`
	Source   netip.Addr `json:"prefsrc"`
	Metric   uint32     `json:"metric"`
	Metrics  []struct{ MTU uint32 }
	Nexthops []struct {
		Gateway netip.Addr
		Dev     string
		Weight  uint16
		Flags   []string
	}
}

// show returns the routes with the destination and the table of a row that have a
// protocol.
func show(t *testing.T, row Route, protocol string) (routes []shown) {
	t.Helper()
	family, _ := selector(row)
	return showBy(t, newShower(t, family), row, protocol)
}

func newShower(t *testing.T, family string) *nstest.Shower {
	t.Helper()
	return nstest.NewShower(t, family, "-details")
}

func showBy(t *testing.T, ip *nstest.Shower, row Route, protocol string) (routes []shown) {
	t.Helper()
	key := row.Key()
	ip.Show(t, &routes, "route", "show", "exact", key.Destination.String(), "table", "all", "proto", protocol)
	return slices.DeleteFunc(routes, func(r shown) bool { return r.Table != key.Table.String() || r.Metric != key.Metric })
}

// text is the whole of a route but for its key.
func (s shown) text() string {
	var text strings.Builder
	device := s.Dev
	if s.Type != "unicast" {
		device = "" // IPv6: lo
	}
	fmt.Fprintf(&text, "%s scope %s via %s dev %s src %s", s.Type, s.Scope, addrText(s.Gateway), device, addrText(s.Source))
	for _, m := range s.Metrics {
		fmt.Fprintf(&text, " mtu %d", m.MTU)
	}
	var hops []string
	for _, h := range s.Nexthops {
		hops = append(hops, fmt.Sprintf(" nexthop %s dev %s weight %d%v", h.Gateway, h.Dev, h.Weight, h.Flags))
	}
	slices.Sort(hops)
	return text.String() + strings.Join(hops, "")
}

// shownFor returns how a row's route is shown. Gateways are reached by e0.
func shownFor(t *testing.T, row Route) string {
	t.Helper()
	row, err := row.Normalized()
	if err != nil {
		t.Fatal(err)
	}
	device := func(name string) string {
		if name == "" && row.Type == Unicast && row.Nexthops.IsZero() {
			return "e0"
		}
		return name
	}
	s := shown{Type: row.Type.String(), Scope: row.scope().String(), Gateway: row.Gateway, Dev: device(row.Device), Source: row.Source}
	if s.Scope == "200" {
		s.Scope = "site" // as the files of ip(8) call it
	}
	if row.MTU != 0 {
		s.Metrics = append(s.Metrics, struct{ MTU uint32 }{row.MTU})
	}
	for _, h := range row.Nexthops.All() {
		s.Nexthops = append(s.Nexthops, struct {
			Gateway netip.Addr
			Dev     string
			Weight  uint16
			Flags   []string
		}{h.Gateway, cmp.Or(h.Device, "e0"), h.Weight, nil})
	}
	return s.text()
}

// holds looks whether ip(8) shows the route of a row, and no other of ours with its key.
func holds(t *testing.T, row Route) bool {
	t.Helper()
	family, _ := selector(row)
	return holdsBy(t, newShower(t, family), row)
}

func holdsBy(t *testing.T, ip *nstest.Shower, row Route) bool {
	t.Helper()
	routes := showBy(t, ip, row, "79")
	return len(routes) == 1 && routes[0].text() == shownFor(t, row)
}

func remove(t *testing.T, row Route) {
	t.Helper()
	family, arguments := selector(row)
	nstest.TryIP(t, append([]string{family, "route", "del"}, arguments...)...)
}

// disturb lets a route lead elsewhere.
func disturb(t *testing.T, row Route) {
	t.Helper()
	remove(t, row)
	device := "e1"
	if row.Device == device {
		device = "e0"
	}
	family, arguments := selector(row)
	nstest.IP(t, append(append([]string{family, "route", "add"}, arguments...), "dev", device, "proto", "79")...)
}

// foreign makes routes as others do, also to a destination of ours.
func foreign(t *testing.T) func() bool {
	t.Helper()
	others := []struct{ family, destination, arguments string }{
		{"-4", "10.1.0.0/16", "metric 77 dev e1 proto 80"},
		{"-4", "10.9.0.0/16", "dev e0 proto 80"},
		{"-6", "2001:db8:1::/48", "metric 77 dev e1 proto 80"},
	}
	for _, other := range others {
		arguments := append([]string{other.family, "route", "add", other.destination}, strings.Fields(other.arguments)...)
		nstest.IP(t, arguments...)
		arguments[2] = "del"
		t.Cleanup(func() { _ = exec.Command("ip", arguments...).Run() })
	}
	return func() bool {
		for _, other := range others {
			shown := nstest.IP(t, "-N", other.family, "route", "show", "exact", other.destination, "proto", "80")
			if !strings.Contains(shown, "dev") {
				return false
			}
		}
		return true
	}
}
