package reconcilercell

import (
	"cmp"
	"context"
	"iter"
	"log/slog"
	"slices"
	"time"

	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/health"
	"github.com/statehive/statehive/hive/job"
	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/statedb"
)

// Register adds a reconciler to the enclosing module. It has the name of its table.
// The module provides the target as reconciler.Target[Obj] and has the
// writer of the table (see dbcell.Protected); both may be private to it, and so
// may a reconciler.Config and a [Relations], which are optional. The
// *reconciler.Reconciler[Obj] is provided to the hive. It runs as a job of the
// module, "reconciler-" followed by its name, and reports its health as the job's.
// A [Memory] may be in the hive, and
// [Cell] must be. The hive does not start if nothing else gets the writer
// of the table and the table cannot be written by name: it would be empty, and
// everything that earlier runs made would be removed. A function that gets the writer
// from Hive.Invoke counts if Invoke is called before the start; otherwise declare it
// with cell.InvokedLater.
//
// All reconcilers of a hive form one reconciler.Group: dependents of a row are
// deleted before it, and a hive whose tables depend on each other in a cycle cannot
// be built.
//
// Names of reconcilers are unique in a hive. A module may have several reconcilers,
// of different row types.
func Register[Obj reconciler.Reconcilable[Obj]]() cell.Cell {
	field := reconciler.StatusField[Obj]{Get: Obj.GetStatus, Set: Obj.WithStatus}
	return cell.Group(
		cell.Provide(build("", field)),
		cell.Invoke(func(*reconciler.Reconciler[Obj]) {}, checkFed[Obj]),
	)
}

// RegisterWithStatus is like [Register] for a reconciler with a name of its own that
// keeps its status in the given field of the row, so that several can share a table:
// see [reconciler.StatusSet]. Each reconciler of a shared table needs a module of its
// own, nested in the module that has the writer of the table. The
// *reconciler.Reconciler[Obj] is provided to its module only.
func RegisterWithStatus[Obj any](name string, field reconciler.StatusField[Obj]) cell.Cell {
	return cell.Group(
		cell.ProvidePrivate(build(name, field)),
		cell.Invoke(func(*reconciler.Reconciler[Obj]) {}, checkFed[Obj]),
	)
}

// Relations declare what else causes rows to be applied, besides their own changes:
// mostly other tables. A module provides them along with its target, in a constructor
// that takes the other tables:
//
//	cell.ProvidePrivate(func(links *statedb.Table[Link]) reconcilercell.Relations[Route] {
//		return reconcilercell.Relations[Route]{DependsOn: []reconciler.Dependency[Route]{
//			reconciler.DependsOn(links, Link.GetStatus, linksOf),
//		}}
//	})
//
// The fields are described at [reconciler.Params]. All are optional. The deletes of tables whose names are in the group "declared-tables",
// as those of documents are, come last: see DeletesLast there.
type Relations[Obj any] struct {
	Related       []reconciler.Related[Obj]
	DependsOn     []reconciler.Dependency[Obj]
	DeletedBefore []reconciler.Dependency[Obj]
	DeletedAfter  []reconciler.Dependency[Obj] // other modules add to them with the group "deleted-after"
	Replaces      func(txn statedb.ReadTxn, row Obj) (was Obj, replaced bool)
	Observed      reconciler.Observation[Obj]
	RemovedFirst  func(txn statedb.ReadTxn, was Obj) iter.Seq[statedb.Query[Obj]]
	Removes       func(txn statedb.ReadTxn, was Obj) (is Obj, removes bool)

	RefreshInterval func(Obj) time.Duration
}

// Memory returns the memory of the reconciler with the given name. Provide one to the hive
// to have deletes that are held stay so when the process is restarted.
type Memory func(name string) reconciler.Memory

type params[Obj any] struct {
	cell.In

	Module    cell.FullModuleID
	DB        *statedb.DB
	Table     *statedb.RWTable[Obj]
	Target    reconciler.Target[Obj]
	Config    reconciler.Config `optional:"true"`
	Relations Relations[Obj]    `optional:"true"`
	Memory    Memory            `optional:"true"`
	Default   Config
	NotDone   *statedb.RWTable[reconciler.NotDone]
	Registry  *registry
	Origins   []func(table, key string) string `group:"row-origins"`
	Declared  []string                         `group:"declared-tables"`
	After     []reconciler.Dependency[Obj]     `group:"deleted-after"`
	Jobs      job.Group
	Logger    *slog.Logger
}

func build[Obj any](name string, field reconciler.StatusField[Obj]) func(params[Obj]) (*reconciler.Reconciler[Obj], error) {
	return func(p params[Obj]) (*reconciler.Reconciler[Obj], error) {
		h := &reporter{}
		name := cmp.Or(name, p.Table.Name())
		if err := p.Registry.free(name); err != nil {
			return nil, err
		}
		var memory reconciler.Memory
		if p.Memory != nil {
			memory = p.Memory(name)
		}
		r, err := reconciler.NewWithStatus(reconciler.Params[Obj]{
			Name:            name,
			DB:              p.DB,
			Table:           p.Table,
			Target:          p.Target,
			Config:          p.Default.completed(p.Config),
			Related:         p.Relations.Related,
			DependsOn:       p.Relations.DependsOn,
			DeletedBefore:   p.Relations.DeletedBefore,
			DeletedAfter:    slices.Concat(p.Relations.DeletedAfter, p.After),
			DeletesLast:     slices.Contains(p.Declared, p.Table.Name()),
			RemovedFirst:    p.Relations.RemovedFirst,
			Removes:         p.Relations.Removes,
			Replaces:        p.Relations.Replaces,
			Observed:        p.Relations.Observed,
			RefreshInterval: p.Relations.RefreshInterval,
			Group:           &p.Registry.group,
			Memory:          memory,
			NotDone:         p.NotDone,
			Origin:          firstOf(p.Origins),
			Logger:          p.Logger,
			Health:          h,
		}, field)
		if err != nil {
			return nil, err
		}
		p.Registry.add(instance{module: p.Module, health: h, handle: typed[Obj]{r, statedb.ReadOnly(p.Table), field.Get}})
		return r, p.Jobs.Add(job.OneShot("reconciler-"+name, func(ctx context.Context, jobHealth health.Health) error {
			h.begin(jobHealth)
			return r.Run(ctx)
		}))
	}
}

// firstOf returns a function that returns the first result that is not empty.
func firstOf(origins []func(table, key string) string) func(table, key string) string {
	return func(table, key string) string {
		for _, origin := range origins {
			if text := origin(table, key); text != "" {
				return text
			}
		}
		return ""
	}
}

// instance is a reconciler of a hive.
type instance struct {
	handle

	module cell.FullModuleID
	health *reporter
}
