package route

import (
	"iter"
	"net/netip"
	"slices"
	"strings"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/target/address"
	"github.com/statehive/statehive/reconciler/target/link"
	"github.com/statehive/statehive/statedb"
	"github.com/statehive/statehive/statedb/immutable"
)

// Network is a network whose hosts a route reaches without a gateway.
type Network struct {
	Table  Table
	Device string // empty for any device
	Prefix netip.Prefix
}

// ByNetwork finds the rows without a gateway by their destinations, both with and without
// their devices. The kernel refuses a gateway that is itself reached through a gateway, or by an IPv4 route with a scope wider than that of
// a link.
var ByNetwork = statedb.NewMultiIndex("network", func(r Route) iter.Seq[Network] {
	key := r.Key()
	r.Family = key.family()
	if r.Type != Unicast || r.usesGateway() || r.Family == Inet && !isOfLink(r.scope()) {
		return nil
	}
	return func(yield func(Network) bool) {
		if !yield(Network{key.Table, "", key.Destination}) {
			return
		}
		for way := range r.ways() {
			if !yield(Network{key.Table, way.Device, key.Destination}) {
				return
			}
		}
	}
})

// usesGateway reports whether all or some of the packets go to a gateway.
func (r Route) usesGateway() bool {
	if r.Nexthops.IsZero() {
		return r.Gateway.IsValid()
	}
	for way := range r.ways() {
		if way.Gateway.IsValid() {
			return true
		}
	}
	return false
}

// Dependencies are the tables that routes depend on, with the observations that their rows are
// compared with.
type Dependencies struct {
	DB            *statedb.DB
	Devices       link.Devices
	Addresses     *statedb.Table[address.Address]
	SeenAddresses reconciler.Observation[address.Address]
	// KernelAddresses are all addresses of the kernel. It looks for duplicates of IPv6 addresses before it uses them.
	KernelAddresses *statedb.Table[address.Seen]
	Routes          *statedb.Table[Route]
	KernelRoutes    *statedb.Table[Seen]
}

// DependsOn makes routes wait for the rows without which the kernel would refuse them:
//   - the links of their devices;
//   - the addresses whose networks contain the gateways (see [address.Containing]), except those to whose networks the kernel
//     has another address;
//   - the routes that lead to the gateways without a gateway of their own (see [ByNetwork]);
//   - the source address, which the kernel refuses in IPv6 as long as it is tentative, unless it is in use on some device.
//
// Routes do not wait for objects made by others, which are in no row.
func DependsOn(d Dependencies) []reconciler.Dependency[Route] {
	return []reconciler.Dependency[Route]{
		link.DependsOnBy(d.Devices, Route.needs, d.links),
		reconciler.Tolerating(d.ofGateways(), address.Reaches(d.KernelAddresses)),
		reconciler.Tolerating(
			reconciler.DependsOn(d.Addresses, address.Address.GetStatus, source, d.SeenAddresses, address.ObservedUsable(d.KernelAddresses)).OneOf(nil),
			address.UsesHost(d.KernelAddresses)),
		reconciler.DependsOnBy(d.Routes, Route.GetStatus, Route.needs, needs.routes, Observed(d.KernelRoutes)).OneOf(Route.hops).Or(d.ofGateways()),
	}
}

// ofGateways is the dependency on the addresses whose networks contain the gateways.
func (d Dependencies) ofGateways() reconciler.Dependency[Route] {
	return reconciler.Serving(
		reconciler.DependsOnBy(d.Addresses, address.Address.GetStatus, Route.needs, d.addresses, d.SeenAddresses).OneOf(Route.hops),
		address.Serves(d.Devices, d.KernelAddresses))
}

// DeletedBefore makes addresses stay until the IPv4 routes of their devices are deleted: with the last IPv4 address of a device
// the kernel removes all of its IPv4 routes. It makes links stay until the routes are deleted that the kernel has through them, or whose source
// addresses they have.
func DeletedBefore(d Dependencies) []reconciler.Dependency[Route] {
	return []reconciler.Dependency[Route]{
		reconciler.DependsOn(d.Addresses, address.Address.GetStatus, d.deviceAddresses).OneOf(Route.hops),
		link.DependsOnBy(d.Devices, d.existing, d.existingLinks).OneOf(Route.hops).Or(d.ofGateways()),
		link.DependsOn(d.Devices, d.sourceDevice),
	}
}

// deviceAddresses yields queries for the addresses of the devices of an IPv4 route.
func (d Dependencies) deviceAddresses(r Route) iter.Seq[statedb.Query[address.Address]] {
	if r.Key().Destination.Addr().Is6() {
		return nil
	}
	return func(yield func(statedb.Query[address.Address]) bool) {
		for way := range r.ways() {
			if way.Device == "" {
				continue
			}
			for name := range d.Devices.Names(way.Device) {
				if !yield(address.ByDevice.Query(address.Device{Name: name})) {
					return
				}
			}
		}
	}
}

// sourceDevice returns the device that has the source address of an IPv4 route, if others have added that. The kernel removes the route
// with the address.
func (d Dependencies) sourceDevice(r Route) string {
	if !r.Source.Is4() {
		return ""
	}
	txn := d.DB.ReadTxn()
	for range d.Addresses.List(txn, address.ByHost.Query(r.Source)) {
		return "" // see source
	}
	for s := range d.KernelAddresses.List(txn, address.SeenByHost.Query(r.Source)) {
		return s.Device
	}
	return ""
}

