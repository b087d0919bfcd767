package route

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/statehive/statehive/reconciler/target/mirror"
	"github.com/statehive/statehive/reconciler/target/rtnl"
	"github.com/statehive/statehive/statedb"
)

// event is what a notification says.
type event struct {
	kind     eventKind
	route    Seen // without the names of its device
	ours     bool
	replaced bool       // the route took the place of another one with its key
	link     rtnl.Link  // of a change; when it is gone, its index alone
	address  netip.Addr // that is gone
}

type eventKind uint8

const (
	routeAdded eventKind = iota
	routeGone
	linkChanged
	linkGone
	addressGone
)

// decode reads a notification, and counts those of IPv6 routes.
func (k *keeper) decode(m syscall.NetlinkMessage) (event, bool) {
	isRoute := m.Header.Type == unix.RTM_NEWROUTE || m.Header.Type == unix.RTM_DELROUTE
	if isRoute && len(m.Data) > 0 && m.Data[0] == unix.AF_INET6 {
		k.changes6.Add(1)
	}
	return decode(m)
}

// decode reads a notification. Others' routes, of which there may be many, matter
// only when they replace one.
func decode(m syscall.NetlinkMessage) (e event, ok bool) {
	switch m.Header.Type {
	case unix.RTM_NEWROUTE, unix.RTM_DELROUTE:
		r, ok := decodeRoute(m)
		e.route, e.ours = r.Seen, r.protocol == Protocol
		// With a service, it took the place of one with the same.
		e.replaced = m.Header.Flags&unix.NLM_F_REPLACE != 0 && r.tos == 0
		if m.Header.Type == unix.RTM_DELROUTE {
			e.kind, e.replaced = routeGone, false
		}
		return e, ok && (e.ours || e.replaced)
	case unix.RTM_NEWLINK:
		e.kind = linkChanged
		e.link, ok = rtnl.DecodeLink(m)
		return e, ok
	case unix.RTM_DELLINK:
		e.kind = linkGone
		e.link, ok = rtnl.DecodeLink(m)
		return e, ok
	case unix.RTM_DELADDR:
		e.kind = addressGone
		e.link.Index, e.address, ok = decodeAddress(m)
		return e, ok
	}
	return e, false
}

// decodeAddress reads the device and the address of a notification.
func decodeAddress(m syscall.NetlinkMessage) (index int, address netip.Addr, ok bool) {
	if len(m.Data) < unix.SizeofIfAddrmsg {
		return 0, address, false
	}
	for kind, value := range rtnl.Attributes(m.Data[unix.SizeofIfAddrmsg:]) {
		if kind == unix.IFA_LOCAL || kind == unix.IFA_ADDRESS && !address.IsValid() {
			address = addrOf(value)
		}
	}
	return int(rtnl.Uint32(m.Data[4:])), address, true
}

// keeper keeps the table of a mirror. It belongs to one goroutine, but for decode.
type keeper struct {
	target   *Target
	table    *statedb.RWTable[Seen]
	changes6 atomic.Uint64 // notifications of IPv6 routes

	links   map[int]rtnl.Link
	devices map[int]int        // routes, by the index of their device; 0: of several
	sources map[netip.Addr]int // routes, by their source
	several map[Key][]Seen     // all routes of keys that have more than one
}

// list returns the routes of ours, each key once.
func (k *keeper) list(ctx context.Context, drain func() error) ([]Seen, error) {
	links, err := k.target.conn.Links(ctx)
	if err != nil {
		return nil, err
	}
	k.links, k.devices, k.sources, k.several = map[int]rtnl.Link{}, map[int]int{}, map[netip.Addr]int{}, map[Key][]Seen{}
	for _, link := range links {
		k.links[link.Index] = link
	}
	routes, err := k.target.list(ctx, Inet, 0, Protocol)
	if err != nil {
		return nil, err
	}
	routes6, err := k.list6(ctx, drain)
	if err != nil {
		return nil, err
	}
	return k.rows(append(routes, routes6...)), ctx.Err()
}

