// Package tables lets in-memory tables do the same work, so that what they cost
// can be compared: ours, go-memdb, and plain trees of go-immutable-radix, which
// know neither tables nor changes and are what the work needs at least there.
//
// A [Store] is one table and belongs to one goroutine. Each [Workload] prepares
// a store and then does something many times, which alone is measured.
package tables

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"time"
)

// Row is a row of every store, of the size of a small object. Ours holds it by
// value, the others hold pointers to it, as is usual there.
type Row struct {
	ID      string
	Group   string
	Zone    string
	Owner   string
	Number  int
	Version int
}

// Rows returns n rows whose keys are texts in random order. About perGroup of
// them have the same Group.
func Rows(n, perGroup int) []Row {
	random := rand.New(rand.NewPCG(1, 2))
	rows := make([]Row, n)
	for i, k := range random.Perm(n) {
		rows[i] = Row{
			ID:     fmt.Sprintf("namespace-%02d/pod-%07x", k%50, k*7919),
			Group:  fmt.Sprintf("group-%d", k/perGroup),
			Zone:   fmt.Sprintf("zone-%d", k%16),
			Owner:  fmt.Sprintf("owner-%d", k/3),
			Number: k,
		}
	}
	return rows
}

// Store is a table with a primary index of ids and up to three others.
type Store interface {
	// Write inserts or replaces rows in one transaction.
	Write(rows []Row) error
	// Modify reads each row, changes it and writes it back, in one transaction.
	Modify(rows []Row) error
	// Swap does the same by reading each row first, and writing it only if nobody
	// else has changed it since.
	Swap(rows []Row) error
	// Get says whether there is a row with this id.
	Get(id string) bool
	// List counts the rows of a group, reading each.
	List(group string) int
	// All counts all rows, reading each.
	All() int
	// Empty commits a transaction that has written nothing.
	Empty() error
}

// Follower is a store that can say what has changed.
type Follower interface {
	Store
	// Delete removes rows in one transaction.
	Delete(rows []Row) error
	// Observe counts the changes since it was last called.
	Observe() int
}

// Router is a store that can also hold networks and find those that addresses
// are in.
type Router interface {
	Store
	// Announce inserts networks in one transaction.
	Announce(networks []netip.Prefix) error
	// Route says whether a network contains the address.
	Route(addr netip.Addr) bool
}

// Deriver is a store that can fill a table from another one as that changes.
type Deriver interface {
	Store
	// Propagate writes a row so many times, and returns how long it took each time
	// until a goroutine had read it and written it to another table, and who waits
	// there was awake.
	Propagate(times int) ([]time.Duration, error)
}

// Maker makes empty stores.
type Maker struct {
	Name string
	// New returns a store with so many secondary indexes, of at most three, in a
	// database with so many tables.
	New func(secondaries, tables int) (Store, error)
}

// Makers returns all of them. The others are compared with the last one.
func Makers() []Maker {
	return []Maker{
		{"Statehive", newStatehive},
		{"go-immutable-radix, plain", newRadix},
		{"go-memdb", newMemDB},
	}
}
