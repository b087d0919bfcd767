package address

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/netip"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/statehive/statehive/reconciler/target/rtnl"
)

// elsewhere returns an error if the kernel does not send packets for the networks of some addresses to their devices, because of routes of
// others to just these networks, which come before the kernel's own. It is no error if they lead to another device that has an address of
// the network, or to a gateway on the device. Two kinds of networks are not looked at: those of ports of a VRF, whose routes are in another
// table, and link-local ones of IPv6, whose packets always name their device.
func (w *RouteWatcher) elsewhere(ctx context.Context, all []Seen) error {
	local, known := map[netip.Addr]struct{}{}, map[connected]struct{}{}
	for s := range w.seen.All(w.db.ReadTxn()) {
		local[s.Address.Addr()], known[s.connected()] = struct{}{}, struct{}{}
	}
	var found []captured
	done := map[connected]bool{}
	failed := map[netip.Prefix][]Seen{} // by the networks to which nothing leads
	for _, s := range all {
		network := s.connected()
		if done[network] || network.prefix.Addr().Is6() && network.prefix.Addr().IsLinkLocalUnicast() {
			continue
		}
		done[network] = true
		by, leads, err := w.target.routeOf(ctx, network.prefix, local)
		switch {
		case err != nil:
			return fmt.Errorf("find the route to %s: %w", network.prefix, err)
		case !leads:
			failed[network.prefix] = append(failed[network.prefix], s)
		case by.drops() != "":
			found = append(found, captured{s, by, 0})
		case by.isOfOthers():
			if i := slices.IndexFunc(by.hops, func(h hop) bool { return h.leaves(network, known) }); i >= 0 {
				found = append(found, captured{s, by, by.hops[i].index})
			}
		}
	}
	dropped, err := w.target.dropped(ctx, failed)
	if err != nil {
		return err
	}
	return w.target.report(ctx, append(found, dropped...))
}

// onPorts returns an error about the first of the declared addresses whose devices are ports of a bridge or the like, if there are any.
func (w *RouteWatcher) onPorts() error {
	txn := w.db.ReadTxn()
	var first error
	n := 0
	for s := range w.seen.All(txn) {
		master, isPort := w.devices.PortOf(txn, s.Index)
		if !isPort || !w.target.isRecorded(s) {
			continue
		}
		if n++; first == nil {
			first = fmt.Errorf("%s of %s: it is a port of %s, which takes its packets", s.Address, s.Device, master)
		}
	}
	if n > 1 {
		return fmt.Errorf("%w, and %d more", first, n-1)
	}
	return first
}

// leaves reports whether a next hop leads to another device than that of a network, and to none that has the network, too.
func (h hop) leaves(network connected, known map[connected]struct{}) bool {
	_, has := known[connected{h.index, network.prefix}]
	return h.index != network.index && (h.gateway || !has)
}

// captured is an address to whose network another route comes first.
type captured struct {
	address Seen
	by      route
	to      int // the index of the device that it leads to, unless it drops packets
}

// report returns an error about the first of some addresses whose links have a carrier, if there are any.
func (t *Target) report(ctx context.Context, found []captured) error {
	if len(found) == 0 {
		return nil
	}
	var links rtnl.Devices
	if err := links.List(ctx, t.conn); err != nil {
		return err
	}
	found = slices.DeleteFunc(found, func(c captured) bool {
		link, known := links.Of(c.address.Index)
		return !known || !link.Running || inVRF(&links, link)
	})
	if len(found) == 0 {
		return nil
	}
	others := ""
	if len(found) > 1 {
		others = fmt.Sprintf(", and %d more", len(found)-1)
	}
	c := found[0]
	return fmt.Errorf("%s of %s: %s%s", c.address.Address.Masked(), c.address.Device, c.describe(&links), others)
}

// isOfOthers reports whether a route was not made by the kernel or for a document, and is where the kernel's are.
func (r route) isOfOthers() bool {
	return r.table == unix.RT_TABLE_MAIN && r.protocol != unix.RTPROT_KERNEL && r.protocol != Protocol
}

// drops returns the type of a route of others in the table main that drops packets, or "".
func (r route) drops() string {
	if r.table != unix.RT_TABLE_MAIN || r.protocol == Protocol {
		return ""
	}
	return map[byte]string{
		unix.RTN_UNREACHABLE: "unreachable", unix.RTN_BLACKHOLE: "blackhole", unix.RTN_PROHIBIT: "prohibit", unix.RTN_THROW: "throw",
	}[r.kind]
}

