package address

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"math"
	"net/netip"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/target/link"
	"github.com/statehive/statehive/reconciler/target/rtnl"
	"github.com/statehive/statehive/statedb"
)

// The routes are looked at every routesInterval, or less often, up to maxRoutesInterval, if that would take more than one part in routesShare
// of the time: others, such as router advertisements, can add millions of them.
const (
	routesInterval    = 10 * time.Second
	maxRoutesInterval = 30 * time.Second
	routesShare       = 20
)

// attributeMetric is the kernel's IFA_RT_PRIORITY.
const attributeMetric = 9

// networkRoute is the field of a change that adds the route of an address's network again.
const networkRoute = "networkRoute"

// RouteWatcher notices when an address has lost the route to its network. The kernel adds that route
// together with the address, and not again if somebody removes it, for example with
// "ip route flush". It also notices addresses that are of no use because their device is a port of another one.
type RouteWatcher struct {
	target  *Target
	db      *statedb.DB
	devices link.Devices
	seen    *statedb.Table[Seen]
	log     *slog.Logger
	due     chan Key // rows to update
	missing map[SeenKey]missing
	every   time.Duration // how often they are looked at
}

// NewRouteWatcher returns a watcher for the addresses that a mirror has seen.
func (t *Target) NewRouteWatcher(db *statedb.DB, devices link.Devices, seen *statedb.Table[Seen], log *slog.Logger) *RouteWatcher {
	return &RouteWatcher{t, db, devices, seen, log, make(chan Key), map[SeenKey]missing{}, routesInterval}
}

// Related triggers updates of the rows whose addresses have lost the route. It takes effect
// while Run runs.
func (w *RouteWatcher) Related() reconciler.Related[Address] {
	return reconciler.Events(w.due, func(_ statedb.ReadTxn, key Key) iter.Seq[statedb.Query[Address]] {
		return slices.Values([]statedb.Query[Address]{ByKey.Query(key)})
	})
}

// Run looks for such addresses every ten seconds, or up to half a minute if there are very many routes, until ctx ends.
func (w *RouteWatcher) Run(ctx context.Context, health reconciler.Health) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		began := time.Now()
		all, lost, err := w.look(ctx)
		foreign, again, ports := err, w.again(lost), w.onPorts()
		if err == nil {
			foreign = w.elsewhere(ctx, all)
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			health.Degraded("addresses that lose the route to their network are not noticed", err)
		case foreign != nil:
			health.Degraded("packets for networks of addresses go elsewhere", foreign)
		case ports != nil:
			health.Degraded("addresses of ports are of no use", ports)
		case again != nil:
			health.Degraded("networks of addresses lose their routes again and again", again)
		default:
			health.OK("up to date")
		}
		w.every = routesEvery(time.Since(began))
		timer.Reset(w.every)
		for _, s := range lost {
			w.log.Warn("The route to the network of an address is gone or about to expire, and will be added again", "address", s.Address, "device", s.Device)
			for _, key := range s.keys() {
				select {
				case w.due <- key:
				case <-ctx.Done():
				}
			}
		}
	}
}

// routesEvery returns how often to look at the routes if that takes some time.
func routesEvery(look time.Duration) time.Duration {
	return min(max(routesInterval, routesShare*look), maxRoutesInterval)
}

// look finds the addresses of ours that bring the route to a network about, one for each network, and those that have lost it.
func (w *RouteWatcher) look(ctx context.Context) (all, lost []Seen, err error) {
	first := map[connected]Seen{}
	txn := w.db.ReadTxn()
	for s := range w.seen.All(txn) {
		if s.connects && !s.secondary {
			first[s.connected()] = s
			if w.target.owns(s) {
				all = append(all, s)
			}
		}
	}
	done := map[connected]bool{}
	for s := range w.seen.All(txn) {
		network := s.connected()
		if of, connects := first[network]; connects && s.connects && s.secondary && !done[network] && !w.target.owns(of) && w.target.owns(s) {
			all, done[network] = append(all, s), true
		}
	}
	if len(all) > 0 {
		lost, err = w.target.withoutRoute(ctx, slices.Clone(all), 2*w.every)
	}
	w.target.unrouted.set(lost, first)
	return all, lost, err
}

// missing counts how many times the route to the network of an address was found to be missing, and how many checks have passed since the
// last time.
type missing struct {
	device     string
	times, ago int
}

