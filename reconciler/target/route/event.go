package route

import (
	"net/netip"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/statehive/statehive/reconciler/target/rtnl"
)

// event is a decoded notification.
type event struct {
	kind     eventKind
	route    Seen // without the names of its devices
	ours     bool
	replaced bool         // the route replaced another one with its key
	precedes bool         // the route comes before others with its key
	link     rtnl.Link    // link that changed; only the index is set if it is gone
	address  netip.Prefix // address that was added or is gone, with the length of its network
}

type eventKind uint8

const (
	routeAdded eventKind = iota
	routeGone
	linkChanged
	linkGone
	addressAdded
	addressGone
	settingsChanged // settings of a device, or of all devices
)

// decode reads a notification. IPv4 routes of others with a TOS, which coexist with ours, do not matter. An IPv6 route of ours comes after
// all others when it changes.
func decode(m syscall.NetlinkMessage) (e event, ok bool) {
	switch m.Header.Type {
	case unix.RTM_NEWROUTE, unix.RTM_DELROUTE:
		r, ok := decodeRoute(m)
		e.route, e.ours = r.Seen, r.protocol == Protocol
		// A route with a TOS has replaced one with the same TOS.
		e.replaced = m.Header.Flags&unix.NLM_F_REPLACE != 0 && r.tos == 0
		e.precedes = precedes(r, m.Header.Flags)
		if m.Header.Type == unix.RTM_DELROUTE {
			e.kind, e.replaced = routeGone, false
		}
		return e, ok && (e.ours || r.Key.family() == Inet6 || r.tos == 0)
	case unix.RTM_NEWLINK:
		e.kind = linkChanged
		e.link, ok = rtnl.DecodeLink(m)
		return e, ok
	case unix.RTM_DELLINK:
		e.kind = linkGone
		e.link, ok = rtnl.DecodeLink(m)
		return e, ok
	case unix.RTM_NEWNETCONF:
		e.kind = settingsChanged
		return e, true
	case unix.RTM_NEWADDR, unix.RTM_DELADDR:
		if e.kind = addressAdded; m.Header.Type == unix.RTM_DELADDR {
			e.kind = addressGone
		}
		e.link.Index, e.address, ok = decodeAddress(m)
		return e, ok
	}
	return e, false
}

// precedes reports whether the kernel uses an announced route rather than others with its key.
func precedes(r kernelRoute, flags uint16) bool {
	if r.Key.family() == Inet6 {
		return r.preference > 0
	}
	return r.tos == 0 && flags&unix.NLM_F_APPEND == 0
}

// decodeAddress reads the device and the address of a notification.
func decodeAddress(m syscall.NetlinkMessage) (index int, address netip.Prefix, ok bool) {
	if len(m.Data) < unix.SizeofIfAddrmsg {
		return 0, address, false
	}
	var addr netip.Addr
	for kind, value := range rtnl.Attributes(m.Data[unix.SizeofIfAddrmsg:]) {
		if kind == unix.IFA_LOCAL || kind == unix.IFA_ADDRESS && !addr.IsValid() {
			addr = addrOf(value)
		}
	}
	return int(rtnl.Uint32(m.Data[4:])), netip.PrefixFrom(addr, int(m.Data[1])), true
}
