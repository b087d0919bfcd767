package address

import (
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/target/internal/nstest"
	"github.com/statehive/statehive/reconciler/targettest"
)

func newTarget(t *testing.T, dir string) *Target {
	t.Helper()
	target, err := New(Config{Owned: nstest.Store(t, dir)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { target.Close() })
	return target
}

func row(device, address string) Address {
	return Address{Device: device, Address: netip.MustParsePrefix(address)}
}

func keyText(row Address) string { return row.Key().String() }

func TestTargetKeepsTheContract(t *testing.T) {
	keepsTheContract(t, newTarget)
}

func TestTargetWithAMirrorKeepsTheContract(t *testing.T) {
	keepsTheContract(t, func(t *testing.T, dir string) *Target {
		t.Helper()
		target := newTarget(t, dir)
		runMirror(t, target)
		return target
	})
}

func keepsTheContract(t *testing.T, open func(*testing.T, string) *Target) {
	t.Helper()
	nstest.Veth(t, "e0", "e1")
	dir := t.TempDir()
	holds := func(t *testing.T, row Address) bool {
		t.Helper()
		return strings.Contains(nstest.IP(t, "-o", "address", "show", "dev", row.Device), " "+row.Address.String()+" ")
	}
	targettest.Run(t, targettest.Contract[Address]{
		Open: func(t *testing.T) reconciler.Target[Address] { return open(t, dir) },
		Key:  keyText,
		Rows: []Address{
			row("e0", "192.0.2.1/24"),
			row("e0", "192.0.2.2/24"),
			row("e0", "192.0.2.1/32"),
			row("e1", "192.0.2.1/24"),
			row("e0", "2001:db8::1/64"),
			row("e0", "2001:db8::2/64"),
			row("e0", "10.0.0.5/31"),
		},
		Invalid: []Address{row("", "192.0.2.1/24"), row("e0", "224.0.0.1/24"), {Device: "e0"}},
		Holds:   holds,
		Remove: func(t *testing.T, row Address) {
			nstest.TryIP(t, "address", "del", row.Address.String(), "dev", row.Device)
		},
		Foreign: func(t *testing.T) func() bool {
			others := []Address{row("e0", "192.0.2.99/24"), row("e1", "203.0.113.9/24"), row("e0", "2001:db8::99/64")}
			for _, other := range others {
				nstest.IP(t, "address", "add", other.Address.String(), "dev", other.Device)
				t.Cleanup(func() { _ = exec.Command("ip", "address", "del", other.Address.String(), "dev", other.Device).Run() })
			}
			return func() bool {
				return !slices.ContainsFunc(others, func(other Address) bool { return !holds(t, other) })
			}
		},
	})
}
