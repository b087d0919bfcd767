package tables

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"

	"github.com/statehive/statehive/statedb"
)

// route is a row of a table that is searched for the longest prefix.
type route struct{ Destination netip.Prefix }

var byDestination = statedb.NewPrefixIndex("destination", func(r route) netip.Prefix { return r.Destination })

func (s *statehive) Announce(networks []netip.Prefix) (err error) {
	if s.routes == nil {
		if s.routes, err = statedb.NewTable(s.db, statedb.Schema[route]{Name: "routes", Primary: byDestination}); err != nil {
			return err
		}
		s.lookup = statedb.ReadOnly(s.routes)
	}
	return s.db.Update(context.Background(), func(txn *statedb.WriteTxn) error {
		for _, n := range networks {
			if _, _, err := s.routes.Insert(txn, route{n}); err != nil {
				return err
			}
		}
		return nil
	}, s.routes)
}

func (s *statehive) Route(addr netip.Addr) bool {
	_, _, ok := byDestination.Lookup(s.db.ReadTxn(), s.lookup, addr)
	return ok
}

// Networks returns n different networks with the lengths of a routing table: half
// of them are /24, the others from /8 on.
func Networks(n int) []netip.Prefix {
	random := rand.New(rand.NewPCG(1, 2))
	seen := map[netip.Prefix]bool{}
	networks := make([]netip.Prefix, 0, n)
	for len(networks) < n {
		length := 24
		if random.IntN(2) == 0 {
			length = 8 + random.IntN(17)
		}
		bits := random.Uint32()
		p := netip.PrefixFrom(netip.AddrFrom4([4]byte{byte(bits >> 24), byte(bits >> 16), byte(bits >> 8)}), length).Masked()
		if !seen[p] {
			seen[p] = true
			networks = append(networks, p)
		}
	}
	return networks
}

const networks = 10_000

// announce inserts networks into a table that has none.
func announce(batch int) Workload {
	return Workload{
		Name: fmt.Sprintf("longest prefix: insert %d networks, %d in a transaction", networks, batch), AtMost: 1837, Tables: 1, Unit: "network",
		Prepare: func(s Store) (func() error, int, error) {
			r, ok := s.(Router)
			if !ok {
				return nil, 0, nil
			}
			all := Networks(networks)
			return func() error {
				for some := range slices.Chunk(all, batch) {
					if err := r.Announce(some); err != nil {
						return err
					}
				}
				return nil
			}, networks, nil
		},
	}
}

// lookups searches for addresses that are in a network.
func lookups() Workload {
	return Workload{
		Name: fmt.Sprintf("longest prefix: get, of %d networks", networks), AtMost: 293, Tables: 1, Unit: "get",
		Prepare: func(s Store) (func() error, int, error) {
			r, ok := s.(Router)
			if !ok {
				return nil, 0, nil
			}
			all := Networks(networks)
			if err := r.Announce(all); err != nil {
				return nil, 0, err
			}
			const times = 20 * networks
			return each(times, func(i int) bool { return r.Route(all[i*7%networks].Addr()) }), times, nil
		},
	}
}
