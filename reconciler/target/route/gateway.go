package route

import (
	"context"
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
	if !s.hasGateway() && s.Type == Unicast && k.hops.through(s.Key.Destination, 0) {
		return "a route that leads to the gateways of others has changed"
	}
	return ""
}

// locateGateways sets the GatewayDevice of routes. The kernel chooses the device of a route when that is added, and does not change it when
// the network of the gateway moves to another device, as that of a port to its bridge. A device is set only if it is certain that the
// kernel would choose it now, and that the route's own no longer leads to the gateway: several devices may.
func (k *keeper) locateGateways(ctx context.Context, rows []Seen) error {
	if len(k.hops) == 0 {
		return nil
	}
	l := newLocator(k.target, k.addresses, rows)
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
	networks  map[int][]netip.Prefix // of the addresses of devices
	ours      map[Table]onLink       // the routes of ours in tables other than the main one
	tables    map[Table]onLink       // all routes of tables, listed on demand
	elsewhere map[Table]prefixes     // those of the tables that have a gateway, or lead nowhere
	found     map[hop]int            // results of locateInMain
}

func newLocator(target *Target, addresses map[deviceAddress]struct{}, rows []Seen) *locator {
	l := &locator{
		target: target, networks: map[int][]netip.Prefix{}, ours: map[Table]onLink{},
		tables: map[Table]onLink{}, elsewhere: map[Table]prefixes{}, found: map[hop]int{},
	}
	for a := range addresses {
		l.networks[a.index] = append(l.networks[a.index], a.address)
	}
	for _, s := range rows {
		if s.Key.Table == MainTable {
			continue
		}
		if l.ours[s.Key.Table] == nil {
			l.ours[s.Key.Table] = onLink{}
		}
		l.ours[s.Key.Table].add(s)
	}
	return l
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

// locate returns the index of the device that leads to a gateway, or 0 if that is the route's own, or is not certain. The kernel looks in
// the route's own table first, and then in the main table.
func (l *locator) locate(ctx context.Context, table Table, h hop) (int, error) {
	if h.gateway.IsLinkLocalUnicast() {
		return 0, nil
	}
	if best, _ := l.ours[table].to(h.gateway, h.index); best != nil {
		return l.locateIn(ctx, table, h)
	}
	other, err := l.locateInMain(ctx, h)
	if other == 0 || err != nil || table == MainTable {
		return other, err
	}
	own, err := l.list(ctx, table)
	if best, _ := own.to(h.gateway, h.index); best != nil || err != nil {
		return 0, err
	}
	return other, nil
}

// locateInMain is locate for the main table. A device that has the network of the gateway leads to it, even without a carrier.
func (l *locator) locateInMain(ctx context.Context, h hop) (other int, err error) {
	if other, known := l.found[h]; known {
		return other, nil
	}
	if !slices.ContainsFunc(l.networks[h.index], func(network netip.Prefix) bool { return network.Contains(h.gateway) }) {
		own, err := l.target.deviceTo(ctx, h.gateway, h.index)
		if own == 0 && err == nil {
			other, err = l.target.deviceTo(ctx, h.gateway, 0)
		}
		if err != nil {
			return 0, err
		}
		if other == h.index {
			other = 0
		}
	}
	l.found[h] = other
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

// deviceTo returns the index of the device that leads to a gateway directly, or 0 if there is none: the given one if it does, or any by a route
// of the main table if that is 0.
func (t *Target) deviceTo(ctx context.Context, gateway netip.Addr, device int) (index int, err error) {
	r, ok, err := t.routeTo(ctx, gateway, device)
	switch {
	case err != nil: // nothing leads to it, or something refuses it
		return 0, ctx.Err()
	case !ok, r.Type != Unicast, r.hasGateway(), device == 0 && r.Key.Table != MainTable, device != 0 && r.index != device:
		return 0, nil // IPv6 may answer with another device than the given one
	}
	return r.index, nil
}
