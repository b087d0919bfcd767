package route

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"syscall"
)

// unannounced reports whether IPv6 routes of ours have another MTU than in the table, or are gone although the kernel announces
// that neither. Their MTU follows that of their link and that of router advertisements.
func (k *keeper) unannounced(ctx context.Context) bool {
	silent := k.inet6 > 0 && k.removesSilently()
	if k.limited == 0 && !silent {
		return false
	}
	txn, changed, n := k.db.ReadTxn(), false, 0
	check := func(r kernelRoute) {
		is, _, found := k.table.Get(txn, SeenByKey.Query(r.Key))
		changed = changed || found && is.Kind != severalKind && is.MTU != r.MTU
	}
	routes, _, err := k.target.listInParts(ctx, listed{family: Inet6}, Protocol, func(r kernelRoute) bool {
		if n++; r.spreads() {
			return true
		}
		check(r)
		return false
	})
	if err == nil {
		err = k.compareMTUs(ctx, routes)
	}
	for _, r := range routes {
		check(r)
	}
	return changed || silent && n != k.inet6 || err != nil // what fails is reported when they are listed
}

// removesSilently reports whether the kernel announces nothing when it removes the IPv6 routes of a device.
func (k *keeper) removesSilently() bool {
	value, err := k.parameters.Read("net.ipv6.route.skip_notify_on_dev_down")
	return err == nil && value != "0" // older kernels do not have it
}

// spreads reports whether a route has an MTU and several next hops, each of which has its own MTU in IPv6: a listing has that of the first.
func (r kernelRoute) spreads() bool { return r.MTU != 0 && !r.Nexthops.IsZero() }

// compareMTUs gives those of some IPv6 routes that have several next hops, and an MTU, the first MTU of a next hop that is another one. That
// is found out as far as the kernel uses the route for an end of its network, whatever the rules are.
func (k *keeper) compareMTUs(ctx context.Context, routes []kernelRoute) error {
	for i, r := range routes {
		if !r.spreads() {
			continue
		}
		asked := map[int]bool{}
		for _, h := range r.Nexthops.All() {
			if asked[h.index] || h.Dead {
				continue
			}
			asked[h.index] = true
			mtu, err := k.mtuThrough(ctx, r, h.index)
			if err != nil {
				return fmt.Errorf("look up the MTU of %s: %w", r.Key, err)
			}
			if mtu != r.MTU {
				routes[i].MTU = mtu
				break
			}
		}
	}
	return nil
}

// mtuThrough returns the MTU of the next hop of a route through the device with an index, or that of the route if it cannot be found out.
func (k *keeper) mtuThrough(ctx context.Context, r kernelRoute, device int) (uint32, error) {
	for _, host := range ends(r.Key.Destination) {
		is, ok, err := k.target.routeTo(ctx, host, device)
		switch {
		case errors.As(err, new(syscall.Errno)) && ctx.Err() == nil: // such as that nothing leads there
		case err != nil:
			return 0, err
		case ok && is.Key == r.Key:
			return is.MTU, nil
		}
	}
	return r.MTU, nil
}

// ends returns an address near each end of a network, apart from those that no gateway leads to.
func ends(network netip.Prefix) []netip.Addr {
	first, last := network.Addr().As16(), network.Addr().As16()
	for bit := network.Bits(); bit < 128; bit++ {
		last[bit/8] |= 0x80 >> (bit % 8)
	}
	if network.Bits() < 3 { // :: and multicast addresses
		first[0], last[0] = first[0]|0x20, last[0]&0x3f
	}
	return []netip.Addr{netip.AddrFrom16(first), netip.AddrFrom16(last)}
}
