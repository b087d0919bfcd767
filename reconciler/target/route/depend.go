package route

import (
	"iter"
	"net/netip"
	"slices"

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
	Links         *statedb.Table[link.Link]
	SeenLinks     reconciler.Observation[link.Link]
	Addresses     *statedb.Table[address.Address]
	SeenAddresses reconciler.Observation[address.Address]
	// SeenSources is an additional observation that source addresses are compared with: see
	// [address.ObservedUsable].
	SeenSources reconciler.Observation[address.Address]
	Routes      *statedb.Table[Route]
	SeenRoutes  reconciler.Observation[Route]
}

// DependsOn makes routes wait for the rows without which the kernel would refuse them:
//   - the links of their devices;
//   - the addresses whose networks contain the gateways (see [address.Containing]);
//   - the routes that lead to the gateways without a gateway of their own (see [ByNetwork]);
//   - the source address, which the kernel refuses in IPv6 as long as it is tentative.
//
// Routes do not wait for objects made by others, which are in no row.
func DependsOn(d Dependencies) []reconciler.Dependency[Route] {
	addresses := reconciler.DependsOnBy(d.Addresses, address.Address.GetStatus, Route.needs, needs.addresses, d.SeenAddresses).OneOf(Route.hops)
	return []reconciler.Dependency[Route]{
		reconciler.DependsOn(d.Links, link.Link.GetStatus, devices, d.SeenLinks),
		addresses,
		reconciler.DependsOn(d.Addresses, address.Address.GetStatus, source, d.SeenAddresses, d.SeenSources).OneOf(nil),
		reconciler.DependsOnBy(d.Routes, Route.GetStatus, Route.needs, needs.routes, d.SeenRoutes).OneOf(Route.hops).Or(addresses),
	}
}

// DeletedBefore makes addresses stay until the IPv4 routes of their devices are deleted: with the last IPv4 address of a device
// the kernel removes all of its IPv4 routes.
func DeletedBefore(d Dependencies) []reconciler.Dependency[Route] {
	return []reconciler.Dependency[Route]{reconciler.DependsOn(d.Addresses, address.Address.GetStatus, deviceAddresses).OneOf(Route.hops)}
}

// deviceAddresses yields queries for the addresses of the devices of an IPv4 route.
func deviceAddresses(r Route) iter.Seq[statedb.Query[address.Address]] {
	if r.Key().Destination.Addr().Is6() {
		return nil
	}
	return func(yield func(statedb.Query[address.Address]) bool) {
		for way := range r.ways() {
			if way.Device != "" && !yield(address.ByDevice.Query(address.Device{Name: way.Device})) {
				return
			}
		}
	}
}

// devices yields queries for the links that create the devices of a route.
func devices(r Route) iter.Seq[statedb.Query[link.Link]] {
	if r.Device == "" && r.Nexthops.IsZero() {
		return nil
	}
	return func(yield func(statedb.Query[link.Link]) bool) {
		for way := range r.ways() {
			if way.Device == "" {
				continue
			}
			for q := range link.Device(way.Device) {
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

// gateways yields the next hops that have a gateway.
func (n needs) gateways() iter.Seq[Nexthop] {
	return func(yield func(Nexthop) bool) {
		for way := range (Route{Gateway: n.gateway, Device: n.device, Nexthops: n.nexthops}).ways() {
			if way.Gateway.IsValid() && !yield(way) {
				return
			}
		}
	}
}

func (n needs) addresses() iter.Seq[statedb.Query[address.Address]] {
	return func(yield func(statedb.Query[address.Address]) bool) {
		for way := range n.gateways() {
			for query := range address.Containing(way.Device, way.Gateway) {
				if !yield(query) {
					return
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
