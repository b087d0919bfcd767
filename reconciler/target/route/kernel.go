package route

import (
	"cmp"
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
	"github.com/statehive/statehive/statedb/immutable"
)

// attributeNexthopID is the kernel's RTA_NH_ID.
const attributeNexthopID = 30

// kernelRoute is a route as the kernel describes it. Only the indexes of its devices are known.
type kernelRoute struct {
	Seen
	protocol, tos, kind byte
	nexthopID           uint32 // ID of the kernel's next hop object; 0 for none
	preference          int8   // of routers, RFC 4191: -1 is low, 0 medium, 1 high
}

// same reports whether two listed routes are the same route.
func (r kernelRoute) same(other kernelRoute) bool { return r == other }

// decodeRoute reads a notification or an answer about a route. It returns false if the message is not about a route in a table, or about an
// IPv6 route for packets from some sources: no row sets that, and to the kernel it is another route.
func decodeRoute(m syscall.NetlinkMessage) (r kernelRoute, ok bool) {
	if len(m.Data) < unix.SizeofRtMsg {
		return r, false
	}
	family, bits, sourceBits := m.Data[0], int(m.Data[1]), m.Data[2]
	r.tos, r.protocol, r.Scope, r.kind = m.Data[3], m.Data[5], rtnl.ScopeOf(m.Data[6]), m.Data[7]
	r.Key.Table = Table(m.Data[4])
	flags := rtnl.Uint32(m.Data[8:])
	if flags&unix.RTM_F_CLONED != 0 || sourceBits != 0 {
		return r, false
	}
	everything := netip.IPv4Unspecified()
	if family == unix.AF_INET6 {
		everything = netip.IPv6Unspecified()
	}
	r.Key.Destination = netip.PrefixFrom(everything, bits)
	var more unsettable
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
		case unix.RTA_METRICS:
			r.MTU, more.metrics = metricsIn(value)
		case attributeNexthopID:
			r.nexthopID = rtnl.Uint32(value)
		case unix.RTA_MULTIPATH:
			r.Nexthops = more.decodeNexthops(value, family == unix.AF_INET6)
		case unix.RTA_VIA:
			more.via = viaOf(value)
		case unix.RTA_ENCAP_TYPE:
			more.encapsulated = true
		case unix.RTA_FLOW:
			more.realm = true
		case unix.RTA_PREF:
			r.preference = preferenceOf(value)
		case unix.RTA_CACHEINFO:
			more.lifetime = rtnl.Uint32(value[min(8, len(value)):]) != 0 // rta_expires
		}
	}
	if r.Nexthops.IsZero() {
		r.Dead = flags&unix.RTNH_F_DEAD != 0
	} else {
		r.Gateway, r.index = netip.Addr{}, 0
	}
	r.setKind(more)
	return r, true
}

// unsettable is what rows cannot set.
type unsettable struct {
	via                                    netip.Addr // a gateway of the other family, if there is one
	encapsulated, metrics, lifetime, realm bool
}

// metricsIn returns the MTU, and whether there are other metrics. One of them is whether the MTU is locked.
func metricsIn(metrics []byte) (mtu uint32, others bool) {
	for kind, value := range rtnl.Attributes(metrics) {
		if kind == unix.RTAX_MTU {
			mtu = rtnl.Uint32(value)
		} else {
			others = true
		}
	}
	return mtu, others
}

// preferenceOf reads the preference of an IPv6 route, a signed number of two bits.
func preferenceOf(value []byte) int8 {
	if len(value) != 1 {
		return 0
	}
	return int8(value[0]<<6) >> 6
}

// viaOf reads a gateway of the other family.
func viaOf(value []byte) netip.Addr { return addrOf(value[min(2, len(value)):]) } // after its family

// decodeNexthops reads the next hops of a route. IPv6 next hops, whose order varies, are
// sorted.
func (more *unsettable) decodeNexthops(b []byte, sorted bool) immutable.List[SeenNexthop] {
	var hops []SeenNexthop
	for len(b) >= unix.SizeofRtNexthop {
		size := int(binary.NativeEndian.Uint16(b))
		if size < unix.SizeofRtNexthop || size > len(b) {
			break
		}
		h := SeenNexthop{index: int(rtnl.Uint32(b[4:])), Weight: uint16(b[3]) + 1, Dead: b[2]&unix.RTNH_F_DEAD != 0}
		for kind, value := range rtnl.Attributes(b[unix.SizeofRtNexthop:size]) {
			switch kind {
			case unix.RTA_GATEWAY:
				h.Gateway = addrOf(value)
			case unix.RTA_VIA:
				more.via = viaOf(value)
			case unix.RTA_ENCAP_TYPE:
				more.encapsulated = true
			case unix.RTA_FLOW:
				more.realm = true
			}
		}
		hops = append(hops, h)
		b = b[min(len(b), (size+3)&^3):]
	}
	if sorted {
		slices.SortFunc(hops, func(a, b SeenNexthop) int {
			return cmp.Or(a.Gateway.Compare(b.Gateway), cmp.Compare(a.index, b.index))
		})
	}
	return immutable.ListOf(hops...)
}

