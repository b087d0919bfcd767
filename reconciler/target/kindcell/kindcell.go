// Package kindcell adds a kind to a hive: its table, its reconciler, the table of
// its observed state, and its documents. The built-in kinds use it, and your own
// can, too: Documentation/kinds.md goes through an example. Package linkcell has a
// kind with an observed table, sysctlcell one without.
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
	"github.com/statehive/statehive/reconciler/target/dryrun"
	"github.com/statehive/statehive/reconciler/target/dryrun/dryruncell"
	"github.com/statehive/statehive/reconciler/target/mirror"
	"github.com/statehive/statehive/statedb"
	"github.com/statehive/statehive/statedb/dbcell"
)

// Kind is a kind of document and the rows that documents become. All fields are
// required, except Filter and Transform.
type Kind[Obj reconciler.Reconcilable[Obj]] struct {
	// Name is the value of the field "kind" in documents, and the name of the module.
	Name string
	// Title describes the rows in a few words, such as "network links".
	Title string
	// KeyField is the field to point at when two documents have the same key.
	KeyField string
	// Schema declares the table. Only the module writes it.
	Schema statedb.Schema[Obj]
	// Default returns the row with the values of fields that a document leaves out.
	Default func() Obj
	// Normalized checks a row and returns it in the form in which it is stored. Errors
	// about a field are of type *reconciler.FieldError.
	Normalized func(Obj) (Obj, error)
	// Filter and Transform, if set, choose and change the rows of documents before they are
	// stored, as in [file.KindConfig]. [file.SetFilter] replaces the filter at run time.
	Filter    func(Obj) bool
	Transform func(Obj) (Obj, error)
}

// Cell returns the module of a kind. The contents provide a reconciler.Target[Obj]
// and, if the rows are related to others or observed, a reconcilercell.Relations[Obj].
//
// Documents of the kind can then be validated, have a JSON Schema and, if the cell of
// package dryruncell is in the hive, can be compared with the system before they are
// applied. For the comparison the target is created in a process that starts nothing, so its
// constructor must not write: see dryruncell.Mode.
func Cell[Obj reconciler.Reconcilable[Obj]](k Kind[Obj], contents ...cell.Cell) cell.Cell {
	return cell.Module(k.Name, k.Title,
		dbcell.Protected(k.Schema),
		cell.Group(contents...),
		reconcilercell.Register[Obj](),
		filecell.Kind(file.KindConfig[Obj]{
			Name: k.Name, Title: k.Title, KeyField: k.KeyField, Default: k.Default, Normalized: k.Normalized,
			Filter: k.Filter, Transform: k.Transform,
		}),
		cell.Provide(k.compared, explained[Obj]),
	)
}

// comparedParams are needed to compare documents of a kind with the system. None of
// them is started.
type comparedParams[Obj reconciler.Reconcilable[Obj]] struct {
	cell.In

	Table     *statedb.Table[Obj]
	Target    reconciler.Target[Obj]
	Relations reconcilercell.Relations[Obj] `optional:"true"`
}

func (k Kind[Obj]) compared(p comparedParams[Obj]) (dryruncell.KindOut, error) {
	kind, err := dryrun.NewKind(dryrun.Config[Obj]{
		Name: k.Name, Schema: k.Schema, Table: p.Table, Target: p.Target, DependsOn: p.Relations.DependsOn,
	})
	return dryruncell.KindOut{Kind: kind}, err
}

func explained[Obj reconciler.Reconcilable[Obj]](table *statedb.Table[Obj], r *reconciler.Reconciler[Obj]) dryruncell.StateOut {
	return dryruncell.StateOut{Explainer: dryruncell.Explainer{Table: table.Name(), Explain: r.Explain}}
}

// Mirror keeps a table in step with the system until ctx ends. The mirrors of package
// mirror implement it.
type Mirror = dryruncell.Mirror

// Observed returns a cell with a table that a mirror of type M keeps while the hive
// runs. The module provides the mirror, whose constructor can have the
// *statedb.RWTable[Seen] as a parameter. The mirror is created before anything runs, because
// a table without a source would be taken for complete.
func Observed[M Mirror, Seen any](schema statedb.Schema[Seen]) cell.Cell {
	return cell.Group(
		dbcell.Protected(schema),
		cell.Provide(func(m M) dryruncell.MirrorOut { return dryruncell.MirrorOut{Mirror: m} }),
		cell.Invoke(func(m M, jobs job.Group) error {
			return jobs.Add(job.OneShot(schema.Name, func(ctx context.Context, health health.Health) error { return m.Run(ctx, health) }))
		}),
	)
}

// Unrecorded returns a cell with a job whose health is degraded while objects carry our mark
// and have no record. The module provides a mirror.Unrecorded[Seen].
func Unrecorded[Seen any]() cell.Cell {
	return cell.Invoke(func(u mirror.Unrecorded[Seen], jobs job.Group) error {
		return jobs.Add(job.OneShot("unrecorded", func(ctx context.Context, health health.Health) error { return u.Run(ctx, health) }))
	})
}

// Closed closes a target when the hive stops. It is meant to wrap a constructor: if err
// is not nil, it only returns err.
func Closed[T io.Closer](l cell.Lifecycle, target T, err error) (T, error) {
	if err == nil {
		l.Append(cell.Hook{Name: "kernel connection", OnStop: func(context.Context) error { return target.Close() }})
	}
	return target, err
}
