package route

import (
	"net/netip"
	"testing"

	"github.com/statehive/statehive/reconciler/target/internal/nstest"
	"github.com/statehive/statehive/reconciler/targettest"
)

func newTarget(t *testing.T) *Target {
	t.Helper()
	target, err := New()
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
	network(t)
	anywhere, err := ParseDestination("default")
	if err != nil {
		t.Fatal(err)
	}
	targettest.Run(t, targettest.Contract[Route]{
		Target: newTarget(t),
		Key:    keyText,
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
		Disturb: func(t *testing.T, row Route) {
			key := row.Key()
			family := "-4"
			if key.family() == Inet6 {
				family = "-6"
			}
			arguments := []string{family, "route", "del", key.Destination.String(), "table", key.Table.String()}
			if key.Metric != 0 {
				arguments = append(arguments, "metric", "5")
				if key.Metric == ipv6Metric {
					arguments[len(arguments)-1] = "1024"
				}
			}
			nstest.IP(t, arguments...)
		},
	})
}