// describe returns what the route does with packets for the network, for the operator.
func (c captured) describe(links *rtnl.Devices) string {
	if kind := c.by.drops(); kind != "" {
		return "a route of type " + kind + " comes first"
	}
	link, _ := links.Of(c.to)
	return "another route leads to " + link.Name
}

// routeOf returns the route that the kernel uses for packets to a network, if it is a route to just this network, and the zero value otherwise.
// leads is false if the kernel has no route, or one that drops packets, which it does not show in IPv4.
func (t *Target) routeOf(ctx context.Context, network netip.Prefix, local map[netip.Addr]struct{}) (r route, leads bool, err error) {
	leads = true
	for host := range hosts(network, local) {
		var is route
		err := t.conn.Get(ctx, routeTo(host), func(m syscall.NetlinkMessage) { is, _ = decodeRoute(m) })
		switch {
		case slices.ContainsFunc(nowhere, func(no error) bool { return errors.Is(err, no) }):
			leads = false
		case err != nil:
			return route{}, false, err
		case is.to == network:
			return is, true, nil
		case is.to.Bits() < network.Bits():
			return route{}, true, nil
		}
	}
	return route{}, leads, nil
}

// hosts returns some addresses of a network that are not local, half of them from its end, because some hosts may have routes of their own.
func hosts(network netip.Prefix, local map[netip.Addr]struct{}) iter.Seq[netip.Addr] {
	const tries = 10
	bytes := network.Addr().AsSlice()
	for bit := network.Bits(); bit < 8*len(bytes); bit++ {
		bytes[bit/8] |= 0x80 >> (bit % 8)
	}
	first := network.Addr()
	last, _ := netip.AddrFromSlice(bytes)
	if network.Bits() < first.BitLen()-1 { // the first one names the network, and the last one is for broadcasts
		first, last = first.Next(), last.Prev()
	}
	return func(yield func(netip.Addr) bool) {
		n := 0
		try := func(host netip.Addr) bool {
			if _, is := local[host]; is {
				return true
			}
			n++
			return yield(host)
		}
		for ; n < tries/2 && first.IsValid() && first.Compare(last) <= 0; first = first.Next() {
			if !try(first) {
				return
			}
		}
		for ; n < tries && last.IsValid() && last.Compare(first) >= 0; last = last.Prev() {
			if !try(last) {
				return
			}
		}
	}
}

// nowhere are the answers of the kernel if it has no route, or one that drops packets.
var nowhere = []error{syscall.ENETUNREACH, syscall.EHOSTUNREACH, syscall.EACCES, syscall.EINVAL}

// dropped returns those of some addresses, by their networks, for which a route in the table main that drops packets comes before all others
// to just the network.
func (t *Target) dropped(ctx context.Context, networks map[netip.Prefix][]Seen) (found []captured, err error) {
	if len(networks) == 0 {
		return nil, nil
	}
	for _, family := range []byte{unix.AF_INET, unix.AF_INET6} {
		r := rtnl.Request{Type: unix.RTM_GETROUTE, Data: make([]byte, unix.SizeofRtMsg)}
		r.Data[0] = family
		r.AddUint32(unix.RTA_TABLE, unix.RT_TABLE_MAIN)
		routes, err := rtnl.Dump(ctx, t.conn, r, func(m syscall.NetlinkMessage) (route, bool) {
			is, _ := decodeRoute(m)
			_, asked := networks[is.to]
			return is, asked
		})
		if err != nil && !errors.Is(err, syscall.ENOENT) {
			return nil, fmt.Errorf("list routes: %w", err)
		}
		known := map[netip.Prefix]bool{}
		for _, is := range routes { // the kernel lists those to one network in the order in which it uses them
			if !known[is.to] && is.drops() != "" {
				for _, s := range networks[is.to] {
					found = append(found, captured{s, is, 0})
				}
			}
			known[is.to] = true
		}
	}
	return found, nil
}

// routeTo returns a request for the route that the kernel uses for packets to an address.
func routeTo(host netip.Addr) rtnl.Request {
	r := rtnl.Request{Type: unix.RTM_GETROUTE, Data: make([]byte, unix.SizeofRtMsg)}
	family, flags := byte(unix.AF_INET), uint32(unix.RTM_F_FIB_MATCH|unix.RTM_F_LOOKUP_TABLE)
	if host.Is6() { // it names the table anyway
		family, flags = unix.AF_INET6, unix.RTM_F_FIB_MATCH
	}
	r.Data[0], r.Data[1] = family, byte(host.BitLen())
	r.PutUint32(8, flags)
	r.Add(unix.RTA_DST, host.AsSlice())
	return r
}
