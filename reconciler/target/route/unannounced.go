package route

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"syscall"
)

// unannounced reports whether IPv6 routes of ours have another MTU than in the table, or are gone: the kernel announces neither. Their MTU follows that of their link and that of router advertisements.
func (k *keeper) unannounced(ctx context.Context) bool {
	silent := k.inet6 > 0 && k.removesSilently()
	if k.limited == 0 && !silent {
		return false
	}
	txn, changed, n, changes := k.db.ReadTxn(), false, 0, k.changes6.Load()
	check := func(r kernelRoute) {
		is, _, found := k.table.Get(txn, SeenByKey.Query(r.Key))
		changed = changed || found && is.Kind != severalKind && (is.MTU != r.MTU || is.OtherMTU != r.OtherMTU)
	}
	routes, parts, err := k.target.listInParts(ctx, listed{family: Inet6}, Protocol, func(r kernelRoute) bool {
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
	torn := parts > 1 && k.changes6.Load() != changes               // some routes may be missing: see list6
	return changed || silent && n != k.inet6 && !torn || err != nil // what fails is reported when they are listed
}

// removesSilently reports whether the kernel announces nothing when it removes the IPv6 routes of a device.
func (k *keeper) removesSilently() bool {
	value, err := k.parameters.Read("net.ipv6.route.skip_notify_on_dev_down")
	return err == nil && value != "0" // older kernels do not have it
}

// spreads reports whether a route has an MTU and several next hops, each of which has its own MTU in IPv6: a listing has that of the first.
// Those of other tables than main cannot be looked up.
func (r kernelRoute) spreads() bool {
	return r.MTU != 0 && !r.Nexthops.IsZero() && r.Key.Table == MainTable
}

// maxSpread limits the routes whose next hops are looked up together. Of more routes, others are looked at each time.
const maxSpread = 1000

// compareMTUs finds out whether next hops of some IPv6 routes that have several, and an MTU, have another one, as far as the kernel uses the
// route for an end of its network.
func (k *keeper) compareMTUs(ctx context.Context, routes []kernelRoute) error {
	var spread []int
	for i, r := range routes {
		if r.spreads() {
			spread = append(spread, i)
		}
	}
	for n := range min(len(spread), maxSpread) {
		r := &routes[spread[(k.spread+n)%len(spread)]]
		var err error
		if r.OtherMTU, err = k.otherMTU(ctx, *r); err != nil {
			return fmt.Errorf("look up the MTU of %s: %w", r.Key, err)
		}
	}
	k.spread += maxSpread
	return nil
}

// otherMTU returns the first MTU of a next hop of a route that is not the one of the route, or 0 if there is none.
func (k *keeper) otherMTU(ctx context.Context, r kernelRoute) (uint32, error) {
	asked := map[int]bool{}
	for _, h := range r.Nexthops.All() {
		if asked[h.index] || h.Dead {
			continue
		}
		asked[h.index] = true
		if mtu, err := k.mtuThrough(ctx, r, h.index); err != nil || mtu != r.MTU {
			return mtu, err
		}
	}
	return 0, nil
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
