// Package kindcell puts a kind into a hive: its table, its reconciler, the table of
// what is observed of it, and its documents. The built-in kinds use it, and so can
// anybody else's: see package linkcell for a kind with an observed table, and
// sysctlcell for one without.
package kindcell

import (
	"context"
	"io"

	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/health"
	"github.com/statehive/statehive/hive/job"
	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/reconcilercell"
	"github.com/statehive/statehive/reconciler/source/file"
	"github.com/statehive/statehive/reconciler/source/filecell"
	"github.com/statehive/statehive/statedb"
	"github.com/statehive/statehive/statedb/dbcell"
)

// Kind is a kind of document and the rows that are made of it. All fields are
// required, except Filter and Transform.
type Kind[Obj reconciler.Reconcilable[Obj]] struct {
	// Name is what a document gives as its kind; it names the module too.
	Name string
	// Title says in a few words what the rows are.
	Title string
	// KeyField is the field that is pointed at when two documents have one key.
	KeyField string
	// Schema declares the table. Only the module writes it.
	Schema statedb.Schema[Obj]
	// Default returns what the missing fields of a document mean.
	Default func() Obj
	// Normalized checks a row and returns it as it is stored. Its errors are of type
	// *reconciler.FieldError where a field is to blame.
	Normalized func(Obj) (Obj, error)
	// Filter and Transform, if set, choose and change the rows of documents before they are
	// stored, as in [file.KindConfig]. [file.SetFilter] replaces the filter at run time.
	Filter    func(Obj) bool
	Transform func(Obj) (Obj, error)
}

// Cell returns the module of a kind. The contents provide a reconciler.Target[Obj]
// and, if the rows are related to others or observed, a reconcilercell.Relations[Obj].
func Cell[Obj reconciler.Reconcilable[Obj]](k Kind[Obj], contents ...cell.Cell) cell.Cell {
	return cell.Module(k.Name, k.Title,
		dbcell.Protected(k.Schema),
		cell.Group(contents...),
		reconcilercell.Register[Obj](),
		filecell.Kind(file.KindConfig[Obj]{
			Name: k.Name, KeyField: k.KeyField, Default: k.Default, Normalized: k.Normalized, Filter: k.Filter, Transform: k.Transform,
		}),
	)
}

// Mirror keeps a table as the system is, until ctx ends. The mirrors of package mirror
// are such.
type Mirror interface {
	Run(ctx context.Context, health reconciler.Health) error
}

// Observed returns a cell with a table that a mirror of type M, which the module
// provides, keeps while the hive runs. The mirror is made before anything runs: a table
// without a source would be taken for complete.
func Observed[M Mirror, Seen any](schema statedb.Schema[Seen]) cell.Cell {
	return cell.Group(
		dbcell.Protected(schema),
		cell.Invoke(func(m M, jobs job.Group) error {
			return jobs.Add(job.OneShot(schema.Name, func(ctx context.Context, health health.Health) error { return m.Run(ctx, health) }))
		}),
	)
}

// Closed has a target closed when the hive stops. It is meant to wrap a constructor:
// with an error it does nothing but return it.
func Closed[T io.Closer](l cell.Lifecycle, target T, err error) (T, error) {
	if err == nil {
		l.Append(cell.Hook{Name: "kernel connection", OnStop: func(context.Context) error { return target.Close() }})
	}
	return target, err
}