// existing is what a route needs, and the devices through which the kernel sends packets to its gateways.
type existing struct {
	needs
	devices string // separated by spaces
}

func (d Dependencies) existing(r Route) (e existing) {
	is, _, found := d.KernelRoutes.Get(d.DB.ReadTxn(), SeenByKey.Query(r.Key()))
	if !found {
		return e
	}
	e.needs = r.needs()
	hops := is.seenNexthops()
	for way := range e.gateways() {
		for _, h := range hops {
			switch {
			case h.Gateway != way.Gateway || h.Device == "":
			case e.devices == "":
				e.devices = h.Device
			default:
				e.devices += " " + h.Device
			}
		}
	}
	return e
}

// existingLinks yields queries for the links of the devices of an existing route, unless it waits for a link that needs their names.
func (d Dependencies) existingLinks(e existing) iter.Seq[statedb.Query[link.Link]] {
	return func(yield func(statedb.Query[link.Link]) bool) {
		for device := range strings.FieldsSeq(e.devices) {
			if d.waitFor(e.needs, device, d.Devices.OtherEnd(device)) {
				continue
			}
			for q := range d.Devices.Rows(device) {
				if !yield(q) {
					return
				}
			}
		}
	}
}

// waitFor reports whether a device of a route, or one with an address that leads to one of its gateways, waits for one of some names: see
// [link.Devices.WaitsFor].
func (d Dependencies) waitFor(n needs, names ...string) bool {
	if !d.Devices.AreNeeded(names...) {
		return false // as almost always
	}
	for way := range n.ways() {
		if way.Device != "" && d.Devices.WaitsFor(way.Device, names...) {
			return true
		}
	}
	txn := d.DB.ReadTxn()
	for q := range d.addresses(n) {
		for a := range d.Addresses.List(txn, q) {
			if d.Devices.WaitsFor(a.Device, names...) {
				return true
			}
		}
	}
	return false
}

// links yields queries for the links that create the devices of a route.
func (d Dependencies) links(n needs) iter.Seq[statedb.Query[link.Link]] {
	return func(yield func(statedb.Query[link.Link]) bool) {
		for way := range n.ways() {
			for q := range d.Devices.Rows(way.Device) {
				if !yield(q) {
					return
				}
			}
		}
	}
}

// source yields the query for the source address of a route.
func source(r Route) iter.Seq[statedb.Query[address.Address]] {
	if !r.Source.IsValid() {
		return nil
	}
	return slices.Values([]statedb.Query[address.Address]{address.ByHost.Query(r.Source)})
}

// needs determines which addresses and routes a route needs. Many routes have equal needs.
type needs struct {
	table    Table
	gateway  netip.Addr
	device   string
	nexthops immutable.List[Nexthop]
}

func (r Route) needs() needs {
	if r.Table == 0 {
		r.Table = MainTable
	}
	return needs{r.Table, r.Gateway, r.Device, r.Nexthops}
}

// hops yields a row for each next hop.
func (r Route) hops() iter.Seq[Route] {
	return func(yield func(Route) bool) {
		for way := range r.ways() {
			one := r
			one.Gateway, one.Device, one.Nexthops = way.Gateway, way.Device, immutable.List[Nexthop]{}
			if !yield(one) {
				return
			}
		}
	}
}

func (n needs) ways() iter.Seq[Nexthop] {
	return Route{Gateway: n.gateway, Device: n.device, Nexthops: n.nexthops}.ways()
}

// gateways yields the next hops that have a gateway.
func (n needs) gateways() iter.Seq[Nexthop] {
	return func(yield func(Nexthop) bool) {
		for way := range n.ways() {
			if way.Gateway.IsValid() && !yield(way) {
				return
			}
		}
	}
}

// addresses yields queries for the addresses whose networks contain the gateways, on their devices by any name.
func (d Dependencies) addresses(n needs) iter.Seq[statedb.Query[address.Address]] {
	return func(yield func(statedb.Query[address.Address]) bool) {
		for way := range n.gateways() {
			for name := range d.Devices.Names(way.Device) {
				for query := range address.Containing(name, way.Gateway) {
					if !yield(query) {
						return
					}
				}
			}
		}
	}
}

// routes yields queries for the rows that lead to the gateways, in the route's own table,
// where the kernel looks first, and in the main table. It skips the prefix lengths that
// [address.Containing] skips, except for the prefix length of a default route.
func (n needs) routes() iter.Seq[statedb.Query[Route]] {
	return func(yield func(statedb.Query[Route]) bool) {
		for way := range n.gateways() {
			for _, table := range slices.Compact([]Table{n.table, MainTable}) {
				for prefix := range around(way.Gateway) {
					if !yield(ByNetwork.Query(Network{table, way.Device, prefix})) {
						return
					}
				}
			}
		}
	}
}

// around yields the networks of the routes that may lead to an address.
func around(gateway netip.Addr) iter.Seq[netip.Prefix] {
	return func(yield func(netip.Prefix) bool) {
		if !yield(familyOf(gateway).everything()) {
			return
		}
		for prefix := range address.Networks(gateway) {
			if !yield(prefix) {
				return
			}
		}
	}
}
