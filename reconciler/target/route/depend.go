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
	Device string // empty: any
	Prefix netip.Prefix
}

// ByNetwork finds the rows without a gateway by their destinations, with their devices and
// without. The kernel refuses a gateway that is itself reached through a gateway.
var ByNetwork = statedb.NewMultiIndex("network", func(r Route) iter.Seq[Network] {
	if r.Type != Unicast || r.usesGateway() {
		return nil
	}
	return func(yield func(Network) bool) {
		key := r.Key()
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

// usesGateway reports whether packets go to a gateway, or some of them do.
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

// Dependencies are the tables that routes depend on, and what their rows are compared with.
type Dependencies struct {
	Links         *statedb.Table[link.Link]
	SeenLinks     reconciler.Observation[link.Link]
	Addresses     *statedb.Table[address.Address]
	SeenAddresses reconciler.Observation[address.Address]
	// SeenSources is what addresses that are sources are compared with, too: see
	// [address.ObservedUsable].
	SeenSources reconciler.Observation[address.Address]
	Routes      *statedb.Table[Route]
	SeenRoutes  reconciler.Observation[Route]
}

// DependsOn has routes wait for the rows without which the kernel would refuse
// them: the links of the devices, the addresses in whose networks the gateways are (see
// [address.Containing]), the routes that lead there without a gateway (see [ByNetwork]),
// and the source, which in IPv6 is refused as long as it is tentative. What others have made
// is in no row, and not waited for.
func DependsOn(d Dependencies) []reconciler.Dependency[Route] {
	return []reconciler.Dependency[Route]{
		reconciler.DependsOn(d.Links, link.Link.GetStatus, devices, d.SeenLinks),
		reconciler.DependsOnBy(d.Addresses, address.Address.GetStatus, Route.needs, needs.addresses, d.SeenAddresses),
		reconciler.DependsOn(d.Addresses, address.Address.GetStatus, source, d.SeenAddresses, d.SeenSources),
		reconciler.DependsOnBy(d.Routes, Route.GetStatus, Route.needs, needs.routes, d.SeenRoutes),
	}
}

// devices yields queries for the links that make the devices of a route.
func devices(r Route) iter.Seq[statedb.Query[link.Link]] {
	if r.Device == "" && r.Nexthops.IsZero() {
		return nil
	}
	return func(yield func(statedb.Query[link.Link]) bool) {
		for way := range r.ways() {
			if way.Device != "" && !yield(link.ByEnd.Query(link.Key(way.Device))) {
				return
			}
		}
	}
}

// source yields the query for the source of a route.
func source(r Route) iter.Seq[statedb.Query[address.Address]] {
	if !r.Source.IsValid() {
		return nil
	}
	return slices.Values([]statedb.Query[address.Address]{address.ByHost.Query(r.Source)})
}

// needs is what decides which addresses and routes a route needs. Many routes have the same.
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

// gateways yields the ways by a gateway.
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

// routes yields queries for the rows that lead to the gateways: those of the route's own
// table, in which the kernel looks first, and of the main one. It leaves out the lengths of
// prefixes that [address.Containing] leaves out, but for that of a default route.
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

// around yields the networks of a route that may lead to an address.
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