// again returns an error if addresses have lost the route to their network more than once, with fewer than three checks in between: others
// remove it whenever it was added, or a neighbor's router advertisements let it expire.
func (w *RouteWatcher) again(lost []Seen) error {
	const checks = 3
	for _, s := range lost {
		key := SeenKey{s.Index, s.Address}
		w.missing[key] = missing{s.Device, w.missing[key].times + 1, 0}
	}
	var names []string
	for key, m := range w.missing {
		if m.times > 1 {
			names = append(names, fmt.Sprintf("%s on %s", key.Address, m.device))
		}
		if m.ago++; m.ago < checks {
			w.missing[key] = m
		} else {
			delete(w.missing, key)
		}
	}
	if len(names) == 0 {
		return nil
	}
	others := ""
	if len(names) > 1 {
		others = fmt.Sprintf(", and %d more", len(names)-1)
	}
	return errors.New(slices.Min(names) + others)
}

// owns reports whether there is a record of an address of ours under one of the names of its device.
func (t *Target) owns(s Seen) bool {
	return slices.ContainsFunc(s.keys(), func(key Key) bool {
		rec, known := t.records.Get(key.String())
		return known && rec.Index == s.Index && !rec.Existed && t.isOurs(s, rec, known)
	})
}

// connected is a network on the device with an index.
type connected struct {
	index  int
	prefix netip.Prefix
}

func (s Seen) connected() connected { return connected{s.Index, s.Address.Masked()} }

// withoutRoute returns those of some addresses whose network has no route through their device. It may be a route that
// others have put in place of the kernel's. A route that expires within a time, and before the addresses of its network do, counts like one that has
// expired: others, such as router advertisements, have shortened its lifetime.
func (t *Target) withoutRoute(ctx context.Context, all []Seen, ahead time.Duration) ([]Seen, error) {
	of := map[connected]time.Duration{}
	for _, s := range all {
		lasts := max(0, min(ahead, s.lifetimes().left()-tolerance*time.Second))
		if least, known := of[s.connected()]; known {
			lasts = min(lasts, least)
		}
		of[s.connected()] = lasts
	}
	routed, err := t.networks(ctx, of, unix.RTPROT_KERNEL, 0)
	if err != nil {
		return nil, err
	}
	lost := slices.DeleteFunc(all, func(s Seen) bool { return routed[s.connected()].main })
	if len(lost) == 0 {
		return nil, nil
	}
	var links rtnl.Devices
	if err := links.List(ctx, t.conn); err != nil {
		return nil, err
	}
	others := map[int]map[connected]tables{} // by the index of the device
	lost = slices.DeleteFunc(lost, func(s Seen) bool {
		link, known := links.Of(s.Index)
		if !known || !link.Up || s.Address.Addr().Is4() && link.Flags&unix.IFF_LOOPBACK != 0 {
			return true // it has the route when it is up, with or without a carrier
		}
		vrf := inVRF(&links, link)
		if vrf && (s.secondary || routed[s.connected()].another) {
			return true // the route belongs in the table of the VRF, which only the kernel knows
		}
		if others[s.Index] == nil && err == nil {
			others[s.Index], err = t.networks(ctx, of, unix.RTPROT_UNSPEC, s.Index)
		}
		in := others[s.Index][s.connected()]
		return in.main || vrf && in.another
	})
	if err != nil {
		return nil, err
	}
	return lost, nil
}

// inVRF reports whether a link is a port of a VRF, whose routes are in a table of their own.
func inVRF(links *rtnl.Devices, link rtnl.Link) bool {
	master, known := links.Of(link.Master)
	return known && master.Type == "vrf"
}

// tables says in which tables a network has a route: in main, where the kernel adds it except for ports of a VRF, or in another one.
type tables struct{ main, another bool }

// networks returns to which of some networks routes lead that last for some time yet, and are of a protocol and through the device with an index,
// if these are given.
func (t *Target) networks(ctx context.Context, of map[connected]time.Duration, protocol byte, index int) (map[connected]tables, error) {
	type tabled struct {
		connected
		main bool
	}
	all := map[connected]tables{}
	for _, family := range []byte{unix.AF_INET, unix.AF_INET6} {
		r := rtnl.Request{Type: unix.RTM_GETROUTE, Data: make([]byte, unix.SizeofRtMsg)}
		r.Data[0], r.Data[5], r.Data[7] = family, protocol, unix.RTN_UNICAST
		if index > 0 {
			r.AddUint32(unix.RTA_OIF, uint32(index))
		}
		found, err := rtnl.Dump(ctx, t.conn, r, func(m syscall.NetlinkMessage) (n tabled, ok bool) {
			is, ok := decodeRoute(m)
			if !ok || len(is.hops) != 1 || is.hops[0].gateway {
				return n, false
			}
			n = tabled{connected{is.hops[0].index, is.to}, is.table == unix.RT_TABLE_MAIN}
			lasts, asked := of[n.connected] // of others there may be millions
			return n, asked && is.left >= lasts
		})
		if err != nil && !errors.Is(err, syscall.ENOENT) {
			return nil, fmt.Errorf("list routes: %w", err)
		}
		for _, n := range found {
			in := all[n.connected]
			all[n.connected] = tables{in.main || n.main, in.another || !n.main}
		}
	}
	return all, nil
}

