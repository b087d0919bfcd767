package dbcell

import (
	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/statedb"
)

// Protected creates a table in the hive's database. The module of the cell, and modules nested in it, get the table as
// *statedb.RWTable[Obj]; all others get *statedb.Table[Obj], which cannot write. The table exists once the hive is constructed, even
// if nothing depends on it. An invalid schema is an error of the construction that matches [statedb.ErrSchema].
//
// Tables are identified by their row types: a hive has at most one table of each.
func Protected[Obj any](schema statedb.Schema[Obj]) cell.Cell {
	return cell.Group(cell.ProvidePrivate(create(schema)), readable[Obj]())
}

// Open is like [Protected], but provides the *statedb.RWTable[Obj] to all modules.
func Open[Obj any](schema statedb.Schema[Obj]) cell.Cell {
	return cell.Group(cell.Provide(create(schema)), readable[Obj]())
}

func create[Obj any](schema statedb.Schema[Obj]) func(*statedb.DB) (*statedb.RWTable[Obj], error) {
	return func(db *statedb.DB) (*statedb.RWTable[Obj], error) { return statedb.NewTable(db, schema) }
}

func readable[Obj any]() cell.Cell {
	return cell.Group(
		cell.Provide(statedb.ReadOnly[Obj]),
		cell.Invoke(func(*statedb.Table[Obj]) {}), // even if it is only used by name
	)
}
