package address

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/statehive/statehive/reconciler/target/internal/rtnl"
)

// ErrDuplicate is matched by the error for an address that another host has.
var ErrDuplicate = errors.New("another host has the address")

// DuplicateError says which address another host has. It matches ErrDuplicate.
type DuplicateError struct{ Key Key }

// Error implements error.
func (e *DuplicateError) Error() string {
	return fmt.Sprintf("address %s on %s: %v, as the kernel's detection of duplicates found; it is not in use here: free it there, then remove it here (ip address del) to have it tried again", e.Key.Address, e.Key.Device, ErrDuplicate)
}

// Unwrap returns ErrDuplicate.
func (e *DuplicateError) Unwrap() error { return ErrDuplicate }

func isDuplicate(addr netlink.Addr) bool { return addr.Flags&unix.IFA_F_DADFAILED != 0 }

// place is a device, by its index, and an address on it.
type place struct {
	index   int
	address netip.Prefix
}

// all returns all addresses of the network namespace.
func (t *Target) all() (map[place]bool, error) {
	addrs, err := t.list(netlink.FAMILY_ALL)
	if err != nil {
		return nil, err
	}
	present := make(map[place]bool, len(addrs))
	for _, addr := range addrs {
		present[place{addr.LinkIndex, prefixOf(addr)}] = true
	}
	return present, nil
}

// find looks for an address on a device.
func (t *Target) find(index int, address netip.Prefix) (netlink.Addr, bool, error) {
	addrs, err := t.on(index, address.Addr())
	for _, addr := range addrs {
		if prefixOf(addr) == address {
			return addr, true, nil
		}
	}
	return netlink.Addr{}, false, err
}

// on returns the addresses of a device that are of the family of another.
func (t *Target) on(index int, like netip.Addr) ([]netlink.Addr, error) {
	family := netlink.FAMILY_V6
	if like.Is4() {
		family = netlink.FAMILY_V4
	}
	addrs, err := t.list(family)
	return slices.DeleteFunc(addrs, func(addr netlink.Addr) bool { return addr.LinkIndex != index }), err
}

func (t *Target) list(family int) ([]netlink.Addr, error) {
	addrs, err := rtnl.List(t.conn, func(handle *netlink.Handle) ([]netlink.Addr, error) {
		return handle.AddrList(nil, family)
	})
	if err != nil {
		return nil, fmt.Errorf("list addresses: %w", err)
	}
	return addrs, nil
}

// prefixOf returns an address as rows have it; of one with a peer, which rows
// cannot have, the host's alone.
func prefixOf(addr netlink.Addr) netip.Prefix {
	if addr.IPNet == nil {
		return netip.Prefix{}
	}
	ip, _ := netip.AddrFromSlice(addr.IP)
	ones, _ := addr.Mask.Size()
	return netip.PrefixFrom(ip, ones)
}

func requestAdd(index int, address netip.Prefix) func(*netlink.Handle) error {
	return func(handle *netlink.Handle) error { return handle.AddrAdd(device(index), kernelAddr(address)) }
}

func requestDelete(index int, address netip.Prefix) func(*netlink.Handle) error {
	return func(handle *netlink.Handle) error { return handle.AddrDel(device(index), kernelAddr(address)) }
}

func device(index int) netlink.Link {
	return &netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: index}}
}

func kernelAddr(address netip.Prefix) *netlink.Addr {
	return &netlink.Addr{IPNet: &net.IPNet{
		IP:   address.Addr().AsSlice(),
		Mask: net.CIDRMask(address.Bits(), address.Addr().BitLen()),
	}}
}
