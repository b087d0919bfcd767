package route

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
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

// offer is a network that a device has.
type offer struct {
	network netip.Prefix
	index   int
}

// getsGateways reports whether a device gets a network with the gateway of a route through another one. It does so once, since addresses
// are announced again and again, as by router advertisements.
func (k *keeper) getsGateways(o offer) bool {
	if _, again := k.offers[o]; again || slices.Contains(k.onLink[o.network], o.index) || !k.hops.through(o.network, o.index) {
		return false
	}
	k.offers[o] = struct{}{}
	return true
}

// comesUp reports whether a device that comes up has the network of a gateway that is reached through another one.
func (k *keeper) comesUp(index int) bool {
	for o := range k.addresses {
		if o.index == index {
			o.network = o.network.Masked()
			if delete(k.offers, o); k.getsGateways(o) {
				return true
			}
		}
	}
	return false
}

// listAddresses lists all addresses.
func (k *keeper) listAddresses(ctx context.Context) error {
	request := rtnl.Request{Type: unix.RTM_GETADDR, Data: make([]byte, unix.SizeofIfAddrmsg)}
	all, err := rtnl.Dump(ctx, k.target.conn, request, func(m syscall.NetlinkMessage) (offer, bool) {
		index, address, ok := decodeAddress(m)
		return offer{address, index}, ok
	})
	if err != nil {
		return fmt.Errorf("list addresses: %w", err)
	}
	k.addresses = make(map[offer]struct{}, len(all))
	for _, o := range all {
		k.addresses[o] = struct{}{}
	}
	return nil
}

// doubtOnLink returns a doubt if a route of ours that has changed leads to gateways directly.
func (k *keeper) doubtOnLink(s Seen) string {
	if !s.hasGateway() && s.Type == Unicast && k.hops.through(s.Key.Destination, 0) {
		return "a route that leads to the gateways of others has changed"
	}
	return ""
}

