package route

import (
	"iter"
	"net/netip"
	"slices"
	"sync"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/target/address"
	"github.com/statehive/statehive/reconciler/target/link"
	"github.com/statehive/statehive/statedb"
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
	n := &needs{}
	return []reconciler.Dependency[Route]{
		reconciler.DependsOn(d.Links, link.Link.GetStatus, devices, d.SeenLinks),
		reconciler.DependsOn(d.Addresses, address.Address.GetStatus, n.addresses, d.SeenAddresses),
		reconciler.DependsOn(d.Addresses, address.Address.GetStatus, source, d.SeenAddresses, d.SeenSources),
		reconciler.DependsOn(d.Routes, Route.GetStatus, n.routes, d.SeenRoutes),
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

// maxGateways bounds the gateways whose addresses are remembered. Many routes have
// the same few.
const maxGateways = 1024

// needs returns which addresses and routes a route needs. It is safe for concurrent use.
type needs struct {
	mu       sync.RWMutex
	gateways map[gateway]ways
}

// gateway is the gateway of a route, with the table and the device of that route.
type gateway struct {
	table   Table
	device  string
	address netip.Addr
}

// ways are queries for the rows that lead to a gateway.
type ways struct {
	addresses []statedb.Query[address.Address]
	routes    []statedb.Query[Route]
}

func (n *needs) addresses(r Route) iter.Seq[statedb.Query[address.Address]] {
	return func(yield func(statedb.Query[address.Address]) bool) {
		for way := range n.leadTo(r) {
			for _, query := range way.addresses {
				if !yield(query) {
					return
				}
			}
		}
	}
}

func (n *needs) routes(r Route) iter.Seq[statedb.Query[Route]] {
	return func(yield func(statedb.Query[Route]) bool) {
		for way := range n.leadTo(r) {
			for _, query := range way.routes {
				if !yield(query) {
					return
				}
			}
		}
	}
}

// leadTo yields what leads to the gateways of a route.
func (n *needs) leadTo(r Route) iter.Seq[ways] {
	return func(yield func(ways) bool) {
		for way := range r.ways() {
			if way.Gateway.IsValid() && !yield(n.to(gateway{r.Key().Table, way.Device, way.Gateway})) {
				return
			}
		}
	}
}

func (n *needs) to(g gateway) ways {
	n.mu.RLock()
	w, known := n.gateways[g]
	n.mu.RUnlock()
	if known {
		return w
	}
	w = ways{slices.Collect(address.Containing(g.device, g.address)), slices.Collect(containing(g))}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.gateways == nil || len(n.gateways) >= maxGateways {
		n.gateways = map[gateway]ways{}
	}
	n.gateways[g] = w
	return w
}

// containing yields queries for the rows that lead to a gateway: those of the route's own
// table, where the kernel looks first, and of the main table. It leaves out the prefix
// lengths that [address.Containing] leaves out, except that of a default route.
func containing(g gateway) iter.Seq[statedb.Query[Route]] {
	return func(yield func(statedb.Query[Route]) bool) {
		for _, table := range slices.Compact([]Table{g.table, MainTable}) {
			lead := func(prefix netip.Prefix) bool { return yield(ByNetwork.Query(Network{table, g.device, prefix})) }
			if !lead(familyOf(g.address).everything()) {
				return
			}
			for prefix := range address.Networks(g.address) {
				if !lead(prefix) {
					return
				}
			}
		}
	}
}
