package route

import (
	"net/netip"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/target/internal/nstest"
	"github.com/statehive/statehive/reconciler/targettest"
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
		},
		Variants: []Route{
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
		},
		Holds:   holds,
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

// holds looks for the line that ip(8) has for a route.
func holds(t *testing.T, row Route) bool {
	t.Helper()
	key := row.Key()
	family, _ := selector(row)
	metric := "" // the kernel's own of IPv4 is not shown
	if key.Metric != 0 {
		metric = strconv.FormatUint(uint64(key.Metric), 10)
	}
	lines := nstest.TryIP(t, "-N", family, "route", "show", "exact", key.Destination.String(), "table", key.Table.String())
	for line := range strings.Lines(lines) {
		words := strings.Fields(line)
		if wordAfter(words, "proto") == "79" && wordAfter(words, "metric") == metric &&
			(row.Device == "" || wordAfter(words, "dev") == row.Device) &&
			wordAfter(words, "via") == addrText(row.Gateway) && wordAfter(words, "src") == addrText(row.Source) {
			return true
		}
	}
	return false
}

func wordAfter(words []string, word string) string {
	if i := slices.Index(words, word); i >= 0 && i+1 < len(words) {
		return words[i+1]
	}
	return ""
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
