package route

import (
	"context"
	"net/netip"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/statehive/statehive/reconciler/target/internal/procsys"
	"github.com/statehive/statehive/reconciler/target/link"
	"github.com/statehive/statehive/reconciler/target/mirror"
	"github.com/statehive/statehive/reconciler/target/rtnl"
	"github.com/statehive/statehive/statedb"
	"github.com/statehive/statehive/statedb/immutable"
)

// keeper keeps the table of a mirror. It belongs to one goroutine, except for decode.
type keeper struct {
	target   *Target
	db       *statedb.DB
	table    *statedb.RWTable[Seen]
	changes6 atomic.Uint64 // number of notifications of IPv6 routes
	// parameters are those of the kernel.
	parameters *procsys.Files

	links     rtnl.Devices
	devices   map[int]int        // number of next hops by the index of their device; index 0 if it is not known
	sources   map[netip.Addr]int // number of routes by their source
	hops      hopCounts
	addresses map[deviceAddress]struct{} // all of them
	inet6     int                        // number of IPv6 routes
	limited   int                        // number of those with an MTU
	spread    int                        // the first of those whose next hops are looked up next: see compareMTUs
	dead      int                        // number of next hops that are not in use
	several   map[Key][]Seen             // all routes of keys that have more than one
	// shared has the keys of IPv6 routes of ours that others have added next hops to. A
	// listing has only the protocol of the first next hop.
	shared map[Key]struct{}
	// beside has the keys of routes of ours that others have, or had, routes with, too.
	beside map[Key]struct{}
	// anew is whether they have to be looked for among all routes, of which there may be many, because not all changes of these were
	// announced.
	anew bool
	// unsure is whether which of the rows are behind may have changed, and markAt is when that may be found out: it takes a listing
	// of all routes: see listingShare.
	unsure bool
	markAt time.Time
}

// decode reads a notification, and counts those of IPv6 routes.
func (k *keeper) decode(m syscall.NetlinkMessage) (event, bool) {
	isRoute := m.Header.Type == unix.RTM_NEWROUTE || m.Header.Type == unix.RTM_DELROUTE
	if isRoute && len(m.Data) > 0 && m.Data[0] == unix.AF_INET6 {
		k.changes6.Add(1)
	}
	return decode(m)
}

// list returns the routes of ours, each key once.
func (k *keeper) list(ctx context.Context, drain func() error) ([]Seen, error) {
	if err := k.links.List(ctx, k.target.conn); err != nil {
		return nil, err
	}
	if err := k.listAddresses(ctx); err != nil {
		return nil, err
	}
	k.devices, k.sources, k.hops, k.several, k.dead = map[int]int{}, map[netip.Addr]int{}, hopCounts{}, map[Key][]Seen{}, 0
	k.inet6, k.limited = 0, 0
	routes, err := k.target.list(ctx, Inet, 0, Protocol)
	if err != nil {
		return nil, err
	}
	routes6, err := k.list6(ctx, drain)
	if err != nil {
		return nil, err
	}
	if err := k.compareMTUs(ctx, routes6); err != nil {
		return nil, err
	}
	rows := k.rows(append(routes, routes6...))
	shared := k.shared
	k.shared = map[Key]struct{}{}
	for _, s := range rows {
		if _, is := shared[s.Key]; is {
			k.shared[s.Key] = struct{}{}
		}
	}
	if time.Now().Before(k.markAt) {
		k.keepBehind(rows)
	} else if err := k.markBehind(ctx, rows); err != nil {
		return nil, err
	}
	if err := k.locateGateways(ctx, rows); err != nil {
		return nil, err
	}
	return rows, ctx.Err()
}

// list6 lists our IPv6 routes. It repeats a listing in several parts until no route changes meanwhile: if one
// does, the kernel skips some routes and repeats others without reporting an error.
func (k *keeper) list6(ctx context.Context, drain func() error) ([]kernelRoute, error) {
	routes, _, err := mirror.ListQuietly(drain, &k.changes6, func() (routes []kernelRoute, whole bool, err error) {
		routes, parts, err := k.target.listInParts(ctx, listed{family: Inet6}, Protocol, func(kernelRoute) bool { return true })
		return routes, parts <= 1, err
	})
	return routes, err
}

