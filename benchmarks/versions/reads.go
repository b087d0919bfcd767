package main

import (
	"errors"
	"fmt"

	"github.com/statehive/statehive/statedb"
)

var errNotFound = errors.New("a row was not found")

// get reads all rows of a table by primary key, in random order.
func get(n int) opening {
	return func() (func() error, int, error) {
		db := statedb.New()
		table, err := statedb.NewTable(db, schema())
		if err != nil {
			return nil, 0, err
		}
		ids, err := fill(db, table, n)
		return func() error {
			txn := db.ReadTxn()
			for i := range ids {
				// Not in the order of insertion, which is that of rows in memory.
				id := ids[i*7%n]
				if o, _, found := table.Get(txn, byID.Query(id)); !found || o.ID != id {
					return errNotFound
				}
			}
			return nil
		}, n, err
	}
}

// iterate reads all rows of a table.
func iterate(n int) opening {
	return func() (func() error, int, error) {
		db := statedb.New()
		table, err := statedb.NewTable(db, schema())
		if err != nil {
			return nil, 0, err
		}
		_, err = fill(db, table, n)
		return func() error {
			next := uint64(0)
			for o := range table.All(db.ReadTxn()) {
				if o.ID != next {
					return errNotFound
				}
				next++
			}
			return expect(int(next), n)
		}, n, err
	}
}

// listGroup reads the rows of a group, each time of the next one.
func listGroup(n int) opening {
	return func() (func() error, int, error) {
		db := statedb.New()
		table, err := statedb.NewTable(db, schema(byGroup))
		if err != nil {
			return nil, 0, err
		}
		_, err = fill(db, table, n)
		group := uint64(0)
		return func() error {
			group = (group + 1) % uint64(n/groupSize)
			rows := 0
			for o := range table.List(db.ReadTxn(), byGroup.Query(group)) {
				if o.Group != group {
					return errNotFound
				}
				rows++
			}
			return expect(rows, groupSize)
		}, groupSize, err
	}
}

// lowerBound reads some rows, each time from another random one on.
func lowerBound(n, some int) opening {
	return func() (func() error, int, error) {
		db := statedb.New()
		table, err := statedb.NewTable(db, schema())
		if err != nil {
			return nil, 0, err
		}
		ids, err := fill(db, table, n)
		done := 0
		return func() error {
			done++
			first := min(ids[done*7%n], uint64(n-some))
			rows := 0
			for o := range table.LowerBound(db.ReadTxn(), byID.Query(first)) {
				if o.ID != first+uint64(rows) {
					return errNotFound
				}
				if rows++; rows == some {
					break
				}
			}
			return expect(rows, some)
		}, 1, err
	}
}

// getNetwork finds the longest prefixes that contain addresses.
func getNetwork(n int) opening {
	return func() (func() error, int, error) {
		all := networks(n)
		db := statedb.New()
		table, err := statedb.NewTable(db, statedb.Schema[network]{Name: "routes", Primary: byDestination})
		if err != nil {
			return nil, 0, err
		}
		err = fillNetworks(db, table, all, 100)
		routes := readOnly(table)
		return func() error {
			txn := db.ReadTxn()
			for _, p := range all {
				if o, _, found := byDestination.Lookup(txn, routes, p.Addr()); !found || !o.Destination.Contains(p.Addr()) {
					return errNotFound
				}
			}
			return nil
		}, n, err
	}
}

func expect(rows, want int) error {
	if rows != want {
		return fmt.Errorf("%d rows of %d", rows, want)
	}
	return nil
}
