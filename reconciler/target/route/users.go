package route

import (
	"cmp"
	"iter"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/target/address"
	"github.com/statehive/statehive/reconciler/target/link"
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
			return u.queries(slices.Values(u.with(source)))
		},
		Observed(u.KernelRoutes)).OrFailed()
}

// users is an index of the existing routes by device and gateway, and by source, made on demand. It is safe for concurrent use.
type users struct {
	Dependencies

	mu       sync.Mutex
	due      time.Time // when it may be made again
	rev      statedb.Revision
	by       map[string]map[netip.Addr][]Key // by the names of the device and the gateway
	bySource map[netip.Addr][]Key
}

// usersShare is how much longer than making it the index is used although routes have changed. What matters are routes by earlier
// versions of rows, which have been there for longer.
const usersShare = 10

// queries yields the queries for the rows with some keys.
func (u *users) queries(keys iter.Seq[Key]) iter.Seq[statedb.Query[Route]] {
	return func(yield func(statedb.Query[Route]) bool) {
		for key := range keys {
			if !yield(ByKey.Query(key)) {
				return
			}
		}
	}
}

// through yields the keys of the routes through devices whose gateways are chosen, and none for the device "".
func (u *users) through(chosen func(gateway netip.Addr) bool, devices ...string) iter.Seq[Key] {
	return func(yield func(Key) bool) {
		for _, device := range devices {
			for gateway, keys := range u.of(device) {
				if !chosen(gateway) {
					continue
				}
				for _, key := range keys {
					if !yield(key) {
						return
					}
				}
			}
		}
	}
}

// of returns the keys of the routes through a device, by gateway.
func (u *users) of(device string) map[netip.Addr][]Key {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.renewLocked()
	return u.by[device]
}

// with returns the keys of the routes that have a source address.
func (u *users) with(source netip.Addr) []Key {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.renewLocked()
	return u.bySource[source]
}

func (u *users) renewLocked() {
	txn, began := u.DB.ReadTxn(), time.Now()
	rev := u.KernelRoutes.Revision(txn)
	if u.by != nil && (rev == u.rev || began.Before(u.due)) {
		return
	}
	u.by, u.bySource, u.rev = map[string]map[netip.Addr][]Key{}, map[netip.Addr][]Key{}, rev
	for s := range u.KernelRoutes.All(txn) {
		if s.Source.IsValid() {
			u.bySource[s.Source] = append(u.bySource[s.Source], s.Key)
		}
		for _, h := range s.seenNexthops() {
			u.add(h.Device, h.Gateway, s.Key)
			for name := range strings.FieldsSeq(h.OtherNames) {
				u.add(name, h.Gateway, s.Key)
			}
		}
	}
	u.due = time.Now().Add(usersShare * time.Since(began))
}

func (u *users) add(device string, gateway netip.Addr, key Key) {
	if device == "" {
		return
	}
	if u.by[device] == nil {
		u.by[device] = map[netip.Addr][]Key{}
	}
	if keys := u.by[device][gateway]; len(keys) == 0 || keys[len(keys)-1] != key {
		u.by[device][gateway] = append(keys, key)
	}
}
