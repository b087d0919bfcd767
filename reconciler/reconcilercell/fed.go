package reconcilercell

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/statehive/statehive/hive"
	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/statedb"
)

type fedParams[Obj any] struct {
	cell.In

	Module cell.FullModuleID
	Hive   hive.Inspector
	DB     *statedb.DB
	Table  *statedb.RWTable[Obj]
}

// checkFed returns an error if nothing in the hive can write the table of a reconciler. The table would stay empty and, without a
// source, count as complete, so that everything that earlier runs have made would be removed from the target.
func checkFed[Obj any](p fedParams[Obj]) error {
	table, err := p.DB.Table(p.DB.ReadTxn(), p.Table.Name())
	if err == nil && table.Writable(p.DB.ReadTxn()) == nil {
		return nil
	}
	for _, m := range p.Hive.Describe().Cells.Modules {
		if slices.ContainsFunc(m.Functions, feeds[Obj]) {
			return nil
		}
	}
	return fmt.Errorf("module %q: nothing feeds table %q, so its reconciler would remove everything from the target: add the cell that "+
		"writes the table, such as filecell.Kind, or let the table be written by name; if functions given to Hive.Invoke write it, call it "+
		"before the start, or declare them by cell.InvokedLater", p.Module, p.Table.Name())
}

// feeds reports whether a function gets the writer of a table for another purpose than to make its reconciler or its reader.
func feeds[Obj any](f cell.FunctionDescription) bool {
	name := func(t reflect.Type) string { return t.String() }
	return slices.Contains(f.Needs, name(reflect.TypeFor[*statedb.RWTable[Obj]]())) &&
		!slices.Contains(f.Provides, name(reflect.TypeFor[*statedb.Table[Obj]]())) &&
		!slices.Contains(f.Provides, name(reflect.TypeFor[*reconciler.Reconciler[Obj]]())) &&
		!slices.Contains(f.Needs, name(reflect.TypeFor[hive.Inspector]()))
}
