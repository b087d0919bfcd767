package route

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/statehive/statehive/reconciler/target/rtnl"
)

// kernelRoute is a route as the kernel tells of it. Of its device the index alone
// is known.
type kernelRoute struct {
	Seen
	protocol, scope, tos, kind byte
	multipath                  bool
	hops                       []hop // of an IPv6 route with several
}

// hop is a next hop of a route with several.
type hop struct {
	gateway netip.Addr
	index   int
}

// same reports whether two listed routes are one.
func (r kernelRoute) same(other kernelRoute) bool {
	return r.Seen == other.Seen && r.protocol == other.protocol && r.tos == other.tos && r.kind == other.kind &&
		slices.Equal(r.hops, other.hops)
}

// decodeRoute reads a notification or an answer about a route. It returns false
// for what is no route of a table.
func decodeRoute(m syscall.NetlinkMessage) (r kernelRoute, ok bool) {
	if len(m.Data) < unix.SizeofRtMsg {
		return r, false
	}
	family, bits, sourceBits := m.Data[0], int(m.Data[1]), m.Data[2]
	r.tos, r.protocol, r.scope, r.kind = m.Data[3], m.Data[5], m.Data[6], m.Data[7]
	r.Key.Table = Table(m.Data[4])
	if flags := rtnl.Uint32(m.Data[8:]); flags&unix.RTM_F_CLONED != 0 {
		return r, false
	}
	everything := netip.IPv4Unspecified()
	if family == unix.AF_INET6 {
		everything = netip.IPv6Unspecified()
	}
	r.Key.Destination = netip.PrefixFrom(everything, bits)
	via := netip.Addr{}
	for kind, value := range rtnl.Attributes(m.Data[unix.SizeofRtMsg:]) {
		switch kind {
		case unix.RTA_DST:
			r.Key.Destination = netip.PrefixFrom(addrOf(value), bits)
		case unix.RTA_TABLE:
			r.Key.Table = Table(rtnl.Uint32(value))
		case unix.RTA_PRIORITY:
			r.Key.Metric = rtnl.Uint32(value)
		case unix.RTA_GATEWAY:
			r.Gateway = addrOf(value)
		case unix.RTA_PREFSRC:
			r.Source = addrOf(value)
		case unix.RTA_OIF:
			r.index = int(rtnl.Uint32(value))
		case unix.RTA_MULTIPATH:
			r.multipath = true
			if family == unix.AF_INET6 {
				r.hops = decodeHops(value)
			}
		case unix.RTA_VIA:
			via = addrOf(value[min(2, len(value)):]) // behind its family
		}
	}
	if r.multipath {
		r.Gateway, r.index = netip.Addr{}, 0
	}
	r.Kind = r.special(sourceBits, via)
	return r, true
}

// decodeHops reads the next hops of a route.
func decodeHops(b []byte) (hops []hop) {
	for len(b) >= unix.SizeofRtNexthop {
		size := int(binary.NativeEndian.Uint16(b))
		if size < unix.SizeofRtNexthop || size > len(b) {
			break
		}
		h := hop{index: int(rtnl.Uint32(b[4:]))}
		for kind, value := range rtnl.Attributes(b[unix.SizeofRtNexthop:size]) {
			if kind == unix.RTA_GATEWAY {
				h.gateway = addrOf(value)
			}
		}
		hops = append(hops, h)
		b = b[min(len(b), (size+3)&^3):]
	}
	return hops
}

// special returns what sets a route apart from those that rows make.
func (r kernelRoute) special(sourceBits byte, via netip.Addr) string {
	switch {
	case r.multipath:
		return "multipath"
	case r.kind != unix.RTN_UNICAST:
		return typeName(r.kind)
	case r.tos != 0:
		return fmt.Sprintf("tos %#02x", r.tos)
	case via.IsValid():
		return "via " + via.String() // of the other family
	case sourceBits != 0:
		return "for some sources"
	}
	return ""
}

func typeName(kind byte) string {
	switch kind {
	case unix.RTN_BLACKHOLE:
		return "blackhole"
	case unix.RTN_UNREACHABLE:
		return "unreachable"
	case unix.RTN_PROHIBIT:
		return "prohibit"
	}
	return strconv.Itoa(int(kind))
}

func addrOf(b []byte) netip.Addr {
	addr, _ := netip.AddrFromSlice(b)
	return addr
}

// fixed is the part of a message about a route before its attributes.
type fixed struct {
	family                       Family
	bits                         int
	tos, protocol, scope, typeOf byte
	flags                        uint32
}

func (f fixed) request(messageType, flags uint16) rtnl.Request {
	family := byte(unix.AF_INET)
	if f.family == Inet6 {
		family = unix.AF_INET6
	}
	r := rtnl.Request{Type: messageType, Flags: flags, Data: make([]byte, unix.SizeofRtMsg, 96)}
	copy(r.Data, []byte{family, byte(f.bits), 0, f.tos, 0, f.protocol, f.scope, f.typeOf})
	r.PutUint32(8, f.flags)
	return r
}

