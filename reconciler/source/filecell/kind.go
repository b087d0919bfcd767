package filecell

import (
	"fmt"

	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/reconciler/source/file"
	"github.com/statehive/statehive/statedb"
)

// Kind declares a kind of document, in the module that has the *statedb.RWTable of its rows
// (see dbcell.Protected), which is used as c.Table. From then on the table belongs to the
// documents. A hive without [Cell], in which nothing reads them into the table, does not
// start: otherwise the table would be empty, and everything that earlier runs made
// would be removed. If c is wrong, the start fails with the error of [file.NewKind].
func Kind[Obj any](c file.KindConfig[Obj]) cell.Cell {
	return cell.Group(
		cell.Provide(func(table *statedb.RWTable[Obj]) (kindOut, error) {
			c.Table = table
			k, err := file.NewKind(c)
			return kindOut{Kind: k}, err
		}),
		cell.Invoke(func(p fed[Obj]) error { return p.check(c.Name) }),
	)
}

// kindOut contributes a kind to what the source reads.
type kindOut struct {
	cell.Out
	Kind file.Kind `group:"document-kinds"`
}

// fed is what a table and the source of its documents are known by.
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
