package link

import (
	"errors"
	"net"
	"os/exec"
	"testing"

	"github.com/vishvananda/netlink"

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

func keyText(row Link) string { return string(row.Key()) }

// holds looks whether a link is as its row says. One that exists has no type in
// its row.
func holds(t *testing.T, row Link) bool {
	t.Helper()
	link, err := netlink.LinkByName(row.Name)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return false
	}
	if err != nil {
		t.Fatal(err)
	}
	if row.Peer != "" {
		if _, err := netlink.LinkByName(row.Peer); err != nil {
			return false
		}
	}
	attrs := link.Attrs()
	if row.Master != "" && master(t, row.Name) != row.Master || row.MAC != "" && attrs.HardwareAddr.String() != row.MAC {
		return false
	}
	return (row.Type == "" || kindOf(link) == row.Type) &&
		(row.MTU == 0 || attrs.MTU == int(row.MTU)) && (attrs.Flags&net.FlagUp != 0) == row.Up
}

// kindOf returns the type of a link as rows have it.
func kindOf(link netlink.Link) string {
	if link.Type() == "tuntap" {
		return Tun
	}
	return link.Type()
}

// master returns the name of what a link is a port of.
func master(t *testing.T, name string) string {
	t.Helper()
	index := mustLink(t, name).Attrs().MasterIndex
	if index == 0 {
		return ""
	}
	link, err := netlink.LinkByIndex(index)
	if err != nil {
		t.Fatal(err)
	}
	return link.Attrs().Name
}

func disturb(t *testing.T, row Link) {
	t.Helper()
	word := "up"
	if row.Up {
		word = "down"
	}
	nstest.IP(t, "link", "set", row.Name, word)
}

// foreign makes a bridge and a veth as others do.
func foreign(t *testing.T) func() bool {
	t.Helper()
	nstest.Veth(t, "f0", "f1")
	nstest.IP(t, "link", "add", "f2", "alias", "of others", "type", "bridge")
	t.Cleanup(func() { _ = exec.Command("ip", "link", "del", "f2").Run() })
	return func() bool {
		return holds(t, Link{Name: "f0", Type: Veth, Peer: "f1", Up: true}) && holds(t, Link{Name: "f2", Type: Bridge})
	}
}

func invalid() []Link {
	return []Link{
		{Name: "v0", Type: "vlan"},
		{Name: "v0", Type: Veth},
		{Name: "v0", Type: Bridge, Peer: "v1"},
		{Name: "v0", Type: Bridge, MTU: 1},
		{Name: "v0", Type: Bridge, MAC: "02:00"},
		{Name: "v0", Type: Tun, Master: "mbr"},
		{Name: "v0", Adopt: true},
		{Name: "longer-than-links", Type: Bridge},
	}
}

// bridge makes a bridge as others do, until the end of the test.
func bridge(t *testing.T, name string) {
	t.Helper()
	nstest.IP(t, "link", "add", name, "type", "bridge")
	remove(t, name)
}

// withMirror opens a target whose mirror runs.
func withMirror(t *testing.T, dir string) *Target {
	t.Helper()
	target := newTarget(t, dir)
	runMirror(t, target)
	return target
}

func TestCreatedLinksKeepTheContract(t *testing.T) { createdLinksKeepTheContract(t, newTarget) }

func TestCreatedLinksWithAMirrorKeepTheContract(t *testing.T) {
	createdLinksKeepTheContract(t, withMirror)
}

func createdLinksKeepTheContract(t *testing.T, open func(*testing.T, string) *Target) {
	t.Helper()
	bridge(t, "mbr")
	dir := t.TempDir()
	targettest.Run(t, targettest.Contract[Link]{
		Open: func(t *testing.T) reconciler.Target[Link] { return open(t, dir) },
		Key:  keyText,
		Rows: []Link{
			{Name: "br0", Type: Bridge, Up: true},
			{Name: "a0", Type: Veth, Peer: "a1", Up: true, MTU: 1400, MAC: mac1, Master: "mbr"},
			{Name: "t0", Type: Tun, Up: true},
		},
		Variants: []Link{
			{Name: "t0", Type: Tun, MTU: 1400},
			{Name: "t0", Type: Bridge},
			{Name: "br0", Type: Bridge, MTU: 1400},
			{Name: "br0", Type: Veth, Peer: "br1", Up: true},
			{Name: "a0", Type: Veth, Peer: "a2", Up: true, MTU: 1400},
			{Name: "a0", Type: Veth, Peer: "a1", Up: true, MAC: mac2},
			{Name: "a0", Type: Bridge},
		},
		Invalid: invalid(),
		Holds:   holds,
		Remove:  func(t *testing.T, row Link) { nstest.TryIP(t, "link", "del", row.Name) },
		Disturb: disturb,
		Foreign: foreign,
	})
}

func TestExistingLinksKeepTheContract(t *testing.T) { existingLinksKeepTheContract(t, newTarget) }

func TestExistingLinksWithAMirrorKeepTheContract(t *testing.T) {
	existingLinksKeepTheContract(t, withMirror)
}

func existingLinksKeepTheContract(t *testing.T, open func(*testing.T, string) *Target) {
	t.Helper()
	nstest.Veth(t, "b0", "b1")
	nstest.IP(t, "link", "set", "b0", "down")
	nstest.IP(t, "link", "set", "b1", "down")
	bridge(t, "mbr")
	dir := t.TempDir()
	targettest.Run(t, targettest.Contract[Link]{
		Open: func(t *testing.T) reconciler.Target[Link] { return open(t, dir) },
		Key:  keyText,
		Rows: []Link{{Name: "b0", Up: true}, {Name: "b1", Up: true, MTU: 1300, Master: "mbr"}},
		Variants: []Link{
			{Name: "b0", MTU: 1200},
			{Name: "b0", Up: true, MTU: 1100},
			{Name: "b0", Up: true, MAC: "02:00:00:00:00:12", Master: "mbr"},
			{Name: "b1", Up: true},
		},
		Invalid: invalid(),
		Holds:   holds,
		Disturb: disturb,
		Foreign: foreign,
	})
}
