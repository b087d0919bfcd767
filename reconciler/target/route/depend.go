package route

import (
	"iter"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/target/address"
	"github.com/statehive/statehive/reconciler/target/link"
	"github.com/statehive/statehive/statedb"
)

// DependsOn has routes wait for the rows without which the kernel would refuse
// them: the link of the device, the addresses in whose network the gateway is (see
// [address.Containing]), and the source. What others have made is in no row, and
// not waited for. seenLinks and seenAddresses are what the rows of links and
// addresses are compared with.
func DependsOn(
	links statedb.Table[link.Link], seenLinks reconciler.Observation[link.Link],
	addresses statedb.Table[address.Address], seenAddresses reconciler.Observation[address.Address],
) []reconciler.Dependency[Route] {
	return []reconciler.Dependency[Route]{
		link.DependsOn(links, seenLinks, func(r Route) string { return r.Device }),
		reconciler.DependsOn(addresses, address.Address.GetStatus, neededAddresses, seenAddresses),
	}
}

func neededAddresses(r Route) iter.Seq[statedb.Query[address.Address]] {
	return func(yield func(statedb.Query[address.Address]) bool) {
		if r.Source.IsValid() && !yield(address.ByHost.Query(r.Source)) {
			return
		}
		if r.Gateway.IsValid() {
			address.Containing(r.Device, r.Gateway)(yield)
		}
	}
}
