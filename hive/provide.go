package hive

import (
	"log/slog"

	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/health"
	"github.com/statehive/statehive/hive/internal/lifecycle"
	"github.com/statehive/statehive/hive/job"
	"github.com/statehive/statehive/statedb"
)

// own returns the cells that every hive has.
func (h *Hive) own() cell.Cell {
	return cell.Group(
		cell.Config(configFile{}),
		cell.Provide(
			func() *statedb.DB { return statedb.New(statedb.WithLogger(h.options.Logger)) },
			h.newHealth,
			(*health.Registry).Table,
			job.NewRegistry,
			(*job.Registry).Table,
			func() *lifecycle.Lifecycle { return h.lifecycle },
			func() Shutdowner { return h.shutdown },
			func() *Reloads { return h.reloads },
			h.Info,
			h.newReadiness,
			func() Inspector { return inspector{h} },
		),
	)
}

func (h *Hive) newHealth(db *statedb.DB, logger *slog.Logger) (*health.Registry, error) {
	modules := []string{settingsHealth}
	for _, id := range h.graph.ModuleIDs() {
		modules = append(modules, string(id))
	}
	r, err := health.NewRegistry(db, logger, modules...)
	h.reloads.registry = r
	return r, err
}

// perModule returns the constructors that are called separately for each module.
func (h *Hive) perModule() []any {
	return []any{newModuleHealth, job.NewGroup, h.newSubLifecycles}
}

func newModuleHealth(id cell.FullModuleID, r *health.Registry) (health.Health, error) {
	return r.Scope(string(id))
}
