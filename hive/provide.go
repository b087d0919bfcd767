package hive

import (
	"log/slog"
	"slices"
	"strconv"

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
	var outermost []string
	for _, id := range h.graph.ModuleIDs() {
		outermost = append(outermost, string(id))
	}
	id := settingsHealth
	if slices.Contains(outermost, id) {
		id = strconv.Quote(id)
	}
	r, err := health.NewRegistry(db, logger, append(outermost, id)...)
	h.reloads.registry, h.reloads.healthID = r, id
	return r, err
}

// perModule returns the constructors that are called separately for each module.
func (h *Hive) perModule() []any {
	return []any{newModuleHealth, h.newGroup, h.newSubLifecycles}
}

func newModuleHealth(id cell.FullModuleID, r *health.Registry) (health.Health, error) {
	return r.Scope(string(id))
}

// newGroup returns the group of a module. Its hooks have an order of their own, which a decorated lifecycle would not know.
func (h *Hive) newGroup(p job.Params) job.Group {
	p.Lifecycle = h.lifecycle.For(p.ID)
	return job.NewGroup(p)
}
