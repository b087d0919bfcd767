package symlink

import (
	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/reconciler/target/kindcell"
)

// Cell returns the module of the kind "symlink". It needs an *ownership.Store.
func Cell() cell.Cell {
	return kindcell.Cell(
		kindcell.Kind[Symlink]{
			Name: "symlink", Title: "symbolic links", KeyField: "path",
			Schema: Schema(), Default: func() Symlink { return Symlink{} }, Normalized: Symlink.Normalized,
		},
		cell.ProvidePrivate(newTarget),
	)
}