// setKind sets the type, and the kind if the route has properties that rows cannot set.
func (r *kernelRoute) setKind(more unsettable) {
	known := false
	r.Type, known = types[r.kind]
	switch {
	case !known:
		r.Kind = "type " + strconv.Itoa(int(r.kind))
	case r.tos != 0:
		r.Kind = fmt.Sprintf("tos %#02x", r.tos)
	case r.nexthopID != 0:
		r.Kind = fmt.Sprintf("by the next hop object %d", r.nexthopID)
	case more.via.IsValid():
		r.Kind = "via " + more.via.String()
	case more.encapsulated:
		r.Kind = "encapsulated"
	case more.metrics:
		r.Kind = "with metrics other than the MTU"
	case more.realm:
		r.Kind = "with a realm"
	case more.lifetime:
		r.Kind = "with a lifetime"
	case r.preference != 0:
		r.Kind = "with a preference"
	}
}

func addrOf(b []byte) netip.Addr {
	addr, _ := netip.AddrFromSlice(b)
	return addr
}

// fixed is the fixed-size part of a message about a route, before its attributes.
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

// wantedRoute returns the route of a row as the kernel would report it.
func (w wanted) wantedRoute() kernelRoute {
	r := kernelRoute{protocol: Protocol, kind: w.row.Type.number(), Seen: Seen{
		Key: w.row.Key(), Gateway: w.row.Gateway, index: w.index, Source: w.row.Source,
		MTU: w.row.MTU, Type: w.row.Type, Scope: w.row.scope(),
	}}
	if len(w.hops) > 0 {
		r.Nexthops = hopsOf(w.hops)
	}
	return r
}

func hopsOf(wants []wantedHop) immutable.List[SeenNexthop] {
	hops := make([]SeenNexthop, len(wants))
	for i, h := range wants {
		hops[i] = SeenNexthop{Gateway: h.Gateway, index: h.index, Weight: h.Weight}
	}
	return immutable.ListOf(hops...)
}

// addition returns the request that adds a route.
func (r kernelRoute) addition(flags uint16) rtnl.Request {
	f := fixed{protocol: r.protocol, typeOf: r.kind, scope: r.Scope.Number(0), tos: r.tos}
	request := requestFor(unix.RTM_NEWROUTE, flags|unix.NLM_F_CREATE, r.Key, f)
	r.addWay(&request)
	if r.Source.IsValid() {
		request.Add(unix.RTA_PREFSRC, r.Source.AsSlice())
	}
	r.addMTU(&request)
	return request
}

// addWay appends the next hops to a request.
func (r kernelRoute) addWay(request *rtnl.Request) {
	switch {
	case r.nexthopID != 0:
		request.AddUint32(attributeNexthopID, r.nexthopID)
	case !r.Nexthops.IsZero():
		request.Nest(unix.RTA_MULTIPATH, func() { r.addNexthops(request) })
	default:
		if r.Gateway.IsValid() {
			request.Add(unix.RTA_GATEWAY, r.Gateway.AsSlice())
		}
		if r.index > 0 && r.Type == Unicast { // the kernel puts those of other types on lo
			request.AddUint32(unix.RTA_OIF, uint32(r.index))
		}
	}
}

func (r kernelRoute) addNexthops(request *rtnl.Request) {
	for _, h := range r.Nexthops.All() {
		at := len(request.Data)
		request.Data = append(request.Data, 0, 0, 0, byte(h.Weight-1))
		request.Data = binary.NativeEndian.AppendUint32(request.Data, uint32(h.index))
		if h.Gateway.IsValid() {
			request.Add(unix.RTA_GATEWAY, h.Gateway.AsSlice())
		}
		binary.NativeEndian.PutUint16(request.Data[at:], uint16(len(request.Data)-at))
	}
}

func (r kernelRoute) addMTU(request *rtnl.Request) {
	if r.MTU != 0 {
		request.Nest(unix.RTA_METRICS, func() { request.AddUint32(unix.RTAX_MTU, r.MTU) })
	}
}

// ours returns an observed route as a kernelRoute.
func (s Seen) ours() kernelRoute {
	return kernelRoute{Seen: s, protocol: Protocol, kind: s.Type.number()}
}