// requestFor begins a message about the route with a key.
func requestFor(messageType, flags uint16, key Key, f fixed) rtnl.Request {
	f.family, f.bits = key.family(), key.Destination.Bits()
	r := f.request(messageType, flags)
	if f.bits > 0 {
		r.Add(unix.RTA_DST, key.Destination.Addr().AsSlice())
	}
	r.AddUint32(unix.RTA_TABLE, uint32(key.Table))
	if key.Metric != 0 {
		r.AddUint32(unix.RTA_PRIORITY, key.Metric)
	}
	return r
}

// addition is the request that makes the route of a row.
func (w wanted) addition(flags uint16) rtnl.Request {
	f := fixed{protocol: Protocol, typeOf: unix.RTN_UNICAST}
	if !w.row.Gateway.IsValid() && w.row.Family == Inet {
		f.scope = unix.RT_SCOPE_LINK
	}
	return addition(w.row.Key(), f, flags, w.row.Gateway, w.row.Source, w.index)
}

func addition(key Key, f fixed, flags uint16, gateway, source netip.Addr, index int) rtnl.Request {
	r := requestFor(unix.RTM_NEWROUTE, flags|unix.NLM_F_CREATE, key, f)
	if gateway.IsValid() {
		r.Add(unix.RTA_GATEWAY, gateway.AsSlice())
	}
	if source.IsValid() {
		r.Add(unix.RTA_PREFSRC, source.AsSlice())
	}
	if index > 0 {
		r.AddUint32(unix.RTA_OIF, uint32(index))
	}
	return r
}

// deletion is the request that removes a route of ours, and none of others with
// its key.
func (s Seen) deletion() rtnl.Request {
	r := requestFor(unix.RTM_DELROUTE, 0, s.Key, fixed{protocol: Protocol, scope: unix.RT_SCOPE_NOWHERE})
	if s.Gateway.IsValid() {
		r.Add(unix.RTA_GATEWAY, s.Gateway.AsSlice())
	}
	if s.Source.IsValid() && s.Key.family() == Inet {
		r.Add(unix.RTA_PREFSRC, s.Source.AsSlice())
	}
	if s.index > 0 {
		r.AddUint32(unix.RTA_OIF, uint32(s.index))
	}
	return r
}

// deletions remove a listed route, told as closely as the kernel can. Those next
// hops of an IPv6 route go that are ours: others may have added some.
func (r kernelRoute) deletions() []rtnl.Request {
	if len(r.hops) == 0 {
		request := r.Seen.deletion()
		request.Data[3], request.Data[6], request.Data[7] = r.tos, r.scope, r.kind
		return []rtnl.Request{request}
	}
	var requests []rtnl.Request
	for _, h := range r.hops {
		s := r.Seen
		s.Gateway, s.index = h.gateway, h.index
		requests = append(requests, s.deletion())
	}
	return requests
}

// list returns the routes of a family with a table (0: all) and a protocol (0: all).
func (t *Target) list(ctx context.Context, family Family, table Table, protocol byte) ([]kernelRoute, error) {
	request := fixed{family: family, protocol: protocol}.request(unix.RTM_GETROUTE, 0)
	if table != 0 {
		request.AddUint32(unix.RTA_TABLE, uint32(table))
	}
	routes, err := rtnl.Dump(ctx, t.conn, request, func(m syscall.NetlinkMessage) (kernelRoute, bool) {
		r, ok := decodeRoute(m)
		return r, ok && m.Header.Type == unix.RTM_NEWROUTE
	})
	if errors.Is(err, syscall.ENOENT) {
		return nil, nil // the kernel makes a table with its first route
	}
	if err != nil {
		return nil, fmt.Errorf("list routes: %w", err)
	}
	return routes, nil
}

// chosen returns the route that the kernel takes to the destination of a row, if
// it has the key of the row. In most cases that spares a listing.
func (t *Target) chosen(ctx context.Context, w wanted) (r kernelRoute, ok bool) {
	key := w.row.Key()
	if key.Destination.Addr().IsUnspecified() {
		return r, false // the kernel would look for itself
	}
	f := fixed{family: w.row.Family, bits: key.Destination.Addr().BitLen(), flags: unix.RTM_F_FIB_MATCH}
	if w.row.Family == Inet { // IPv6 names the table anyway
		f.flags |= unix.RTM_F_LOOKUP_TABLE
	}
	request := f.request(unix.RTM_GETROUTE, 0)
	request.Add(unix.RTA_DST, key.Destination.Addr().AsSlice())
	err := t.conn.Get(ctx, request, func(m syscall.NetlinkMessage) { r, ok = decodeRoute(m) })
	return r, ok && err == nil && r.Key == key
}
