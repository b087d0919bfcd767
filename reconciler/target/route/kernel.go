package route

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"syscall"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/statehive/statehive/reconciler/target/internal/rtnl"
)

const unicast = unix.RTN_UNICAST

func typeName(kind int) string {
	switch kind {
	case unix.RTN_BLACKHOLE:
		return "blackhole"
	case unix.RTN_UNREACHABLE:
		return "unreachable"
	case unix.RTN_PROHIBIT:
		return "prohibit"
	}
	return strconv.Itoa(kind)
}

// list returns the routes of a family with the table (0: all) and the protocol
// (0: all) of filter.
func (t *Target) list(family Family, filter netlink.Route) ([]netlink.Route, error) {
	number, mask := netlink.FAMILY_V4, netlink.RT_FILTER_TABLE
	if family == Inet6 {
		number = netlink.FAMILY_V6
	}
	if filter.Protocol != 0 {
		mask |= netlink.RT_FILTER_PROTOCOL
	}
	routes, err := rtnl.List(t.conn, func(handle *netlink.Handle) ([]netlink.Route, error) {
		return handle.RouteListFiltered(number, &filter, mask)
	})
	if errors.Is(err, syscall.ENOENT) {
		return nil, nil // the kernel makes a table with its first route
	}
	if err != nil {
		return nil, fmt.Errorf("list routes: %w", err)
	}
	return routes, nil
}

// isInSync asks the kernel for the route that it would take to the destination.
// In most cases that is the very route of the row, and no listing is needed.
func (t *Target) isInSync(w wanted) bool {
	destination := w.row.Destination.Prefix().Addr()
	if destination.IsUnspecified() {
		return false // the kernel would look for itself
	}
	var found []netlink.Route
	err := t.conn.Do(func(handle *netlink.Handle) (err error) {
		found, err = handle.RouteGetWithOptions(destination.AsSlice(), &netlink.RouteGetOptions{FIBMatch: true})
		return err
	}, syscall.ENETUNREACH, syscall.EHOSTUNREACH, syscall.EINVAL, syscall.EACCES)
	if err != nil || len(found) != 1 {
		return false
	}
	r := found[0]
	return r.Protocol == Protocol && keyOf(r) == w.row.Key() && w.matches(r)
}

// add adds a route where we saw none of ours. If there is one by now, it is
// somebody else's: we look again to say whose.
func (t *Target) add(w wanted) error {
	err := t.request("add", w, (*netlink.Handle).RouteAdd, syscall.EEXIST)
	if !errors.Is(err, syscall.EEXIST) {
		return err
	}
	s, lookErr := t.look(w)
	if lookErr != nil {
		return lookErr
	}
	if w.isMetBy(s) {
		return nil
	}
	return err
}

// change makes a route of ours be what the row wants. Nobody else holds its key.
func (t *Target) change(w wanted, s state) error {
	if len(s.ours) == 1 {
		if err := t.request("replace", w, (*netlink.Handle).RouteReplace); err != nil {
			return err
		}
		// In IPv6 a replacement can become a further next hop instead, as it
		// depends on the kernel's version and on what was there.
		var err error
		if s, err = t.look(w); err != nil {
			return err
		}
		if w.isMetBy(s) {
			return nil
		}
	}
	if err := t.remove(s.ours); err != nil {
		return err
	}
	return t.add(w)
}

func (t *Target) request(verb string, w wanted, do func(*netlink.Handle, *netlink.Route) error, expected ...syscall.Errno) error {
	err := t.conn.Do(func(handle *netlink.Handle) error { return do(handle, w.kernelRoute()) }, expected...)
	if err != nil {
		return fmt.Errorf("%s route %s: %w", verb, describe(w.row), err)
	}
	return nil
}

// remove deletes routes of ours, each told as closely as the kernel can.
func (t *Target) remove(routes []netlink.Route) error {
	for _, r := range routes {
		err := t.conn.Do(func(handle *netlink.Handle) error { return handle.RouteDel(deletionOf(r)) }, syscall.ESRCH)
		if err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("remove route %s: %w", keyOf(r), err)
		}
	}
	return nil
}

// deletionOf returns what names a listed route to the kernel. A route with
// several next hops has none of its own here, and goes as a whole.
func deletionOf(r netlink.Route) *netlink.Route {
	return &netlink.Route{
		Dst: kernelPrefix(prefixOf(r)), Gw: r.Gw, LinkIndex: r.LinkIndex,
		Table: r.Table, Priority: r.Priority, Protocol: r.Protocol, Type: r.Type, Scope: r.Scope, Tos: r.Tos,
	}
}

func (w wanted) kernelRoute() *netlink.Route {
	r := &netlink.Route{
		Dst:       kernelPrefix(w.row.Destination.Prefix()),
		LinkIndex: w.index,
		Table:     int(w.row.Table),
		Priority:  int(w.row.Metric),
		Protocol:  Protocol,
		Type:      unicast,
	}
	if w.row.Gateway.IsValid() {
		r.Gw = w.row.Gateway.AsSlice()
	} else if w.row.Family == Inet {
		r.Scope = netlink.SCOPE_LINK
	}
	if w.row.Source.IsValid() {
		r.Src = w.row.Source.AsSlice()
	}
	return r
}

// rowOf returns a listed route as a row. devices are the names known so far.
func (t *Target) rowOf(r netlink.Route, devices map[int]string) Route {
	row := Route{
		Destination: To(prefixOf(r)),
		Gateway:     addrOf(r.Gw),
		Source:      addrOf(r.Src),
		Metric:      uint32(r.Priority),
		Table:       Table(r.Table),
	}
	if r.LinkIndex > 0 && len(r.MultiPath) == 0 {
		name, known := devices[r.LinkIndex]
		if !known {
			name = t.conn.LinkName(r.LinkIndex)
			devices[r.LinkIndex] = name
		}
		row.Device = name
	}
	return row.completed()
}

func keyOf(r netlink.Route) Key {
	return Key{prefixOf(r), Table(r.Table), uint32(r.Priority)}
}

// prefixOf returns the destination of a listed route. The library gives that of
// a default route in several forms.
func prefixOf(r netlink.Route) netip.Prefix {
	ones := 0
	if r.Dst != nil {
		ones, _ = r.Dst.Mask.Size()
	}
	switch {
	case ones > 0:
		return netip.PrefixFrom(addrOf(r.Dst.IP), ones)
	case r.Family == netlink.FAMILY_V6:
		return Inet6.everything()
	}
	return Inet.everything()
}

// addrOf returns a listed address; the zero value if there is none. The kernel
// gives IPv4 addresses four bytes.
func addrOf(ip net.IP) netip.Addr {
	addr, _ := netip.AddrFromSlice(ip)
	return addr
}

func kernelPrefix(prefix netip.Prefix) *net.IPNet {
	return &net.IPNet{
		IP:   prefix.Addr().AsSlice(),
		Mask: net.CIDRMask(prefix.Bits(), prefix.Addr().BitLen()),
	}
}
