package route

import (
	"context"
	"fmt"
	"net/netip"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/statehive/statehive/reconciler/target/rtnl"
)

// hop is a gateway and the device of a route to it.
type hop struct {
	gateway netip.Addr
	index   int
}

// hopCounts counts next hops with a gateway. They are grouped by a part of the gateway, so that those in a network are found fast.
type hopCounts map[netip.Prefix]map[hop]int

// hopGroup returns the group of a gateway.
func hopGroup(gateway netip.Addr) netip.Prefix {
	bits := 64
	if gateway.Is4() {
		bits = 24
	}
	group, _ := gateway.Prefix(bits) // bits are in range
	return group
}

func (c hopCounts) add(h hop, delta int) {
	group := hopGroup(h.gateway)
	if c[group] == nil {
		c[group] = map[hop]int{}
	}
	if c[group][h] += delta; c[group][h] == 0 {
		if delete(c[group], h); len(c[group]) == 0 {
			delete(c, group)
		}
	}
}

// through reports whether a network has a gateway that is reached through another device than the given one; 0 is none.
func (c hopCounts) through(network netip.Prefix, but int) bool {
	network = network.Masked()
	in := func(group map[hop]int) bool {
		for h := range group {
			if h.index != but && network.Contains(h.gateway) {
				return true
			}
		}
		return false
	}
	if group := hopGroup(network.Addr()); network.Bits() >= group.Bits() {
		return in(c[group])
	}
	for prefix, group := range c {
		if network.Contains(prefix.Addr()) && in(group) {
			return true
		}
	}
	return false
}

// deviceAddress is an address of a device, with the length of its network.
type deviceAddress struct {
	address netip.Prefix
	index   int
}

// hasGateways reports whether the network of an address has the gateway of a route through another device.
func (k *keeper) hasGateways(a deviceAddress) bool { return k.hops.through(a.address, a.index) }

// comesUp reports whether a device that comes up has the network of a gateway that is reached through another one.
func (k *keeper) comesUp(index int) bool {
	for a := range k.addresses {
		if a.index == index && k.hasGateways(a) {
			return true
		}
	}
	return false
}

// listAddresses lists all addresses.
func (k *keeper) listAddresses(ctx context.Context) error {
	request := rtnl.Request{Type: unix.RTM_GETADDR, Data: make([]byte, unix.SizeofIfAddrmsg)}
	all, err := rtnl.Dump(ctx, k.target.conn, request, func(m syscall.NetlinkMessage) (deviceAddress, bool) {
		index, address, ok := decodeAddress(m)
		return deviceAddress{address, index}, ok
	})
	if err != nil {
		return fmt.Errorf("list addresses: %w", err)
	}
	k.addresses = make(map[deviceAddress]struct{}, len(all))
	for _, a := range all {
		k.addresses[a] = struct{}{}
	}
	return nil
}

// doubtOnLink returns a doubt if a route of ours that has changed leads to gateways directly.
func (k *keeper) doubtOnLink(s Seen) string {
	if s.leadsToGateways() && k.hops.through(s.Key.Destination, 0) {
		return "a route that leads to the gateways of others has changed"
	}
	return ""
}
