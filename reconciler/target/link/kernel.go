package link

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"

	"github.com/vishvananda/netlink"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/target/internal/steps"
)

// creation returns the steps of a link that is not there: the first makes it,
// the others are done with it.
func (t *Target) creation(row Link) []steps.Step {
	due := []steps.Step{{Change: reconciler.Change{Field: "type", Want: row.Type}, Do: func() error { return t.create(row) }}}
	for _, field := range []reconciler.Change{
		{Field: "peer", Want: row.Peer},
		{Field: "mtu", Want: number(row.MTU)},
		{Field: "up", Want: strconv.FormatBool(row.Up)},
	} {
		if field.Want != "" {
			due = append(due, steps.Step{Change: field})
		}
	}
	return due
}

func number(n uint32) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatUint(uint64(n), 10)
}

// recreation returns the steps of a link of ours that is not what it shall be
// and cannot be made so.
func (t *Target) recreation(s state, row Link) []steps.Step {
	due := append(steps.Field("type", s.link.Type(), row.Type, nil), steps.Field("peer", s.peer, row.Peer, nil)...)
	due[0].Do = func() error {
		if err := t.remove(s); err != nil {
			return err
		}
		return t.create(row)
	}
	return due
}

// create makes a link. The order lets others find out at any moment whose it is.
func (t *Target) create(row Link) error {
	mac, err := randomMAC()
	if err != nil {
		return err
	}
	if err := t.records.Put(row.Name, record{Created: &created{Type: row.Type, MAC: mac.String()}}); err != nil {
		return err
	}
	err = t.conn.Do(func(handle *netlink.Handle) error { return handle.LinkAdd(newLink(row, mac)) }, syscall.EEXIST)
	if errors.Is(err, syscall.EEXIST) {
		return t.explainExists(row, err)
	}
	if err != nil {
		return fmt.Errorf("create %s %s: %w", row.Type, row.Name, err)
	}
	link, err := t.conn.LinkByName(row.Name)
	if err != nil {
		return err
	}
	if err := t.setAlias(link.Attrs().Index); err != nil {
		return err
	}
	return t.setUp(row.Name, link.Attrs().Index, row.Up)
}

// explainExists says which name is taken: the link's or its peer's.
func (t *Target) explainExists(row Link, cause error) error {
	name := row.Name
	if _, err := t.conn.LinkByName(name); err != nil && row.Peer != "" {
		name = row.Peer
	}
	return fmt.Errorf("create %s %s: there is a link %s already: %w", row.Type, row.Name, name, cause)
}

func newLink(row Link, mac net.HardwareAddr) netlink.Link {
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.HardwareAddr, attrs.MTU = row.Name, mac, int(row.MTU)
	if row.Type == Bridge {
		return &netlink.Bridge{LinkAttrs: attrs}
	}
	return &netlink.Veth{LinkAttrs: attrs, PeerName: row.Peer}
}

// randomMAC returns a locally administered unicast address.
func randomMAC() (net.HardwareAddr, error) {
	mac := make(net.HardwareAddr, 6)
	if _, err := rand.Read(mac); err != nil {
		return nil, fmt.Errorf("choose a hardware address: %w", err)
	}
	mac[0] = mac[0]&^1 | 2
	return mac, nil
}

// remove deletes the link by its index, so that it is the one we looked at.
func (t *Target) remove(s state) error {
	err := t.conn.Do(func(handle *netlink.Handle) error { return handle.LinkDel(device(s.index())) }, syscall.ENODEV)
	if err != nil && !errors.Is(err, syscall.ENODEV) {
		return fmt.Errorf("delete link %s: %w", s.name, err)
	}
	return nil
}

func (t *Target) setAlias(index int) error {
	err := t.conn.Do(func(handle *netlink.Handle) error { return handle.LinkSetAlias(device(index), alias) })
	if err != nil {
		return fmt.Errorf("set the alias of link %s: %w", t.conn.LinkName(index), err)
	}
	return nil
}

func (t *Target) setUp(name string, index int, up bool) error {
	word, set := "down", (*netlink.Handle).LinkSetDown
	if up {
		word, set = "up", (*netlink.Handle).LinkSetUp
	}
	if err := t.conn.Do(func(handle *netlink.Handle) error { return set(handle, device(index)) }); err != nil {
		return fmt.Errorf("set link %s %s: %w", name, word, err)
	}
	return nil
}

func (t *Target) setMTU(name string, index int, mtu uint32) error {
	err := t.conn.Do(func(handle *netlink.Handle) error { return handle.LinkSetMTU(device(index), int(mtu)) })
	if err != nil {
		return fmt.Errorf("set the MTU of link %s to %d: %w", name, mtu, err)
	}
	return nil
}

func device(index int) netlink.Link {
	return &netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: index}}
}
