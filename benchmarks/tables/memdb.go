package tables

import (
	"fmt"

	"github.com/hashicorp/go-memdb"
)

type memDB struct {
	db    *memdb.MemDB
	table string
}

func newMemDB(secondaries, tables int) (Store, error) {
	schema := &memdb.DBSchema{Tables: map[string]*memdb.TableSchema{}}
	name := ""
	for i := range tables {
		name = fmt.Sprintf("rows-%d", i)
		schema.Tables[name] = memTable(name, secondaries)
	}
	db, err := memdb.NewMemDB(schema)
	return &memDB{db, name}, err
}

func memTable(name string, secondaries int) *memdb.TableSchema {
	index := func(name, field string) *memdb.IndexSchema {
		return &memdb.IndexSchema{Name: name, Unique: name == "id", Indexer: &memdb.StringFieldIndex{Field: field}}
	}
	table := &memdb.TableSchema{Name: name, Indexes: map[string]*memdb.IndexSchema{"id": index("id", "ID")}}
	for i, field := range []string{"Group", "Zone", "Owner"} {
		if i < secondaries {
			table.Indexes[field] = index(field, field)
		}
	}
	return table
}

func (m *memDB) Write(rows []Row) error {
	txn := m.db.Txn(true)
	defer txn.Abort()
	for _, row := range rows {
		if err := txn.Insert(m.table, &row); err != nil {
			return err
		}
	}
	txn.Commit()
	return nil
}

func (m *memDB) Modify(rows []Row) error {
	txn := m.db.Txn(true)
	defer txn.Abort()
	for _, row := range rows {
		old, err := txn.First(m.table, "id", row.ID)
		if err != nil {
			return err
		}
		if old == nil {
			return fmt.Errorf("no row %s", row.ID)
		}
		next := *old.(*Row)
		next.Version++
		if err := txn.Insert(m.table, &next); err != nil {
			return err
		}
	}
	txn.Commit()
	return nil
}

// Swap is Modify: there is no compare-and-swap, and who holds the lock for writing
// needs none.
func (m *memDB) Swap(rows []Row) error { return m.Modify(rows) }

func (m *memDB) Get(id string) bool {
	row, err := m.db.Txn(false).First(m.table, "id", id)
	return err == nil && row != nil
}

func (m *memDB) List(group string) int {
	return m.count("Group", group, func(r *Row) bool { return r.Group == group })
}

func (m *memDB) All() int { return m.count("id", nil, func(r *Row) bool { return r.ID != "" }) }

func (m *memDB) count(index string, key any, matches func(*Row) bool) (n int) {
	var args []any
	if key != nil {
		args = append(args, key)
	}
	it, err := m.db.Txn(false).Get(m.table, index, args...)
	if err != nil {
		return -1
	}
	for row := it.Next(); row != nil; row = it.Next() {
		if r, ok := row.(*Row); ok && matches(r) {
			n++
		}
	}
	return n
}

func (m *memDB) Empty() error {
	m.db.Txn(true).Commit()
	return nil
}
