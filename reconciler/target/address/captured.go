package address

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

// elsewhere returns an error if the kernel does not send packets for the networks of some addresses to their devices, because of other
// routes to just these networks, which come before the kernel's own. It is no error that another device has an address of the network.
// Ports of a VRF are not looked at: their routes are in another table.
func (w *RouteWatcher) elsewhere(ctx context.Context, all []Seen) error {
	var found []captured
	failed := map[netip.Prefix]struct{}{} // networks to which nothing leads
	for _, s := range all {
		by, leads, err := w.target.routeOf(ctx, s.Address.Masked())
		switch {
		case err != nil:
			return fmt.Errorf("find the route to %s: %w", s.Address.Masked(), err)
		case !leads:
			failed[s.Address.Masked()] = struct{}{}
		case by.isOfOthers() && slices.ContainsFunc(by.hops, func(h hop) bool { return h != hop{index: s.Index} }), by.drops() != "":
			found = append(found, captured{s, by})
		}
	}
	dropped, err := w.target.dropped(ctx, failed)
	if err != nil {
		return err
	}
	for _, s := range all {
		if by, drops := dropped[s.Address.Masked()]; drops {
			found = append(found, captured{s, by})
		}
	}
	return w.target.report(ctx, found)
}

// captured is an address to whose network another route comes first.
type captured struct {
	address Seen
	by      route
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
	return fmt.Errorf("%s of %s: %s%s", c.address.Address.Masked(), c.address.Device, c.by.describe(&links, c.address.Index), others)
}

// isOfOthers reports whether a route was not made by the kernel, and is where the kernel's are.
func (r route) isOfOthers() bool {
	return r.protocol != unix.RTPROT_KERNEL && (r.table == unix.RT_TABLE_MAIN || r.table == unix.RT_TABLE_LOCAL)
}

// drops returns the type of a route in the table main that drops packets, or "".
func (r route) drops() string {
	if r.table != unix.RT_TABLE_MAIN {
		return ""
	}
	return map[byte]string{
		unix.RTN_UNREACHABLE: "unreachable", unix.RTN_BLACKHOLE: "blackhole", unix.RTN_PROHIBIT: "prohibit", unix.RTN_THROW: "throw",
	}[r.kind]
}

// describe says where a route leads that comes before the one to the device with an index.
func (r route) describe(links *rtnl.Devices, index int) string {
	if kind := r.drops(); kind != "" {
		return "a route of type " + kind + " comes first"
	}
	to := ""
	for _, h := range r.hops {
		link, _ := links.Of(h.index)
		switch {
		case h.index != index:
			return "another route leads to " + link.Name
		case h.gateway:
			to = "another route leads to a gateway on " + link.Name
		}
	}
	return to
}

// routeOf returns the route that the kernel uses for packets to a network, if it leads to just this network, and the zero value otherwise.
// It leads nowhere if the kernel has none, or one that drops packets, which it does not show in IPv4.
func (t *Target) routeOf(ctx context.Context, network netip.Prefix) (r route, leads bool, err error) {
	const tries = 10 // of several hosts of a network, few are this machine or have routes of their own
	leads = true
	host := network.Addr().Next()
	for range tries {
		if !network.Contains(host) {
			break
		}
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
		host = host.Next()
	}
	return route{}, leads, nil
}

// nowhere are the answers of the kernel if it has no route, or one that drops packets.
var nowhere = []error{syscall.ENETUNREACH, syscall.EHOSTUNREACH, syscall.EACCES, syscall.EINVAL}

// dropped returns the routes in the table main to just one of some networks that drop packets.
func (t *Target) dropped(ctx context.Context, networks map[netip.Prefix]struct{}) (map[netip.Prefix]route, error) {
	all := map[netip.Prefix]route{}
	if len(networks) == 0 {
		return all, nil
	}
	for _, family := range []byte{unix.AF_INET, unix.AF_INET6} {
		r := rtnl.Request{Type: unix.RTM_GETROUTE, Data: make([]byte, unix.SizeofRtMsg)}
		r.Data[0] = family
		r.AddUint32(unix.RTA_TABLE, unix.RT_TABLE_MAIN)
		found, err := rtnl.Dump(ctx, t.conn, r, func(m syscall.NetlinkMessage) (route, bool) {
			is, _ := decodeRoute(m)
			_, asked := networks[is.to]
			return is, asked && is.drops() != ""
		})
		if err != nil && !errors.Is(err, syscall.ENOENT) {
			return nil, fmt.Errorf("list routes: %w", err)
		}
		for _, is := range found {
			all[is.to] = is
		}
	}
	return all, nil
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
