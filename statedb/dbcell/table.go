package dbcell

import (
	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/statedb"
)

// Protected creates a table in the hive's database. The module that the cell stands in, and those nested in it, get it as
// *statedb.RWTable[Obj]; all others get *statedb.Table[Obj], which cannot write. It exists once the hive is constructed, also when
// nobody asks for it. A wrong schema is an error of the construction that matches [statedb.ErrSchema].
//
// Tables are told apart by their row types: a hive has at most one table of each.
func Protected[Obj any](schema statedb.Schema[Obj]) cell.Cell {
	return cell.Group(cell.ProvidePrivate(create(schema)), readable[Obj]())
}

// Open is [Protected] with the *statedb.RWTable[Obj] for everyone.
func Open[Obj any](schema statedb.Schema[Obj]) cell.Cell {
	return cell.Group(cell.Provide(create(schema)), readable[Obj]())
}

func create[Obj any](schema statedb.Schema[Obj]) func(*statedb.DB) (*statedb.RWTable[Obj], error) {
	return func(db *statedb.DB) (*statedb.RWTable[Obj], error) { return statedb.NewTable(db, schema) }
}

func readable[Obj any]() cell.Cell {
	return cell.Group(
		cell.Provide(statedb.ReadOnly[Obj]),
		cell.Invoke(func(*statedb.Table[Obj]) {}), // also for those who only look at it by name
	)
}