// list6 lists the IPv6 routes of ours while none changes: otherwise the kernel
// leaves some out and repeats others, and does not say so.
func (k *keeper) list6(ctx context.Context, drain func() error) ([]kernelRoute, error) {
	routes, _, err := mirror.ListQuietly(drain, &k.changes6, func() ([]kernelRoute, error) {
		return k.target.list(ctx, Inet6, 0, Protocol)
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

// severalOf is the row of a key with several routes, the first of which counts.
func severalOf(first Seen) Seen {
	first.Kind = "several"
	return first
}

// named returns a route with the names of its device.
func (k *keeper) named(s Seen) Seen {
	s.Device, s.OtherNames = "", ""
	if s.index == 0 {
		return s
	}
	if link, known := k.links[s.index]; known {
		s.Device, s.OtherNames = link.Name, link.Others
	} else {
		s.Device = fmt.Sprintf("#%d", s.index)
	}
	return s
}

// same reports whether two routes are, whatever their devices are called.
func same(a, b Seen) bool {
	a.Device, a.OtherNames = b.Device, b.OtherNames
	return a == b
}

func (k *keeper) count(s Seen, delta int) {
	k.devices[s.index] += delta
	if s.Source.IsValid() {
		if k.sources[s.Source] += delta; k.sources[s.Source] == 0 {
			delete(k.sources, s.Source)
		}
	}
}

// apply writes what an event says. It returns why the table is in doubt.
func (k *keeper) apply(txn *statedb.WriteTxn, e event) (doubt string, err error) {
	switch e.kind {
	case routeAdded:
		return k.added(txn, e)
	case routeGone:
		return k.gone(txn, e.route)
	case linkChanged:
		return k.linkChanged(txn, e.link)
	case linkGone:
		delete(k.links, e.link.Index)
		return k.doubtOf(e.link.Index, "a link of routes is gone"), nil
	case addressGone:
		if k.sources[e.address] > 0 {
			return "an address that is the source of routes is gone", nil
		}
		if e.address.Is4() { // perhaps the last one of its device
			return k.doubtOf(e.link.Index, "an address of a link of routes is gone"), nil
		}
	}
	return "", nil
}

// doubtOf returns why, if there are routes by the device with an index, or some of
// several devices.
func (k *keeper) doubtOf(index int, why string) string {
	if k.devices[index] > 0 || k.devices[0] > 0 {
		return why
	}
	return ""
}

func (k *keeper) added(txn *statedb.WriteTxn, e event) (doubt string, err error) {
	s := k.named(e.route)
	is, _, found := k.table.Get(txn, SeenByKey.Query(s.Key))
	all := k.several[s.Key]
	switch {
	case !e.ours && !found:
		return "", nil
	case e.replaced && all != nil:
		return "one of several routes was replaced", nil
	case !e.ours:
		return "", k.remove(txn, is)
	case !found:
		return "", k.put(txn, s)
	case all != nil && !slices.ContainsFunc(all, func(other Seen) bool { return same(other, s) }):
		k.several[s.Key] = append(all, s)
		k.count(s, 1)
		return "", nil
	case all != nil || same(is, s):
		return "", nil
	case e.replaced:
		k.count(is, -1)
		return "", k.put(txn, s)
	case is.Kind == "multipath" || s.Kind == "multipath": // the kernel makes one of both
		return "a route with several next hops has changed", nil
	}
	k.several[s.Key] = []Seen{is, s}
	k.count(s, 1)
	_, _, err = k.table.Insert(txn, severalOf(is))
	return "", err
}

func (k *keeper) gone(txn *statedb.WriteTxn, route Seen) (doubt string, err error) {
	s := k.named(route)
	if all := k.several[s.Key]; all != nil {
		return k.goneOfSeveral(txn, s, all)
	}
	is, _, found := k.table.Get(txn, SeenByKey.Query(s.Key))
	switch {
	case !found:
		return "", nil
	case same(is, s):
		return "", k.remove(txn, is)
	}
	return "a route was removed that is not known", nil
}

func (k *keeper) goneOfSeveral(txn *statedb.WriteTxn, s Seen, all []Seen) (doubt string, err error) {
	i := slices.IndexFunc(all, func(other Seen) bool { return same(other, s) })
	if i < 0 {
		return "a route was removed that is not known", nil
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
	return "", err
}

func (k *keeper) put(txn *statedb.WriteTxn, s Seen) error {
	k.count(s, 1)
	_, _, err := k.table.Insert(txn, s)
	return err
}

func (k *keeper) remove(txn *statedb.WriteTxn, s Seen) error {
	k.count(s, -1)
	_, _, err := k.table.Delete(txn, s)
	return err
}

// linkChanged notes what is new about a link. The kernel removes the routes of one
// that goes down, or becomes a port of another one, and does not tell of each.
func (k *keeper) linkChanged(txn *statedb.WriteTxn, link rtnl.Link) (doubt string, err error) {
	before, known := k.links[link.Index]
	k.links[link.Index] = link
	if !link.Up || known && before.Master != link.Master {
		doubt = k.doubtOf(link.Index, "a link of routes went down or became a port")
	}
	if k.devices[link.Index] > 0 && (!known || before.Name != link.Name || before.Others != link.Others) {
		err = k.rename(txn, link.Index)
	}
	return doubt, err
}

// rename gives the routes of a device its names.
func (k *keeper) rename(txn *statedb.WriteTxn, index int) error {
	for s := range k.table.All(txn) {
		if s.index != index {
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
