package route

import (
	"context"
	"net/netip"
	"syscall"

	"golang.org/x/sys/unix"
)

// hop is a gateway and the device of a route to it.
type hop struct {
	gateway netip.Addr
	index   int
}

func (k *keeper) countThrough(h hop, delta int) {
	if k.through[h] += delta; k.through[h] == 0 {
		delete(k.through, h)
	}
}

// leadsAway reports whether the network of a new address has the gateway of a route through another device. The kernel chooses the device of
// a route when that is added, and does not change it when the network moves to another one, as that of a port to its bridge.
func (k *keeper) leadsAway(e event) bool {
	network := e.address.Masked()
	for h := range k.through {
		if h.index != e.link.Index && network.Contains(h.gateway) {
			return true
		}
	}
	return false
}

// locateGateways sets the GatewayDevice of routes.
func (k *keeper) locateGateways(ctx context.Context, rows []Seen) error {
	var tables onLink
	found := map[hop]int{} // the index of the device if that is another one, else 0
	for i, s := range rows {
		if !s.hasGateway() {
			continue
		}
		locate := func(gateway netip.Addr, index int) (device string, err error) {
			h := hop{gateway, index}
			other, known := found[h]
			if !known {
				if other, err = k.target.deviceTo(ctx, gateway); err != nil {
					return "", err
				}
				if other == index {
					other = 0
				}
				found[h] = other
			}
			if other == 0 {
				return "", nil
			}
			if here, err := tables.leadTo(ctx, k.target, s.Key.Table, h); here || err != nil {
				return "", err
			}
			device, _ = k.links.Names(other)
			return device, nil
		}
		var err error
		if s.Gateway.IsValid() {
			rows[i].GatewayDevice, err = locate(s.Gateway, s.index)
		}
		rows[i].Nexthops = mapHops(s.Nexthops, func(h SeenNexthop) SeenNexthop {
			if h.Gateway.IsValid() && err == nil {
				h.GatewayDevice, err = locate(h.Gateway, h.index)
			}
			return h
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// deviceTo returns the index of the device that leads to a gateway directly, or 0 if there is none or it is not known.
func (t *Target) deviceTo(ctx context.Context, gateway netip.Addr) (index int, err error) {
	if gateway.IsLinkLocalUnicast() {
		return 0, nil
	}
	f := fixed{family: familyOf(gateway), bits: gateway.BitLen(), flags: unix.RTM_F_FIB_MATCH}
	request := f.request(unix.RTM_GETROUTE, 0)
	request.Add(unix.RTA_DST, gateway.AsSlice())
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

// onLink are the routes without a gateway of tables that were listed.
type onLink map[Table][]Seen

// leadTo reports whether a routing table has a route through a device that leads to a gateway directly. The kernel looks there first.
func (o *onLink) leadTo(ctx context.Context, t *Target, table Table, h hop) (bool, error) {
	if table == MainTable {
		return false, nil // deviceTo has looked there
	}
	routes, listed := (*o)[table]
	if !listed {
		for _, family := range []Family{Inet, Inet6} {
			all, err := t.list(ctx, family, table, 0)
			if err != nil {
				return false, err
			}
			for _, r := range all {
				if r.Type == Unicast && !r.hasGateway() {
					routes = append(routes, r.Seen)
				}
			}
		}
		if *o == nil {
			*o = onLink{}
		}
		(*o)[table] = routes
	}
	for _, r := range routes {
		if r.index == h.index && r.Key.Destination.Contains(h.gateway) {
			return true, nil
		}
	}
	return false, nil
}
