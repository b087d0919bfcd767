package route

import (
	"iter"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/target/address"
	"github.com/statehive/statehive/reconciler/target/link"
	"github.com/statehive/statehive/statedb"
)

// DevicesDeletedAfter makes links stay while the kernel has routes through them whose rows lead elsewhere by now but cannot be applied: it
// would remove these routes with the link. The same holds for IPv4 addresses and routes whose gateways are in their networks or, if a device
// is to have no other address, all through the device. A veth does not wait for rows that are only pending while one of its names is
// needed before they can be applied.
func DevicesDeletedAfter(
	db *statedb.DB, rows *statedb.Table[link.Link], others *statedb.Table[address.Address], routes *statedb.Table[Route], seen *statedb.Table[Seen],
) (links []reconciler.Dependency[link.Link], addresses []reconciler.Dependency[address.Address]) {
	u := &users{db: db, seen: seen}
	return u.keepLinks(rows, routes), u.keepAddresses(others, routes)
}

func (u *users) keepLinks(rows *statedb.Table[link.Link], routes *statedb.Table[Route]) []reconciler.Dependency[link.Link] {
	type ends struct{ name, peer string }
	of := func(l link.Link) ends { return ends{l.Name, l.Peer} }
	through := func(e ends) iter.Seq[statedb.Query[Route]] {
		return u.queries(func(netip.Addr) bool { return true }, e.name, e.peer)
	}
	return []reconciler.Dependency[link.Link]{
		reconciler.DependsOnBy(routes, Route.GetStatus, func(l link.Link) ends {
			if l.Type == link.Veth && link.NeedsName(u.db.ReadTxn(), rows, l) {
				return ends{}
			}
			return of(l)
		}, through, Observed(u.seen)).OrFailed(),
		reconciler.DependsOnBy(routes, failed, of, through, Observed(u.seen)).OrFailed(),
	}
}

// failed returns the status of a row, as done if it is pending.
func failed(r Route) reconciler.Status {
	if r.Status.Kind() == reconciler.Pending {
		return r.Status.After(nil, r.Status.Since())
	}
	return r.Status
}

func (u *users) keepAddresses(others *statedb.Table[address.Address], routes *statedb.Table[Route]) []reconciler.Dependency[address.Address] {
	type network struct {
		address.Network
		last bool // of the device
	}
	by := func(a address.Address) network {
		if a.Address.Addr().Is6() {
			return network{}
		}
		return network{address.Network{Device: a.Device, Prefix: a.Address.Masked()}, !address.HasIPv4(u.db.ReadTxn(), others, a.Device)}
	}
	through := func(n network) iter.Seq[statedb.Query[Route]] {
		return u.queries(func(gateway netip.Addr) bool { return n.last || n.Prefix.Contains(gateway) }, n.Device)
	}
	return []reconciler.Dependency[address.Address]{reconciler.DependsOnBy(routes, Route.GetStatus, by, through, Observed(u.seen)).OrFailed()}
}

// users is an index of the existing routes by device and gateway, made on demand. It is safe for concurrent use.
type users struct {
	db   *statedb.DB
	seen *statedb.Table[Seen]

	mu  sync.Mutex
	due time.Time // when it may be made again
	rev statedb.Revision
	by  map[string]map[netip.Addr][]Key // by the names of the device and the gateway
}

// usersShare is how much longer than making it the index is used although routes have changed. What matters are routes by earlier
// versions of rows, which have been there for longer.
const usersShare = 10

// queries yields queries for the rows of the routes through devices whose gateways are chosen, and none for the device "".
func (u *users) queries(chosen func(gateway netip.Addr) bool, devices ...string) iter.Seq[statedb.Query[Route]] {
	return func(yield func(statedb.Query[Route]) bool) {
		for _, device := range devices {
			for gateway, keys := range u.of(device) {
				if !chosen(gateway) {
					continue
				}
				for _, key := range keys {
					if !yield(ByKey.Query(key)) {
						return
					}
				}
			}
		}
	}
}

// of returns the keys of the routes through a device, by gateway.
func (u *users) of(device string) map[netip.Addr][]Key {
	if device == "" {
		return nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	txn := u.db.ReadTxn()
	if rev, began := u.seen.Revision(txn), time.Now(); u.by == nil || rev != u.rev && !began.Before(u.due) {
		u.by, u.rev = map[string]map[netip.Addr][]Key{}, rev
		for s := range u.seen.All(txn) {
			for _, h := range s.seenNexthops() {
				u.add(h.Device, h.Gateway, s.Key)
				for name := range strings.FieldsSeq(h.OtherNames) {
					u.add(name, h.Gateway, s.Key)
				}
			}
		}
		u.due = time.Now().Add(usersShare * time.Since(began))
	}
	return u.by[device]
}

func (u *users) add(device string, gateway netip.Addr, key Key) {
	if u.by[device] == nil {
		u.by[device] = map[netip.Addr][]Key{}
	}
	if keys := u.by[device][gateway]; len(keys) == 0 || keys[len(keys)-1] != key {
		u.by[device][gateway] = append(keys, key)
	}
}
