package route

import (
	"cmp"
	"iter"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/target/address"
	"github.com/statehive/statehive/reconciler/target/link"
	"github.com/statehive/statehive/reconciler/target/mirror"
	"github.com/statehive/statehive/statedb"
)

// DevicesDeletedAfter makes links stay while the kernel has routes through them whose rows lead elsewhere by now but cannot be applied: it
// would remove these routes with the link. The same holds for addresses that are the sources of routes, and for IPv4 addresses in whose networks
// gateways are or, if a device is to have no other one, with any route through the device. A veth does not wait for rows that wait for one of
// its names.
func DevicesDeletedAfter(d Dependencies) (links []reconciler.Dependency[link.Link], addresses []reconciler.Dependency[address.Address]) {
	u := &users{Dependencies: d}
	return []reconciler.Dependency[link.Link]{u.keepLinks()}, []reconciler.Dependency[address.Address]{u.keepNetworks(), u.keepSources()}
}

func (u *users) keepLinks() reconciler.Dependency[link.Link] {
	type ends struct {
		name, peer       string
		needed           bool
		links, addresses statedb.Revision // if one of the names is needed: which rows wait for it depends on these tables, too
	}
	by := func(l link.Link) ends {
		e := ends{name: l.Name, peer: cmp.Or(u.Devices.OtherEnd(l.Name), l.Peer)}
		if e.needed = e.peer != "" && u.Devices.AreNeeded(e.name, e.peer); e.needed {
			txn := u.DB.ReadTxn()
			e.links, e.addresses = u.Devices.DeclaredRevision(txn), u.Addresses.Revision(txn)
		}
		return e
	}
	return reconciler.DependsOnBy(u.Routes, Route.GetStatus, by, func(e ends) iter.Seq[statedb.Query[Route]] {
		return u.queries(func(yield func(Key) bool) {
			for key := range u.through(func(netip.Addr) bool { return true }, e.name, e.peer) {
				if e.needed && u.waits(key, e.name, e.peer) {
					continue
				}
				if !yield(key) {
					return
				}
			}
		})
	}, Observed(u.KernelRoutes)).OrFailed()
}

// waits reports whether a row is pending and waits for one of some names of links.
func (u *users) waits(key Key, names ...string) bool {
	row, _, _ := u.Routes.Get(u.DB.ReadTxn(), ByKey.Query(key))
	return row.Status.Kind() == reconciler.Pending && u.waitFor(row.needs(), names...)
}

func (u *users) keepNetworks() reconciler.Dependency[address.Address] {
	type network struct {
		address.Network
		last bool // of the device
	}
	by := func(a address.Address) network {
		if a.Address.Addr().Is6() {
			return network{}
		}
		if !address.HasIPv4(u.DB.ReadTxn(), u.Addresses, a.Device) {
			return network{address.Network{Device: a.Device}, true}
		}
		return network{address.Network{Device: a.Device, Prefix: a.Address.Masked()}, false}
	}
	return reconciler.DependsOnBy(u.Routes, Route.GetStatus, by, func(n network) iter.Seq[statedb.Query[Route]] {
		if n.Device == "" {
			return nil
		}
		return u.queries(func(yield func(Key) bool) {
			for key := range u.through(func(gateway netip.Addr) bool { return n.last || n.Prefix.Contains(gateway) }, n.Device) {
				if key.Destination.Addr().Is4() && !yield(key) {
					return
				}
			}
		})
	}, Observed(u.KernelRoutes)).OrFailed()
}

func (u *users) keepSources() reconciler.Dependency[address.Address] {
	by := func(a address.Address) (source netip.Addr) {
		for other := range u.Addresses.List(u.DB.ReadTxn(), address.ByHost.Query(a.Address.Addr())) {
			if other.Status.Kind() == reconciler.Done || other.Address.Addr().Is6() {
				return netip.Addr{} // the machine keeps it, or an IPv6 address gets another prefix length: then this one has to go first
			}
		}
		return a.Address.Addr()
	}
	return reconciler.DependsOnBy(u.Routes, Route.GetStatus, by,
		func(source netip.Addr) iter.Seq[statedb.Query[Route]] {
			if !source.IsValid() {
				return nil
			}
			return u.queries(slices.Values(u.with(source)))
		},
		Observed(u.KernelRoutes)).OrFailed()
}

