package main

import (
	"context"
	"math/rand/v2"
	"net/netip"
	"slices"

	"github.com/statehive/statehive/statedb"
)

// row is what most tables hold, as an object.
type row struct {
	ID      uint64
	Group   uint64
	Version uint64
}

// route is what tables with longest-prefix match hold, as a network.
type route struct{ Destination netip.Prefix }

// groupSize is how many rows have the same Group.
const groupSize = 1_000

// newObject has the rows of groupSize ids in a row in one group.
func newObject(id uint64, version int) object {
	return objectOf(row{ID: id, Group: id / groupSize, Version: uint64(version)})
}

var (
	byID          = statedb.NewIndex("id", func(o object) uint64 { return o.ID })
	byGroup       = statedb.NewIndex("group", func(o object) uint64 { return o.Group })
	byDestination = statedb.NewPrefixIndex("destination", func(n network) netip.Prefix { return n.Destination })
)

func schema(secondary ...statedb.Indexer[object]) statedb.Schema[object] {
	return statedb.Schema[object]{Name: "rows", Primary: byID, Secondary: secondary}
}

// inserter is what is needed of a table to fill it, whatever its type is.
type inserter[Obj any] interface {
	statedb.TableMeta
	Insert(txn *statedb.WriteTxn, obj Obj) (old Obj, replaced bool, err error)
}

// transact commits what write does, if it does not fail.
func transact(db *statedb.DB, table statedb.TableMeta, write func(txn *statedb.WriteTxn) error) error {
	txn, err := db.WriteTxn(context.Background(), table)
	if err != nil {
		return err
	}
	if err := write(txn); err != nil {
		txn.Abort()
		return err
	}
	_, err = txn.Commit()
	return err
}

// fill inserts rows, 1,000 in a transaction, and returns their ids in the order of
// insertion, which is random.
func fill(db *statedb.DB, table inserter[object], n int) ([]uint64, error) {
	ids := shuffled(n)
	for some := range slices.Chunk(ids, 1_000) {
		err := transact(db, table, func(txn *statedb.WriteTxn) error {
			for _, id := range some {
				if _, _, err := table.Insert(txn, newObject(id, 0)); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return ids, nil
}

// shuffled returns the numbers below n in an order that is random and always the same.
func shuffled(n int) []uint64 {
	ids := make([]uint64, n)
	for i, id := range rand.New(rand.NewPCG(1, 2)).Perm(n) {
		ids[i] = uint64(id)
	}
	return ids
}

// fillNetworks inserts networks, so many in a transaction.
func fillNetworks(db *statedb.DB, table inserter[network], all []netip.Prefix, batch int) error {
	for some := range slices.Chunk(all, batch) {
		err := transact(db, table, func(txn *statedb.WriteTxn) error {
			for _, p := range some {
				if _, _, err := table.Insert(txn, networkOf(route{Destination: p})); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// networks returns n different networks with the lengths of a routing table: half
// of them are /24, the others from /8 on.
func networks(n int) []netip.Prefix {
	random := rand.New(rand.NewPCG(1, 2))
	seen := map[netip.Prefix]bool{}
	found := make([]netip.Prefix, 0, n)
	for len(found) < n {
		length := 24
		if random.IntN(2) == 0 {
			length = 8 + random.IntN(17)
		}
		bits := random.Uint32()
		p := netip.PrefixFrom(netip.AddrFrom4([4]byte{byte(bits >> 24), byte(bits >> 16), byte(bits >> 8)}), length).Masked()
		if !seen[p] {
			seen[p] = true
			found = append(found, p)
		}
	}
	return found
}
