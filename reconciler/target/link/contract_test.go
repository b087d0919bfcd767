package link

import (
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

func keyText(row Link) string { return string(row.Key()) }

func TestCreatedLinksKeepTheContract(t *testing.T) {
	targettest.Run(t, targettest.Contract[Link]{
		Target: newTarget(t, t.TempDir()),
		Key:    keyText,
		Rows: []Link{
			{Name: "br0", Type: Bridge, Up: true},
			{Name: "a0", Type: Veth, Peer: "a1", Up: true, MTU: 1400},
		},
		Variants: []Link{
			{Name: "br0", Type: Bridge},
			{Name: "br0", Type: Bridge, Up: true, MTU: 1400},
			{Name: "br0", Type: Veth, Peer: "br1", Up: true},
			{Name: "a0", Type: Veth, Peer: "a2", Up: true, MTU: 1400},
			{Name: "a0", Type: Bridge},
		},
		Disturb: func(t *testing.T, row Link) { nstest.IP(t, "link", "del", row.Name) },
	})
}

func TestExistingLinksKeepTheContract(t *testing.T) {
	nstest.Veth(t, "b0", "b1")
	nstest.IP(t, "link", "set", "b0", "down")
	nstest.IP(t, "link", "set", "b1", "down")
	targettest.Run(t, targettest.Contract[Link]{
		Target:   newTarget(t, t.TempDir()),
		Key:      keyText,
		Rows:     []Link{{Name: "b0", Up: true}, {Name: "b1", Up: true, MTU: 1300}},
		Variants: []Link{{Name: "b0"}, {Name: "b0", MTU: 1200}, {Name: "b1", Up: true}},
		Disturb:  func(t *testing.T, row Link) { nstest.IP(t, "link", "set", row.Name, "down") },
	})
}