// deletions returns the requests that remove a route. They specify it as exactly as the kernel
// allows, so that no route of another protocol matches. If an IPv6 route has several next
// hops, they are removed one by one, so that next hops added by others stay.
func (r kernelRoute) deletions() []rtnl.Request {
	if r.Nexthops.IsZero() || r.Key.family() == Inet {
		return []rtnl.Request{r.deletion()}
	}
	var requests []rtnl.Request
	for _, h := range r.Nexthops.All() {
		requests = append(requests, r.by(h).deletion())
	}
	return requests
}

// by returns the route with only one of its next hops.
func (r kernelRoute) by(h SeenNexthop) kernelRoute {
	r.Nexthops = immutable.List[SeenNexthop]{}
	r.Gateway, r.index, r.Device, r.OtherNames, r.Dead = h.Gateway, h.index, h.Device, h.OtherNames, h.Dead
	return r
}

func (r kernelRoute) deletion() rtnl.Request {
	request := requestFor(unix.RTM_DELROUTE, 0, r.Key, fixed{protocol: r.protocol, scope: r.Scope.Number(0), typeOf: r.kind, tos: r.tos})
	r.addWay(&request)
	if r.Key.family() == Inet { // IPv6 has no use for more
		if r.Source.IsValid() {
			request.Add(unix.RTA_PREFSRC, r.Source.AsSlice())
		}
		r.addMTU(&request)
	}
	return request
}

// list returns the routes of a family with a table and a protocol; 0 means all.
func (t *Target) list(ctx context.Context, family Family, table Table, protocol byte) ([]kernelRoute, error) {
	return t.listSome(ctx, listed{family, table}, protocol, func(Key) bool { return true })
}

// listSome is list for the routes whose keys some accepts.
func (t *Target) listSome(ctx context.Context, which listed, protocol byte, some func(Key) bool) ([]kernelRoute, error) {
	routes, _, err := t.listInParts(ctx, which, protocol, func(r kernelRoute) bool { return some(r.Key) })
	return routes, err
}

// listInParts is listSome, and returns the number of parts of the listing: see [rtnl.DumpInParts].
func (t *Target) listInParts(ctx context.Context, which listed, protocol byte, some func(kernelRoute) bool) ([]kernelRoute, int, error) {
	request := fixed{family: which.family, protocol: protocol}.request(unix.RTM_GETROUTE, 0)
	if which.table != 0 {
		request.AddUint32(unix.RTA_TABLE, uint32(which.table))
	}
	routes, parts, err := rtnl.DumpInParts(ctx, t.conn, request, func(m syscall.NetlinkMessage) (kernelRoute, bool) {
		r, ok := which.family.decode(m)
		return r, ok && some(r)
	})
	if errors.Is(err, syscall.ENOENT) {
		return nil, 0, nil // the kernel makes a table with its first route
	}
	if err != nil {
		return nil, 0, fmt.Errorf("list routes: %w", err)
	}
	return routes, parts, nil
}

// decode reads a route of a listing of a family. A kernel that was started without IPv6 lists the routes of all other families
// when it is asked for those of IPv6.
func (f Family) decode(m syscall.NetlinkMessage) (kernelRoute, bool) {
	r, ok := decodeRoute(m)
	return r, ok && m.Header.Type == unix.RTM_NEWROUTE && r.Key.family() == f
}

// routeTo returns the route that the kernel uses for packets to an address, through a device if its index is not 0.
func (t *Target) routeTo(ctx context.Context, addr netip.Addr, device int) (r kernelRoute, ok bool, err error) {
	f := fixed{family: familyOf(addr), bits: addr.BitLen(), flags: unix.RTM_F_FIB_MATCH}
	if f.family == Inet { // IPv6 names the table anyway
		f.flags |= unix.RTM_F_LOOKUP_TABLE
	}
	request := f.request(unix.RTM_GETROUTE, 0)
	request.Add(unix.RTA_DST, addr.AsSlice())
	if device != 0 {
		request.AddUint32(unix.RTA_OIF, uint32(device))
	}
	err = t.conn.Get(ctx, request, func(m syscall.NetlinkMessage) { r, ok = decodeRoute(m) })
	return r, ok, err
}

// chosen returns the route that the kernel uses for the destination of a key, if it has that
// key. In most cases that avoids a listing. hidden reports whether there may be
// another route with the key, which the kernel does not use or does not report.
func (t *Target) chosen(ctx context.Context, key Key) (r kernelRoute, ok, hidden bool) {
	if key.Destination.Addr().IsUnspecified() {
		return r, false, true // the kernel would choose by itself
	}
	r, ok, err := t.routeTo(ctx, key.Destination.Addr(), 0)
	found := ok && err == nil
	// The error distinguishes a route that drops or refuses packets from a missing route.
	hidden = !found && !errors.Is(err, syscall.ENETUNREACH) ||
		found && (r.Key.Table != key.Table || r.Key.Destination.Bits() >= key.Destination.Bits())
	return r, found && r.Key == key, hidden
}
