package neighbor

import (
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

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

func row(device, address, mac string) Neighbor {
	return Neighbor{Device: device, Address: netip.MustParseAddr(address), MAC: mac}
}

const (
	mac5 = "02:00:00:00:00:05"
	mac6 = "02:00:00:00:00:06"
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
	nstest.Veth(t, "e0", "e1")
	ip := nstest.NewShower(t)
	targettest.Run(t, targettest.Contract[Neighbor]{
		Open: func(t *testing.T) reconciler.Target[Neighbor] { return open(t) },
		Key:  func(n Neighbor) string { return n.Key().String() },
		Rows: []Neighbor{
			row("e0", "192.0.2.5", mac5),
			row("e0", "192.0.2.6", mac5),
			row("e1", "192.0.2.5", mac5),
			row("e0", "2001:db8::5", "02-00-00-00-00-AA"),
			row("e0", "fe80::5", mac5),
		},
		Variants: []Neighbor{row("e0", "192.0.2.5", mac6), row("e0", "2001:db8::5", mac6)},
		Invalid: []Neighbor{
			row("", "192.0.2.5", mac5), {Device: "e0", MAC: mac5}, row("e0", "192.0.2.7", "none"), row("e0", "fe80::7%e0", mac5),
		},
		Holds:  func(t *testing.T, n Neighbor) bool { return holdsBy(t, ip, n) },
		Remove: func(t *testing.T, n Neighbor) { nstest.TryIP(t, "neigh", "del", n.Address.String(), "dev", n.Device) },
		Disturb: func(t *testing.T, n Neighbor) {
			nstest.IP(t, "neigh", "replace", n.Address.String(), "lladdr", "02:00:00:00:00:99", "dev", n.Device)
		},
		Foreign: foreign,
	})
}

// holds looks for what ip(8) shows of a neighbor.
func holds(t *testing.T, n Neighbor) bool {
	t.Helper()
	return holdsBy(t, nstest.NewShower(t), n)
}

func holdsBy(t *testing.T, ip *nstest.Shower, n Neighbor) bool {
	t.Helper()
	n, err := n.Normalized()
	if err != nil {
		t.Fatal(err)
	}
	var entries []map[string]any
	ip.Show(t, &entries, "neigh", "show", n.Address.String(), "dev", n.Device)
	return cmp.Equal(entries, []map[string]any{
		{"dst": n.Address.String(), "lladdr": n.MAC, "state": []any{"PERMANENT"}, "protocol": "79"},
	})
}

// foreign makes entries as others do, and has the kernel make one.
func foreign(t *testing.T) func() bool {
	t.Helper()
	others := [][]string{
		{"192.0.2.6", "dev", "e1", "lladdr", mac6, "nud", "permanent"},
		{"192.0.2.9", "dev", "e0", "lladdr", mac6, "nud", "permanent", "protocol", "static"},
		{"192.0.2.10", "dev", "e0", "lladdr", mac6, "nud", "noarp"},
		{"2001:db8::9", "dev", "e0", "lladdr", mac6, "nud", "stale", "extern_learn", "protocol", "zebra"},
	}
	show := func() string { return nstest.IP(t, "-d", "neigh", "show", "nud", "all") }
	for _, other := range others {
		nstest.IP(t, append([]string{"neigh", "add"}, other...)...)
		t.Cleanup(func() { _ = exec.Command("ip", append([]string{"neigh", "del"}, other[:3]...)...).Run() })
	}
	return func() bool {
		shown := show()
		return !slices.ContainsFunc(others, func(other []string) bool {
			return !strings.Contains(shown, other[0]+" dev "+other[2]+" lladdr "+mac6)
		})
	}
}
