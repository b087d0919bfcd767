package reconcilercell

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/health"
	"github.com/statehive/statehive/hive/job"
	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/statedb"
)

// Register puts a reconciler into the module around it; a module has one at
// most. The module provides the target as reconciler.Target[Obj] and has the
// writer of the table (see dbcell.Protected); both may be private to it, and so
// may a reconciler.Config, which is optional. The *reconciler.Reconciler[Obj] is
// provided to the hive. It runs as a job of the module, and its health is that
// job's. [Cell] must be in the hive.
func Register[Obj reconciler.Reconcilable[Obj]]() cell.Cell {
	return cell.Group(
		cell.Provide(build[Obj]),
		cell.Invoke(func(*reconciler.Reconciler[Obj]) {}),
	)
}

type params[Obj any] struct {
	cell.In

	Module  cell.FullModuleID
	DB      *statedb.DB
	Table   statedb.RWTable[Obj]
	Target  reconciler.Target[Obj]
	Config  reconciler.Config `optional:"true"`
	Default Config
	NotDone statedb.RWTable[reconciler.NotDone]
	Metrics *collectors
	Jobs    job.Group
	Logger  *slog.Logger
}

type result[Obj reconciler.Reconcilable[Obj]] struct {
	cell.Out

	Reconciler *reconciler.Reconciler[Obj]
	Instance   instance `group:"reconcilers"`
}

func build[Obj reconciler.Reconcilable[Obj]](p params[Obj]) (result[Obj], error) {
	if p.Config.FullInterval == 0 {
		p.Config.FullInterval = p.Default.FullInterval
	}
	h := &reporter{}
	r, err := reconciler.New(reconciler.Params[Obj]{
		DB:      p.DB,
		Table:   p.Table,
		Target:  p.Target,
		Config:  p.Config,
		NotDone: p.NotDone,
		Logger:  p.Logger,
		Health:  h,
		Metrics: p.Metrics.of(p.Module, p.Table.Name()),
	})
	if err != nil {
		return result[Obj]{}, err
	}
	err = p.Jobs.Add(job.OneShot("reconciler", func(ctx context.Context, jobHealth health.Health) error {
		h.begin(jobHealth)
		return r.Run(ctx)
	}))
	if errors.Is(err, health.ErrDuplicate) {
		err = fmt.Errorf("reconciler %q needs a module of its own, %q has one already: %w", r.Name(), p.Module, err)
	}
	return result[Obj]{Reconciler: r, Instance: instance{module: p.Module, reconciler: r, health: h}}, err
}

// instance is a running reconciler, whatever its rows.
type instance struct {
	module     cell.FullModuleID
	reconciler interface {
		Summary(txn statedb.ReadTxn) reconciler.Summary
	}
	health *reporter
}
