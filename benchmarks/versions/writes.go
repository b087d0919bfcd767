package main

import "github.com/statehive/statehive/statedb"

// hotRows replaces all rows of a table in one transaction.
func hotRows(n int, secondary ...statedb.Indexer[object]) opening {
	return func() (func() error, int, error) {
		db := statedb.New()
		table, err := statedb.NewTable(db, schema(secondary...))
		version := 0
		insert := func(txn *statedb.WriteTxn) error {
			version++
			for id := range uint64(n) {
				if _, _, err := table.Insert(txn, newObject(id, version)); err != nil {
					return err
				}
			}
			return nil
		}
		return func() error { return transact(db, table, insert) }, n, err
	}
}

// modify replaces all rows of a table with Modify.
func modify(n int) opening {
	return func() (func() error, int, error) {
		db := statedb.New()
		table, err := statedb.NewTable(db, schema())
		if err != nil {
			return nil, 0, err
		}
		_, err = fill(db, table, n)
		next := func(old object) object {
			r := rowOf(old)
			r.Version++
			return objectOf(r)
		}
		modify := func(txn *statedb.WriteTxn) error {
			for id := range uint64(n) {
				if _, err := table.Modify(txn, byID.Query(id), next); err != nil {
					return err
				}
			}
			return nil
		}
		return func() error { return transact(db, table, modify) }, n, err
	}
}

// compareAndSwap reads each row of a table and replaces it.
func compareAndSwap(n int) opening {
	return func() (func() error, int, error) {
		db := statedb.New()
		table, err := statedb.NewTable(db, schema())
		if err != nil {
			return nil, 0, err
		}
		_, err = fill(db, table, n)
		swap := func(txn *statedb.WriteTxn) error {
			for id := range uint64(n) {
				old, revision, found := table.Get(txn, byID.Query(id))
				if !found {
					return errNotFound
				}
				r := rowOf(old)
				r.Version++
				if _, err := table.CompareAndSwap(txn, revision, objectOf(r)); err != nil {
					return err
				}
			}
			return nil
		}
		return func() error { return transact(db, table, swap) }, n, err
	}
}

// cursorCycle inserts rows into an empty table, reads the changes, deletes the
// rows and reads the changes again.
func cursorCycle(n int) opening {
	return func() (func() error, int, error) {
		db := statedb.New()
		table, err := statedb.NewTable(db, schema())
		if err != nil {
			return nil, 0, err
		}
		cursor := table.Changes(0)
		insert := func(txn *statedb.WriteTxn) error {
			for id := range uint64(n) {
				if _, _, err := table.Insert(txn, newObject(id, 0)); err != nil {
					return err
				}
			}
			return nil
		}
		remove := func(txn *statedb.WriteTxn) error {
			for id := range uint64(n) {
				if _, _, err := table.Delete(txn, newObject(id, 0)); err != nil {
					return err
				}
			}
			return nil
		}
		return func() error {
			for _, write := range []func(*statedb.WriteTxn) error{insert, remove} {
				if err := transact(db, table, write); err != nil {
					return err
				}
				changes := 0
				for range cursor.Next(db.ReadTxn()) {
					changes++
				}
				if err := expect(changes, n); err != nil {
					return err
				}
			}
			return nil
		}, n, nil
	}
}

// emptyCommit commits a transaction that has written nothing.
func emptyCommit() (func() error, int, error) {
	db := statedb.New()
	table, err := statedb.NewTable(db, schema())
	nothing := func(*statedb.WriteTxn) error { return nil }
	return func() error { return transact(db, table, nothing) }, 1, err
}

// replaceRandom replaces rows of a large table, so many in a transaction.
func replaceRandom(n, batch int) opening {
	return func() (func() error, int, error) {
		db := statedb.New()
		table, err := statedb.NewTable(db, schema())
		if err != nil {
			return nil, 0, err
		}
		ids, err := fill(db, table, n)
		done := 0
		insert := func(txn *statedb.WriteTxn) error {
			for range batch {
				done++
				// Not in the order of insertion, which is that of rows in memory.
				if _, _, err := table.Insert(txn, newObject(ids[done*7%n], done)); err != nil {
					return err
				}
			}
			return nil
		}
		return func() error { return transact(db, table, insert) }, batch, err
	}
}

// fillTable makes a table with rows, whose memory is measured.
func fillTable(n int, secondary ...statedb.Indexer[object]) opening {
	return func() (func() error, int, error) {
		db := statedb.New()
		table, err := statedb.NewTable(db, schema(secondary...))
		if err != nil {
			return nil, 0, err
		}
		_, err = fill(db, table, n)
		return func() error {
			return expect(table.Len(db.ReadTxn()), n)
		}, n, err
	}
}

// insertNetworks makes a table with networks, so many in a transaction.
func insertNetworks(n, batch int) opening {
	return func() (func() error, int, error) {
		all := networks(n)
		return func() error {
			db := statedb.New()
			table, err := statedb.NewTable(db, statedb.Schema[network]{Name: "routes", Primary: byDestination})
			if err != nil {
				return err
			}
			return fillNetworks(db, table, all, batch)
		}, n, nil
	}
}
