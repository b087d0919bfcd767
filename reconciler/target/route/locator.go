package route

import (
	"context"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/statehive/statehive/reconciler/target/rtnl"
)

// lead is the device that leads to a gateway instead of the route's own one. The zero value is none.
type lead struct {
	index int
	// uncertain means that the kernel would choose that device now, but that it may not have the network of the gateway.
	uncertain bool
}

// locateGateways sets the GatewayDevice and the UncertainDevice of routes. The kernel chooses the device of a route when that is added, and does
// not change it when the network of the gateway moves to another device, as that of a port to its bridge. A GatewayDevice is set only if it is
// certain that the kernel would choose it now, and that the route's own no longer leads to the gateway: several devices may.
func (k *keeper) locateGateways(ctx context.Context, rows []Seen) error {
	if len(k.hops) == 0 {
		return nil
	}
	l := newLocator(k.target, k.addresses, rows)
	for i, s := range rows {
		var err error
		name := func(gateway netip.Addr, index int) (device, uncertain string) {
			if !gateway.IsValid() || err != nil {
				return "", ""
			}
			var to lead
			if to, err = l.locate(ctx, s.Key.Table, hop{gateway, index}); to.index == 0 {
				return "", ""
			}
			if device, _ = k.links.Names(to.index); to.uncertain {
				return "", device
			}
			return device, ""
		}
		rows[i].GatewayDevice, rows[i].UncertainDevice = name(s.Gateway, s.index)
		rows[i].Nexthops = mapHops(s.Nexthops, func(h SeenNexthop) SeenNexthop {
			h.GatewayDevice, h.UncertainDevice = name(h.Gateway, h.index)
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
	found     map[hop]lead           // results of locateInMain
}

func newLocator(target *Target, addresses map[deviceAddress]struct{}, rows []Seen) *locator {
	l := &locator{
		target: target, networks: map[int][]netip.Prefix{}, ours: map[Table]onLink{},
		tables: map[Table]onLink{}, elsewhere: map[Table]prefixes{}, found: map[hop]lead{},
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
	is := s.leadsToGateways() && s.Kind == ""
	if is {
		o[s.Key.Destination] = append(o[s.Key.Destination], s.index)
	}
	return is
}

// leadsToGateways reports whether the kernel accepts gateways to which a route leads. It ignores IPv4 routes whose scope is wider than that
// of a link.
func (s Seen) leadsToGateways() bool {
	return s.Type == Unicast && !s.hasGateway() && (s.Key.family() == Inet6 || isOfLink(s.Scope))
}

// isOfLink reports whether the scope of an IPv4 route is not wider than that of a link.
func isOfLink(scope rtnl.Scope) bool { return scope.Number(unix.RT_SCOPE_LINK) >= unix.RT_SCOPE_LINK }

// to returns the devices that lead to an address by the longest prefix, and whether a device does so by any.
func (o onLink) to(addr netip.Addr, index int) (network netip.Prefix, best []int, leads bool) {
	for bits := addr.BitLen(); bits >= 0; bits-- {
		prefix, _ := addr.Prefix(bits) // bits are in range
		devices := o[prefix]
		leads = leads || slices.Contains(devices, index)
		if best == nil {
			network, best = prefix, devices
		}
	}
	return network, best, leads
}

// isNarrow reports whether the network of a route is narrow enough to be that of a gateway. A VPN may have routes to all addresses, or to
// all private ones, and does not lead to the gateways among them.
func isNarrow(network netip.Prefix) bool { return network.Bits() >= hopGroup(network.Addr()).Bits() }

// locate returns the device that leads to a gateway, or none if that is the route's own, or nothing leads to it. The kernel looks in
// the route's own table first, and then in the main table.
func (l *locator) locate(ctx context.Context, table Table, h hop) (lead, error) {
	if h.gateway.IsLinkLocalUnicast() {
		return lead{}, nil
	}
	if _, best, _ := l.ours[table].to(h.gateway, h.index); best != nil {
		return l.locateIn(ctx, table, h)
	}
	other, err := l.locateInMain(ctx, h)
	if other.index == 0 || err != nil || table == MainTable {
		return other, err
	}
	own, err := l.list(ctx, table)
	if _, best, _ := own.to(h.gateway, h.index); best != nil || err != nil {
		return lead{}, err
	}
	return other, nil
}

// locateInMain is locate for the main table. A device that has the network of the gateway leads to it, even without a carrier.
func (l *locator) locateInMain(ctx context.Context, h hop) (other lead, err error) {
	if other, known := l.found[h]; known {
		return other, nil
	}
	if !l.reaches(h) {
		own, _, err := l.target.deviceTo(ctx, h.gateway, h.index)
		if own == 0 && err == nil {
			var network netip.Prefix
			other.index, network, err = l.target.deviceTo(ctx, h.gateway, 0)
			other.uncertain = !l.isCertain(h, other.index, network)
		}
		if err != nil {
			return lead{}, err
		}
		if other.index == h.index {
			other = lead{}
		}
	}
	l.found[h] = other
	return other, nil
}

// isCertain reports whether a gateway is in the network to which a route through a device leads: an address of the device is in it, or it is
// narrow; and no other device has an address in it, or in a part of it with the gateway.
func (l *locator) isCertain(h hop, device int, network netip.Prefix) bool {
	if !isNarrow(network) && !l.hasNetwork(device, func(of netip.Prefix) bool { return of.Masked() == network }) {
		return false
	}
	for index := range l.networks {
		if index != device && l.hasNetwork(index, func(of netip.Prefix) bool { return of.Bits() >= network.Bits() && of.Contains(h.gateway) }) {
			return false
		}
	}
	return true
}

// reaches reports whether the device of a next hop has an address in the network of its gateway.
func (l *locator) reaches(h hop) bool {
	return l.hasNetwork(h.index, func(network netip.Prefix) bool { return network.Contains(h.gateway) })
}

// hasNetwork reports whether an address of a device has such a network.
func (l *locator) hasNetwork(device int, is func(netip.Prefix) bool) bool {
	return slices.ContainsFunc(l.networks[device], is)
}

// locateIn is locate for a gateway to which a route of a table leads.
func (l *locator) locateIn(ctx context.Context, table Table, h hop) (lead, error) {
	all, err := l.list(ctx, table)
	network, best, leads := all.to(h.gateway, h.index)
	if err != nil || len(best) == 0 || leads || l.elsewhere[table].longer(h.gateway, all, best[0]) {
		return lead{}, err
	}
	other := lead{best[0], len(best) > 1 || !isNarrow(network)}
	if other.uncertain && l.reaches(h) {
		return lead{}, nil
	}
	return other, nil
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

// deviceTo returns the index of the device that leads to a gateway directly, and the network of which it does, or 0 if there is none: the
// given one if it does, or any by a route of the main table if that is 0.
func (t *Target) deviceTo(ctx context.Context, gateway netip.Addr, device int) (index int, network netip.Prefix, err error) {
	r, ok, err := t.routeTo(ctx, gateway, device)
	switch {
	case err != nil: // nothing leads to it, or something refuses it
		return 0, network, ctx.Err()
	case !ok, !r.leadsToGateways(), device == 0 && r.Key.Table != MainTable, device != 0 && r.index != device:
		return 0, network, nil // IPv6 may answer with another device than the given one
	}
	return r.index, r.Key.Destination, nil
}
