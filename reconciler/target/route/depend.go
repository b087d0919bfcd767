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

// DependsOn has routes wait for the rows without which the kernel would refuse
// them: the links of the devices, the addresses in whose networks the gateways are (see
// [address.Containing]), and the source. What others have made is in no row, and
// not waited for. seenLinks and seenAddresses are what the rows of links and
// addresses are compared with.
func DependsOn(
	links *statedb.Table[link.Link], seenLinks reconciler.Observation[link.Link],
	addresses *statedb.Table[address.Address], seenAddresses reconciler.Observation[address.Address],
) []reconciler.Dependency[Route] {
	return []reconciler.Dependency[Route]{
		reconciler.DependsOn(links, link.Link.GetStatus, devices, seenLinks),
		reconciler.DependsOn(addresses, address.Address.GetStatus, (&needs{}).addresses, seenAddresses),
	}
}

// devices yields queries for the links that bring the devices of a route about.
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

// maxGateways bounds the gateways whose addresses are remembered. Many routes have
// the same few.
const maxGateways = 1024

// needs tells which addresses routes need. It is safe for concurrent use.
type needs struct {
	mu       sync.RWMutex
	gateways map[gateway][]statedb.Query[address.Address]
}

type gateway struct {
	device  string
	address netip.Addr
}

func (n *needs) addresses(r Route) iter.Seq[statedb.Query[address.Address]] {
	return func(yield func(statedb.Query[address.Address]) bool) {
		if r.Source.IsValid() && !yield(address.ByHost.Query(r.Source)) {
			return
		}
		for way := range r.ways() {
			if !way.Gateway.IsValid() {
				continue
			}
			for _, query := range n.containing(gateway{way.Device, way.Gateway}) {
				if !yield(query) {
					return
				}
			}
		}
	}
}

func (n *needs) containing(g gateway) []statedb.Query[address.Address] {
	n.mu.RLock()
	queries, known := n.gateways[g]
	n.mu.RUnlock()
	if known {
		return queries
	}
	queries = slices.Collect(address.Containing(g.device, g.address))
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.gateways == nil || len(n.gateways) >= maxGateways {
		n.gateways = map[gateway][]statedb.Query[address.Address]{}
	}
	n.gateways[g] = queries
	return queries
}