// rows returns a row for each key of routes.
func (k *keeper) rows(routes []kernelRoute) []Seen {
	rows := make([]Seen, 0, len(routes))
	at := make(map[Key]int, len(routes))
	for _, r := range routes {
		s := k.named(r.Seen)
		k.count(s, 1)
		i, known := at[s.Key]
		if !known {
			at[s.Key] = len(rows)
			rows = append(rows, s)
			continue
		}
		if k.several[s.Key] == nil {
			k.several[s.Key] = []Seen{rows[i]}
		}
		k.several[s.Key] = append(k.several[s.Key], s)
		rows[i] = severalOf(rows[i])
	}
	return rows
}

// severalKind is the kind of the row for a key with several routes.
const severalKind = "several"

// severalOf returns the row for a key with several routes, of which the first is in effect.
func severalOf(first Seen) Seen {
	first.Kind = severalKind
	return first
}

// named returns a route with the names of its devices.
func (k *keeper) named(s Seen) Seen {
	s.Device, s.OtherNames = "", ""
	if s.index > 0 {
		s.Device, s.OtherNames = k.links.Names(s.index)
	}
	s.Nexthops = mapHops(s.Nexthops, func(h SeenNexthop) SeenNexthop {
		h.Device, h.OtherNames = k.links.Names(h.index)
		return h
	})
	return s
}

// same reports whether two routes are equal, ignoring the names of their devices and what
// depends on others.
func same(a, b Seen) bool {
	a.Device, a.OtherNames, a.Dead, a.Behind = b.Device, b.OtherNames, b.Dead, b.Behind
	a.GatewayDevice, a.UncertainDevice, a.OtherMTU = b.GatewayDevice, b.UncertainDevice, b.OtherMTU
	if a.Nexthops != b.Nexthops {
		a.Nexthops, b.Nexthops = mapHops(a.Nexthops, SeenNexthop.plain), mapHops(b.Nexthops, SeenNexthop.plain)
	}
	return a == b
}

func (k *keeper) count(s Seen, delta int) {
	if s.Nexthops.IsZero() && (s.Type == Unicast || s.index > 0) {
		k.devices[s.index] += delta
	}
	if s.Gateway.IsValid() {
		k.hops.add(hop{s.Gateway, s.index}, delta)
	}
	for _, h := range s.Nexthops.All() {
		if k.devices[h.index] += delta; h.Gateway.IsValid() {
			k.hops.add(hop{h.Gateway, h.index}, delta)
		}
		if h.Dead {
			k.dead += delta
		}
	}
	if s.Key.family() == Inet6 {
		if k.inet6 += delta; s.MTU != 0 {
			k.limited += delta
		}
	}
	if s.Source.IsValid() {
		if k.sources[s.Source] += delta; k.sources[s.Source] == 0 {
			delete(k.sources, s.Source)
		}
	}
}

// apply applies an event to the table. It returns the reason why the table may be wrong, or
// an empty string.
func (k *keeper) apply(txn *statedb.WriteTxn, e event) (doubt string, err error) {
	switch e.kind {
	case routeAdded:
		return k.added(txn, e)
	case routeGone:
		return k.gone(txn, e)
	case linkChanged:
		return k.linkChanged(txn, e.link)
	case settingsChanged: // whether routes through links without a carrier are used is one
		k.unsure = k.unsure || len(k.beside) > 0
		return "", nil
	case linkGone:
		k.links.Remove(e.link.Index)
		return k.doubtOf(e.link.Index, "the link of some routes is gone"), nil
	case addressAdded:
		if k.dead > 0 { // the kernel uses next hops again when their link gets its first IPv4 address
			doubt = k.doubtOf(e.link.Index, "an address was added to the link of some routes")
		}
		a := deviceAddress{e.address, e.link.Index}
		_, again := k.addresses[a] // addresses are announced again and again, as by router advertisements
		if k.addresses[a] = struct{}{}; doubt == "" && !again && k.hasGateways(a) {
			doubt = "an address was added to whose network gateways on other links belong"
		}
		return doubt, nil
	case addressGone:
		delete(k.addresses, deviceAddress{e.address, e.link.Index})
		if k.sources[e.address.Addr()] > 0 {
			return "the source address of some routes is gone", nil
		}
		// Perhaps it was the last IPv4 address of its device, or IPv6 was disabled there.
		return k.doubtOf(e.link.Index, "an address on the link of some routes is gone"), nil
	}
	return "", nil
}

