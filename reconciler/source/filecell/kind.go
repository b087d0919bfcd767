package filecell

import (
	"fmt"

	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/reconciler/source/file"
	"github.com/statehive/statehive/statedb"
)

// Kind declares a kind of document, in the module that has the *statedb.RWTable of its rows
// (see dbcell.Protected), which is used as c.Table. From then on only documents should write
// the table. A hive without [Cell] does not start, because the table would stay empty and
// everything that earlier runs have made would be removed. If c is invalid, the start fails
// with the error of [file.NewKind].
func Kind[Obj any](c file.KindConfig[Obj]) cell.Cell {
	return cell.Group(
		cell.Provide(func(table *statedb.RWTable[Obj]) (kindOut, error) {
			c.Table = table
			k, err := file.NewKind(c)
			return kindOut{Kind: k, Declared: table.Name()}, err
		}),
		cell.Invoke(func(p fed[Obj]) error { return p.check(c.Name) }),
	)
}

// kindOut contributes a kind to the source, and its table to those whose deletes come last.
type kindOut struct {
	cell.Out
	Kind     file.Kind `group:"document-kinds"`
	Declared string    `group:"declared-tables"`
}

// fed has the parameters of the check that a source feeds the table of a kind.
type fed[Obj any] struct {
	cell.In

	Table  *statedb.RWTable[Obj]
	Source *file.Source `optional:"true"`
}

func (p fed[Obj]) check(kind string) error {
	if p.Source != nil && p.Source.Feeds(p.Table) {
		return nil
	}
	return fmt.Errorf("kind %q: nothing reads its documents into table %q: the cell filecell.Cell is missing", kind, p.Table.Name())
}
