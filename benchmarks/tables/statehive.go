package tables

import (
	"context"
	"fmt"

	"github.com/statehive/statehive/statedb"
)

var (
	byID     = statedb.NewIndex("id", func(r Row) string { return r.ID })
	byGroup  = statedb.NewIndex("group", func(r Row) string { return r.Group })
	byZone   = statedb.NewIndex("zone", func(r Row) string { return r.Zone })
	byOwner  = statedb.NewIndex("owner", func(r Row) string { return r.Owner })
	allKinds = []statedb.Indexer[Row]{byGroup, byZone, byOwner}
)

type statehive struct {
	db     *statedb.DB
	table  *statedb.RWTable[Row]
	cursor *statedb.Cursor[Row]
	routes *statedb.RWTable[route] // nil before the first
	lookup *statedb.Table[route]   // routes
}

func newStatehive(secondaries, tables int) (Store, error) {
	s := &statehive{db: statedb.New()}
	for i := range tables {
		table, err := statedb.NewTable(s.db, statedb.Schema[Row]{
			Name: fmt.Sprintf("rows-%d", i), Primary: byID, Secondary: allKinds[:secondaries],
		})
		if err != nil {
			return nil, err
		}
		s.table = table
	}
	return s, nil
}

func (s *statehive) update(rows []Row, write func(txn *statedb.WriteTxn, row Row) error) error {
	return s.db.Update(context.Background(), func(txn *statedb.WriteTxn) error {
		for _, row := range rows {
			if err := write(txn, row); err != nil {
				return err
			}
		}
		return nil
	}, s.table)
}

func (s *statehive) Write(rows []Row) error {
	return s.update(rows, func(txn *statedb.WriteTxn, row Row) error {
		_, _, err := s.table.Insert(txn, row)
		return err
	})
}

func (s *statehive) Modify(rows []Row) error {
	return s.update(rows, func(txn *statedb.WriteTxn, row Row) error {
		_, err := s.table.Modify(txn, byID.Query(row.ID), func(row Row) Row { row.Version++; return row })
		return err
	})
}

func (s *statehive) Swap(rows []Row) error {
	return s.update(rows, func(txn *statedb.WriteTxn, row Row) error {
		old, revision, _ := s.table.Get(txn, byID.Query(row.ID))
		old.Version++
		_, err := s.table.CompareAndSwap(txn, revision, old)
		return err
	})
}

func (s *statehive) Delete(rows []Row) error {
	return s.update(rows, func(txn *statedb.WriteTxn, row Row) error {
		_, _, err := s.table.Delete(txn, row)
		return err
	})
}

func (s *statehive) Get(id string) bool {
	_, _, ok := s.table.Get(s.db.ReadTxn(), byID.Query(id))
	return ok
}

func (s *statehive) List(group string) (n int) {
	for row := range s.table.List(s.db.ReadTxn(), byGroup.Query(group)) {
		if row.Group == group {
			n++
		}
	}
	return n
}

func (s *statehive) All() (n int) {
	for row := range s.table.All(s.db.ReadTxn()) {
		if row.ID != "" {
			n++
		}
	}
	return n
}

func (s *statehive) Empty() error { return s.update(nil, nil) }

func (s *statehive) Observe() (n int) {
	txn := s.db.ReadTxn()
	if s.cursor == nil {
		s.cursor = s.table.Changes(0)
	}
	for range s.cursor.Next(txn) {
		n++
	}
	return n
}