// users is an index of the existing routes by device and gateway, and by source, kept from its first use on. It is safe for concurrent use.
type users struct {
	Dependencies

	mu       sync.Mutex
	changes  *statedb.Cursor[Seen]            // nil before the first use; it is open as long as the process runs
	by       map[string]map[netip.Addr][]user // by the names of the device and the gateway
	bySource map[netip.Addr][]user
	entries  int
	current  int // entries when the index was made, all of which were up to date
}

// minEntries keeps the index of few routes from being made again and again.
const minEntries = 1000

// user is a version of an existing route. It is out of date once the route has another revision.
type user struct {
	key Key
	rev statedb.Revision
}

// queries yields a query for each of some keys of existing routes. Before it is known which routes exist, it yields queries for all rows that have not
// been applied.
func (u *users) queries(keys iter.Seq[Key]) iter.Seq[statedb.Query[Route]] {
	return func(yield func(statedb.Query[Route]) bool) {
		if !mirror.Listed(u.DB.ReadTxn(), u.KernelRoutes) {
			_ = yield(ByUndone.Query(Inet)) && yield(ByUndone.Query(Inet6))
			return
		}
		for key := range keys {
			if !yield(ByKey.Query(key)) {
				return
			}
		}
	}
}

// through yields the keys of the routes through devices whose gateways are chosen. No route is through the device "".
func (u *users) through(chosen func(gateway netip.Addr) bool, devices ...string) iter.Seq[Key] {
	return func(yield func(Key) bool) {
		for _, device := range devices {
			for _, key := range u.of(device, chosen) {
				if !yield(key) {
					return
				}
			}
		}
	}
}

// of returns the keys of the routes through a device whose gateways are chosen.
func (u *users) of(device string, chosen func(gateway netip.Addr) bool) (keys []Key) {
	u.mu.Lock()
	defer u.mu.Unlock()
	txn := u.followLocked()
	for gateway, all := range u.by[device] {
		if chosen(gateway) {
			keys = u.appendCurrent(keys, txn, all)
		}
	}
	return keys
}

// with returns the keys of the routes that have a source address.
func (u *users) with(source netip.Addr) []Key {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.appendCurrent(nil, u.followLocked(), u.bySource[source])
}

func (u *users) appendCurrent(keys []Key, txn statedb.ReadTxn, all []user) []Key {
	for _, one := range all {
		if _, rev, found := u.KernelRoutes.Get(txn, SeenByKey.Query(one.key)); found && rev == one.rev {
			keys = append(keys, one.key)
		}
	}
	return keys
}

// followLocked brings the index up to date, and returns the snapshot that it is of. It makes the index anew once half of the entries may be
// out of date.
func (u *users) followLocked() statedb.ReadTxn {
	txn := u.DB.ReadTxn()
	anew := u.changes == nil || u.entries > minEntries+2*u.current
	if anew {
		if u.changes != nil {
			u.changes.Close()
		}
		u.changes = u.KernelRoutes.Changes(0)
		u.by, u.bySource, u.entries = map[string]map[netip.Addr][]user{}, map[netip.Addr][]user{}, 0
	}
	for c := range u.changes.Next(txn) {
		if c.Kind == statedb.Upsert {
			u.addLocked(c.Object, c.Revision)
		}
	}
	if anew {
		u.current = u.entries
	}
	return txn
}

func (u *users) addLocked(s Seen, rev statedb.Revision) {
	if s.Source.IsValid() {
		u.bySource[s.Source] = append(u.bySource[s.Source], user{s.Key, rev})
		u.entries++
	}
	for _, h := range s.seenNexthops() {
		u.addHopLocked(h.Device, h.Gateway, user{s.Key, rev})
		for name := range strings.FieldsSeq(h.OtherNames) {
			u.addHopLocked(name, h.Gateway, user{s.Key, rev})
		}
	}
}

func (u *users) addHopLocked(device string, gateway netip.Addr, one user) {
	if device == "" {
		return
	}
	if u.by[device] == nil {
		u.by[device] = map[netip.Addr][]user{}
	}
	if all := u.by[device][gateway]; len(all) == 0 || all[len(all)-1] != one {
		u.by[device][gateway] = append(all, one)
		u.entries++
	}
}
