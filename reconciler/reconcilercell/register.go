package reconcilercell

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/health"
	"github.com/statehive/statehive/hive/job"
	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/statedb"
)

// Register puts a reconciler into the module around it, which is called like its
// table. The module provides the target as reconciler.Target[Obj] and has the
// writer of the table (see dbcell.Protected); both may be private to it, and so
// may a reconciler.Config and a [Relations], which are optional. The
// *reconciler.Reconciler[Obj] is provided to the hive. It runs as a job of the
// module, "reconciler-" with its name, and its health is that job's. [Cell] must be
// in the hive. A hive in which nothing else gets the writer of the table, and which
// is not written by name, does not start: the table would be empty, and everything
// that earlier runs made would be removed. A function that gets the writer from
// Hive.Invoke counts if that is called before the start; one that gets it later is
// declared by cell.InvokedLater.
//
// All reconcilers of a hive are one reconciler.Group: what depends on a row is
// deleted before it, and a hive whose tables depend on each other in a cycle is
// not built.
//
// Names of reconcilers are unique in a hive. A module may have several, of
// different rows.
func Register[Obj reconciler.Reconcilable[Obj]]() cell.Cell {
	field := reconciler.StatusField[Obj]{Get: Obj.GetStatus, Set: Obj.WithStatus}
	return cell.Group(
		cell.Provide(build("", field)),
		cell.Invoke(func(*reconciler.Reconciler[Obj]) {}, checkFed[Obj]),
	)
}

// RegisterWithStatus is [Register] of a reconciler with a name of its own, which
// keeps its status in a field of the row, so that several can share a table: see
// [reconciler.StatusSet]. Those of one table need modules of their own, nested in
// the one that has the writer of the table, and the *reconciler.Reconciler[Obj] is
// provided to its module only.
func RegisterWithStatus[Obj any](name string, field reconciler.StatusField[Obj]) cell.Cell {
	return cell.Group(
		cell.ProvidePrivate(build(name, field)),
		cell.Invoke(func(*reconciler.Reconciler[Obj]) {}, checkFed[Obj]),
	)
}

// Relations are what has rows applied besides their own changes, mostly other
// tables. A module provides it beside its target, by a constructor that takes the
// other tables:
//
//	cell.ProvidePrivate(func(links *statedb.Table[Link]) reconcilercell.Relations[Route] {
//		return reconcilercell.Relations[Route]{DependsOn: []reconciler.Dependency[Route]{
//			reconciler.DependsOn(links, Link.GetStatus, linksOf),
//		}}
//	})
//
// The fields are those of [reconciler.Params], and may be left out.
type Relations[Obj any] struct {
	Related   []reconciler.Related[Obj]
	DependsOn []reconciler.Dependency[Obj]
	Observed  reconciler.Observation[Obj]

	RefreshInterval func(Obj) time.Duration
}

type params[Obj any] struct {
	cell.In

	Module    cell.FullModuleID
	DB        *statedb.DB
	Table     *statedb.RWTable[Obj]
	Target    reconciler.Target[Obj]
	Config    reconciler.Config `optional:"true"`
	Relations Relations[Obj]    `optional:"true"`
	Default   Config
	NotDone   *statedb.RWTable[reconciler.NotDone]
	Registry  *registry
	Origins   []func(table, key string) string `group:"row-origins"`
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
		r, err := reconciler.NewWithStatus(reconciler.Params[Obj]{
			Name:            name,
			DB:              p.DB,
			Table:           p.Table,
			Target:          p.Target,
			Config:          p.Default.completed(p.Config),
			Related:         p.Relations.Related,
			DependsOn:       p.Relations.DependsOn,
			Observed:        p.Relations.Observed,
			RefreshInterval: p.Relations.RefreshInterval,
			Group:           &p.Registry.group,
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
