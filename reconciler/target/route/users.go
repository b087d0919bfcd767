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
// would remove these routes with the link. The same holds for IPv4 addresses and routes whose gateways are in their networks. A veth does
// not wait for rows that are only pending while one of its names is needed before they can be applied.
func DevicesDeletedAfter(
	db *statedb.DB, rows *statedb.Table[link.Link], routes *statedb.Table[Route], seen *statedb.Table[Seen],
) (links []reconciler.Dependency[link.Link], addresses []reconciler.Dependency[address.Address]) {
	u := &users{db: db, seen: seen}
	return u.keepLinks(rows, routes), u.keepAddresses(routes)
}

func (u *users) keepLinks(rows *statedb.Table[link.Link], routes *statedb.Table[Route]) []reconciler.Dependency[link.Link] {
	through := func(device string) iter.Seq[statedb.Query[Route]] {
		return u.queries(device, func(netip.Addr) bool { return true })
	}
	return []reconciler.Dependency[link.Link]{
		reconciler.DependsOnBy(routes, Route.GetStatus, func(l link.Link) string {
			if l.Type == link.Veth && link.NeedsName(u.db.ReadTxn(), rows, l) {
				return ""
			}
			return l.Name
		}, through, Observed(u.seen)).OrFailed(),
		reconciler.DependsOnBy(routes, failed, func(l link.Link) string { return l.Name }, through, Observed(u.seen)).OrFailed(),
	}
}

// failed returns the status of a row, as done if it is pending.
func failed(r Route) reconciler.Status {
	if r.Status.Kind() == reconciler.Pending {
		return r.Status.After(nil, r.Status.Since())
	}
	return r.Status
}

func (u *users) keepAddresses(routes *statedb.Table[Route]) []reconciler.Dependency[address.Address] {
	by := func(a address.Address) address.Network {
		if a.Address.Addr().Is6() {
			return address.Network{}
		}
		return address.Network{Device: a.Device, Prefix: a.Address.Masked()}
	}
	through := func(n address.Network) iter.Seq[statedb.Query[Route]] { return u.queries(n.Device, n.Prefix.Contains) }
	return []reconciler.Dependency[address.Address]{reconciler.DependsOnBy(routes, Route.GetStatus, by, through, Observed(u.seen)).OrFailed()}
}

// users is an index of the existing routes by device and gateway, made on demand. It is safe for concurrent use.
type users struct {
	db   *statedb.DB
	seen *statedb.Table[Seen]

	mu  sync.Mutex
	at  time.Time
	rev statedb.Revision
	by  map[string]map[netip.Addr][]Key // by the names of the device and the gateway
}

// usersLife is how long the index is used although routes have changed. What matters are routes by earlier versions of rows, which have
// been there for longer.
const usersLife = time.Second

// queries yields queries for the rows of the routes through a device whose gateways are chosen, and none for the device "".
func (u *users) queries(device string, chosen func(gateway netip.Addr) bool) iter.Seq[statedb.Query[Route]] {
	return func(yield func(statedb.Query[Route]) bool) {
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

// of returns the keys of the routes through a device, by gateway.
func (u *users) of(device string) map[netip.Addr][]Key {
	if device == "" {
		return nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	txn := u.db.ReadTxn()
	if rev := u.seen.Revision(txn); u.by == nil || rev != u.rev && time.Since(u.at) >= usersLife {
		u.by, u.rev, u.at = map[string]map[netip.Addr][]Key{}, rev, time.Now()
		for s := range u.seen.All(txn) {
			for _, h := range s.seenNexthops() {
				u.add(h.Device, h.Gateway, s.Key)
				for name := range strings.FieldsSeq(h.OtherNames) {
					u.add(name, h.Gateway, s.Key)
				}
			}
		}
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