// doubtOf returns why if there are routes through the device with an index or routes
// whose device is not known, such as those of others, and otherwise an empty string.
func (k *keeper) doubtOf(index int, why string) string {
	if k.devices[index] > 0 || k.devices[0] > 0 || len(k.beside) > 0 {
		return why
	}
	return ""
}

func (k *keeper) added(txn *statedb.WriteTxn, e event) (doubt string, err error) {
	s := k.named(e.route)
	is, _, found := k.table.Get(txn, SeenByKey.Query(s.Key))
	all := k.several[s.Key]
	switch {
	case !found && s.Key == multicast6: // routes were removed when it ended, perhaps without being announced
		return k.doubtOf(s.index, "IPv6 has begun on the link of some routes"), nil
	case !e.ours && !found:
		return "", nil
	case e.replaced && found: // or it replaced another route with the key, not known here
		return "a route with the key of one of ours was replaced", nil
	case !e.ours:
		return k.addedBeside(txn, is, e)
	case !found:
		k.changedBeside(s.Key)
		return k.doubtOnLink(s), k.put(txn, s)
	case all != nil:
		k.addedToSeveral(s, all)
		return "", nil
	case same(is, s), s.extends(is):
		k.count(is, -1)
		s.Behind = is.Behind
		k.changedBeside(s.Key)
		return "", k.put(txn, s)
	}
	k.several[s.Key] = []Seen{is, s}
	k.count(s, 1)
	_, _, err = k.table.Insert(txn, severalOf(is))
	return k.doubtOnLink(s), err
}

// multicast6 is the key of the routes that the kernel adds to each device when IPv6 begins there. It can be told not to announce
// the routes that it removes when IPv6 ends (net.ipv6.route.skip_notify_on_dev_down).
var multicast6 = Key{Destination: netip.MustParsePrefix("ff00::/8"), Table: unix.RT_TABLE_LOCAL, Metric: 256}

// addedBeside handles a new route of others with the key of one of ours.
func (k *keeper) addedBeside(txn *statedb.WriteTxn, is Seen, e event) (doubt string, err error) {
	k.beside[is.Key] = struct{}{}
	switch {
	case is.Key.family() == Inet6 && !e.route.Nexthops.IsZero():
		k.shared[is.Key] = struct{}{}
		return "others have added a next hop", nil
	case !e.precedes: // it coexists with ours, perhaps because its preference is no longer high
		k.changedBefore(is)
		return "", nil
	case is.Behind:
		return "", nil
	}
	is.Behind = true
	_, _, err = k.table.Insert(txn, is)
	return "", err
}

func (k *keeper) addedToSeveral(s Seen, all []Seen) {
	if !slices.ContainsFunc(all, func(other Seen) bool { return same(other, s) }) {
		k.several[s.Key] = append(all, s)
		k.count(s, 1)
	}
}

// extends reports whether an announced route has more next hops than before. If the next hops of
// an IPv6 route have gateways, the kernel adds them to the existing ones and announces all.
func (s Seen) extends(before Seen) bool {
	return s.Key.family() == Inet6 && !s.Nexthops.IsZero() && before.hasGateway()
}

// hasGateway reports whether a route leads to a gateway, or to several.
func (s Seen) hasGateway() bool { return s.Gateway.IsValid() || !s.Nexthops.IsZero() }

func (k *keeper) gone(txn *statedb.WriteTxn, e event) (doubt string, err error) {
	s := k.named(e.route)
	is, _, found := k.table.Get(txn, SeenByKey.Query(s.Key))
	all := k.several[s.Key]
	switch {
	case !found:
		return "", nil
	case !is.Nexthops.IsZero() && s.Nexthops.IsZero() && all == nil && s.Key.family() == Inet6:
		return k.nexthopGone(txn, is, s, e.ours)
	case !e.ours:
		k.changedBefore(is)
		return "", nil
	case all != nil:
		return k.goneOfSeveral(txn, s, all)
	case same(is, s):
		return k.doubtOnLink(is), k.remove(txn, is)
	}
	return "an unknown route was removed", nil
}