// locateGateways sets the GatewayDevice of routes. The kernel chooses the device of a route when that is added, and does not change it when
// the network of the gateway moves to another device, as that of a port to its bridge. A device is set only if it is certain that the
// kernel would choose it now, and that the route's own no longer leads to the gateway: several devices may.
func (k *keeper) locateGateways(ctx context.Context, rows []Seen) error {
	l := locator{target: k.target, ours: map[Table]onLink{}, tables: map[Table]onLink{}, elsewhere: map[Table]prefixes{}, found: map[hop]int{}}
	if k.onLink = nil; len(k.hops) == 0 {
		return nil
	}
	if err := l.listMain(ctx, rows); err != nil {
		return err
	}
	k.onLink = l.main
	for i, s := range rows {
		var err error
		name := func(gateway netip.Addr, index int) (device string) {
			if other := 0; gateway.IsValid() && err == nil {
				if other, err = l.locate(ctx, s.Key.Table, hop{gateway, index}); other != 0 {
					device, _ = k.links.Names(other)
				}
			}
			return device
		}
		rows[i].GatewayDevice = name(s.Gateway, s.index)
		rows[i].Nexthops = mapHops(s.Nexthops, func(h SeenNexthop) SeenNexthop {
			h.GatewayDevice = name(h.Gateway, h.index)
			return h
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// locator finds out which devices lead to gateways.
type locator struct {
	target    *Target
	main      onLink
	ours      map[Table]onLink   // only the routes of ours
	tables    map[Table]onLink   // listed on demand
	elsewhere map[Table]prefixes // the other routes of tables
	found     map[hop]int        // the devices in the main table
}

// onLink are the devices of the routes without a gateway of a table, by destination.
type onLink map[netip.Prefix][]int

// prefixes are the destinations of other routes.
type prefixes map[netip.Prefix]struct{}

// add adds a route, and reports whether it is one without a gateway.
func (o onLink) add(s Seen) bool {
	is := s.Type == Unicast && !s.hasGateway() && s.Kind == ""
	if is {
		o[s.Key.Destination] = append(o[s.Key.Destination], s.index)
	}
	return is
}

// to returns the devices that lead to an address by the longest prefix, and whether a device does so by any.
func (o onLink) to(addr netip.Addr, index int) (best []int, leads bool) {
	for bits := addr.BitLen(); bits >= 0; bits-- {
		prefix, _ := addr.Prefix(bits) // bits are in range
		devices := o[prefix]
		leads = leads || slices.Contains(devices, index)
		if best == nil {
			best = devices
		}
	}
	return best, leads
}

// listMain lists the routes to the networks of addresses, and adds those of ours.
func (l *locator) listMain(ctx context.Context, rows []Seen) error {
	l.main = onLink{}
	for _, family := range []Family{Inet, Inet6} {
		routes, err := l.target.list(ctx, family, MainTable, unix.RTPROT_KERNEL)
		if err != nil {
			return err
		}
		for _, r := range routes {
			l.main.add(r.Seen)
		}
	}
	for _, s := range rows {
		if l.ours[s.Key.Table] == nil {
			l.ours[s.Key.Table] = onLink{}
		}
		l.ours[s.Key.Table].add(s)
		if s.Key.Table == MainTable {
			l.main.add(s)
		}
	}
	return nil
}

// locate returns the index of the device that leads to a gateway, or 0 if that is the route's own, or is not certain. The kernel looks in
// the route's own table first.
func (l *locator) locate(ctx context.Context, table Table, h hop) (int, error) {
	if h.gateway.IsLinkLocalUnicast() {
		return 0, nil
	}
	if table != MainTable {
		if best, _ := l.ours[table].to(h.gateway, h.index); best != nil {
			return l.locateIn(ctx, table, h)
		}
	}
	other, known := l.found[h]
	if !known {
		best, leads := l.main.to(h.gateway, h.index)
		if len(best) == 1 && !leads {
			// Rules, and routes of others that are not listed, may lead elsewhere, or the route's own device to the gateway.
			device, err := l.target.deviceTo(ctx, h.gateway, 0)
			own, ownErr := l.target.deviceTo(ctx, h.gateway, h.index)
			if err := errors.Join(err, ownErr); err != nil {
				return 0, err
			}
			if device == best[0] && own != h.index {
				other = device
			}
		}
		l.found[h] = other
	}
	if other == 0 || table == MainTable {
		return other, nil
	}
	own, err := l.list(ctx, table)
	if best, _ := own.to(h.gateway, h.index); best != nil || err != nil {
		return 0, err
	}
	return other, nil
}

// locateIn is locate for a gateway to which a route of a table leads.
func (l *locator) locateIn(ctx context.Context, table Table, h hop) (int, error) {
	all, err := l.list(ctx, table)
	best, leads := all.to(h.gateway, h.index)
	if err != nil || len(best) != 1 || leads || l.elsewhere[table].longer(h.gateway, all, best[0]) {
		return 0, err
	}
	return best[0], nil
}

// longer reports whether one of the routes has a longer prefix of an address than those that lead to it through a device.
func (p prefixes) longer(addr netip.Addr, than onLink, device int) bool {
	for bits := addr.BitLen(); bits >= 0; bits-- {
		prefix, _ := addr.Prefix(bits) // bits are in range
		if slices.Contains(than[prefix], device) {
			return false
		}
		if _, is := p[prefix]; is {
			return true
		}
	}
	return false
}

// list lists a table, once.
func (l *locator) list(ctx context.Context, table Table) (onLink, error) {
	if all, listed := l.tables[table]; listed {
		return all, nil
	}
	all, elsewhere := onLink{}, prefixes{}
	for _, family := range []Family{Inet, Inet6} {
		routes, err := l.target.list(ctx, family, table, 0)
		if err != nil {
			return nil, err
		}
		for _, r := range routes {
			if !all.add(r.Seen) {
				elsewhere[r.Key.Destination] = struct{}{}
			}
		}
	}
	l.tables[table], l.elsewhere[table] = all, elsewhere
	return all, nil
}

// deviceTo returns the index of the device to which a packet for a gateway goes directly, or 0 if there is none. If only is not 0, the packet
// has to go through that device.
func (t *Target) deviceTo(ctx context.Context, gateway netip.Addr, only int) (index int, err error) {
	f := fixed{family: familyOf(gateway), bits: gateway.BitLen(), flags: unix.RTM_F_FIB_MATCH}
	request := f.request(unix.RTM_GETROUTE, 0)
	request.Add(unix.RTA_DST, gateway.AsSlice())
	if only != 0 {
		request.AddUint32(unix.RTA_OIF, uint32(only))
	}
	err = t.conn.Get(ctx, request, func(m syscall.NetlinkMessage) {
		if r, ok := decodeRoute(m); ok && r.Type == Unicast && !r.hasGateway() {
			index = r.index
		}
	})
	if err != nil { // nothing leads to it, or something refuses it
		return 0, ctx.Err()
	}
	return index, nil
}
