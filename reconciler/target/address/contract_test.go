package address

import (
	"net/netip"
	"testing"

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
	nstest.Veth(t, "e0", "e1")
	targettest.Run(t, targettest.Contract[Address]{
		Target: newTarget(t, t.TempDir()),
		Key:    keyText,
		Rows: []Address{
			row("e0", "192.0.2.1/24"),
			row("e0", "192.0.2.1/32"),
			row("e1", "192.0.2.1/24"),
			row("e0", "2001:db8::1/64"),
			row("e0", "10.0.0.5/31"),
		},
		Disturb: func(t *testing.T, row Address) {
			nstest.IP(t, "address", "del", row.Address.String(), "dev", row.Device)
		},
	})
}