// nexthopGone removes a next hop from an IPv6 route with several. Each of them carries the protocol of the program that added it. When
// a next hop is added, the kernel announces all of them; when one is removed, only that one.
func (k *keeper) nexthopGone(txn *statedb.WriteTxn, is, gone Seen, ours bool) (doubt string, err error) {
	hops := is.Nexthops.Slice()
	i := slices.IndexFunc(hops, func(h SeenNexthop) bool { return h.Gateway == gone.Gateway && h.index == gone.index })
	switch {
	case i < 0 && !ours: // it coexisted with ours
		k.changedBefore(is)
		return "", nil
	case i < 0:
		return "an unknown next hop was removed", nil
	case ours && k.isShared(is.Key):
		return "a next hop is gone, and others may have those that are left", nil
	}
	k.count(is, -1)
	hops = slices.Delete(hops, i, i+1)
	is.Nexthops = immutable.ListOf(hops...)
	if len(hops) == 1 {
		is = is.ours().by(hops[0]).Seen
	}
	k.changedBeside(is.Key)
	return "", k.put(txn, is)
}

func (k *keeper) goneOfSeveral(txn *statedb.WriteTxn, s Seen, all []Seen) (doubt string, err error) {
	i := slices.IndexFunc(all, func(other Seen) bool { return same(other, s) })
	if i < 0 {
		return "an unknown route was removed", nil
	}
	k.count(s, -1)
	all = slices.Delete(all, i, i+1)
	row := all[0]
	if len(all) > 1 {
		row = severalOf(row)
		k.several[s.Key] = all
	} else {
		delete(k.several, s.Key)
	}
	_, _, err = k.table.Insert(txn, row)
	k.changedBeside(s.Key)
	return k.doubtOnLink(s), err
}

func (k *keeper) put(txn *statedb.WriteTxn, s Seen) error {
	k.count(s, 1)
	_, _, err := k.table.Insert(txn, s)
	return err
}

func (k *keeper) isShared(key Key) bool {
	_, shared := k.shared[key]
	return shared
}

func (k *keeper) remove(txn *statedb.WriteTxn, s Seen) error {
	k.count(s, -1)
	_, _, err := k.table.Delete(txn, s)
	return err
}

// linkChanged handles a change of a link. When a link goes down, or becomes a port of
// another, the kernel removes its routes without announcing each. In routes with several
// next hops it marks the link's next hops as dead until the link is up again. The MTU of
// IPv6 routes follows that of their link, unannounced, also when the link starts running.
func (k *keeper) linkChanged(txn *statedb.WriteTxn, now rtnl.Link) (doubt string, err error) {
	before, renamed := k.links.Change(now)
	switch {
	case !now.Up || before.Master != now.Master:
		doubt = k.doubtOf(now.Index, "the link of some routes went down or became a port")
	case !before.Up:
		if doubt = k.doubtOf(now.Index, "the link of some routes came up"); doubt == "" && k.comesUp(now.Index) {
			doubt = "a link came up to whose network gateways on other links belong"
		}
	case before.Running != now.Running && len(k.beside) > 0:
		doubt = "the carrier of a link changed, and with it perhaps which of several routes the kernel uses"
	case now.MTU < link.MinIPv6MTU && before.MTU >= link.MinIPv6MTU:
		doubt = k.doubtOf(now.Index, "the MTU of the link of some routes is too small for IPv6")
	case k.limited > 0 && (before.MTU != now.MTU || !before.Running && now.Running):
		doubt = k.doubtOf(now.Index, "the MTU of a link changed, and with it perhaps that of IPv6 routes")
	}
	if renamed && k.devices[now.Index] > 0 {
		err = k.rename(txn, now.Index)
	}
	return doubt, err
}

// isBy reports whether one of several next hops uses a device.
func (s Seen) isBy(index int) bool {
	for _, h := range s.Nexthops.All() {
		if h.index == index {
			return true
		}
	}
	return false
}

// rename writes the names of a device to its routes.
func (k *keeper) rename(txn *statedb.WriteTxn, index int) error {
	for s := range k.table.All(txn) {
		if s.index != index && !s.isBy(index) {
			continue
		}
		if _, _, err := k.table.Insert(txn, k.named(s)); err != nil {
			return err
		}
	}
	for _, all := range k.several {
		for i, s := range all {
			all[i] = k.named(s)
		}
	}
	return nil
}