// route is a route as the kernel has it.
type route struct {
	to       netip.Prefix
	table    byte
	kind     byte // such as RTN_UNICAST
	protocol byte
	hops     []hop
	left     time.Duration // until it expires; negative if it has and the kernel still lists it, math.MaxInt64 if it never does
}

// hop is a next hop: a device, or a gateway on it.
type hop struct {
	index   int
	gateway bool
}

// decodeRoute reads a route from a message about it. ok is false for a default route, and for one for packets from some sources.
func decodeRoute(m syscall.NetlinkMessage) (r route, ok bool) {
	if len(m.Data) < unix.SizeofRtMsg || m.Data[2] != 0 {
		return r, false
	}
	r.table, r.protocol, r.kind, r.left = m.Data[4], m.Data[5], m.Data[7], math.MaxInt64
	attributes := m.Data[unix.SizeofRtMsg:]
	for kind, value := range rtnl.Attributes(attributes) {
		switch kind {
		case unix.RTA_DST:
			addr, _ := netip.AddrFromSlice(value)
			r.to = netip.PrefixFrom(addr, int(m.Data[1]))
		case unix.RTA_MULTIPATH:
			r.hops = append(r.hops, decodeHops(value)...)
		case unix.RTA_CACHEINFO: // only IPv6 routes expire
			const expires = 8                                                            // of rta_cacheinfo in linux/rtnetlink.h, in hundredths of a second; 0: never
			if left := int32(rtnl.Uint32(value[min(expires, len(value)):])); left != 0 { //nolint:gosec // the kernel's has a sign
				r.left = time.Duration(left) * 10 * time.Millisecond
			}
		}
	}
	if h := decodeHop(attributes); h.index > 0 {
		r.hops = append(r.hops, h)
	}
	return r, r.to.IsValid()
}

// decodeHop reads a next hop from its attributes, without its device if that is not one of them.
func decodeHop(attributes []byte) (h hop) {
	for kind, value := range rtnl.Attributes(attributes) {
		switch kind {
		case unix.RTA_OIF:
			h.index = int(rtnl.Uint32(value))
		case unix.RTA_GATEWAY, unix.RTA_VIA:
			h.gateway = true
		}
	}
	return h
}

// decodeHops reads the next hops of a route that has several.
func decodeHops(b []byte) (hops []hop) {
	for len(b) >= unix.SizeofRtNexthop {
		size := int(binary.NativeEndian.Uint16(b)) // of rtnexthop in linux/rtnetlink.h
		if size < unix.SizeofRtNexthop || size > len(b) {
			return hops
		}
		h := decodeHop(b[unix.SizeofRtNexthop:size])
		h.index = int(rtnl.Uint32(b[4:]))
		hops = append(hops, h)
		b = b[min((size+unix.RTA_ALIGNTO-1)&^(unix.RTA_ALIGNTO-1), len(b)):]
	}
	return hops
}

// networkRoute returns the request that adds the route to the network of an IPv4 address, as the kernel does. The kernel
// removes it with the address.
func (s Seen) networkRoute() rtnl.Request {
	r := rtnl.Request{Type: unix.RTM_NEWROUTE, Flags: unix.NLM_F_CREATE | unix.NLM_F_APPEND, Data: make([]byte, unix.SizeofRtMsg)}
	network := s.Address.Masked()
	r.Data[0], r.Data[1], r.Data[4] = unix.AF_INET, byte(network.Bits()), unix.RT_TABLE_MAIN
	r.Data[5], r.Data[6], r.Data[7] = unix.RTPROT_KERNEL, unix.RT_SCOPE_LINK, unix.RTN_UNICAST
	r.Add(unix.RTA_DST, network.Addr().AsSlice())
	r.Add(unix.RTA_PREFSRC, s.Address.Addr().AsSlice())
	r.AddUint32(unix.RTA_OIF, uint32(s.Index)) //nolint:gosec // indexes are positive
	if s.metric > 0 {
		r.AddUint32(unix.RTA_PRIORITY, s.metric)
	}
	return r
}

// unrouted has the addresses that have lost the route to their network, with the address whose route that is: their own, or
// the first one of the network.
type unrouted struct {
	mu        sync.Mutex
	addresses map[SeenKey]Seen
}

func (u *unrouted) set(lost []Seen, first map[connected]Seen) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.addresses = map[SeenKey]Seen{}
	for _, s := range lost {
		u.addresses[SeenKey{s.Index, s.Address}] = first[s.connected()]
	}
}

func (u *unrouted) routeOf(key SeenKey) (of Seen, lost bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	of, lost = u.addresses[key]
	return of, lost
}

func (u *unrouted) forget(key SeenKey) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.addresses, key)
}
