// Package managedfilecell adds the kind "file" to a hive.
package managedfilecell

import (
	"context"
	"log/slog"

	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/health"
	"github.com/statehive/statehive/hive/job"
	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/reconcilercell"
	"github.com/statehive/statehive/reconciler/target/kindcell"
	"github.com/statehive/statehive/reconciler/target/managedfile"
	"github.com/statehive/statehive/reconciler/target/ownership"
	"github.com/statehive/statehive/statedb"
)

// Cell returns the module. It needs an *ownership.Store. Templates read all tables of the
// hive's database. allow is managedfile.Config.Allow.
func Cell(allow func(path string) error) cell.Cell {
	return kindcell.Cell(
		kindcell.Kind[managedfile.File]{
			Name: "file", Title: "managed files", KeyField: "path",
			Schema: managedfile.Schema(), Default: managedfile.Default, Normalized: managedfile.File.Normalized,
		},
		cell.ProvidePrivate(
			func(owned *ownership.Store, db *statedb.DB, logger *slog.Logger) (*managedfile.Target, error) {
				return managedfile.New(managedfile.Config{Owned: owned, DB: db, Allow: allow, Logger: logger})
			},
			func(t *managedfile.Target) reconciler.Target[managedfile.File] { return t },
			(*managedfile.Target).NewWatcher,
			(*managedfile.Target).Observed,
			func(t *managedfile.Target, seen reconciler.Observation[managedfile.File]) reconcilercell.Relations[managedfile.File] {
				return reconcilercell.Relations[managedfile.File]{
					Related:  []reconciler.Related[managedfile.File]{t.Related()},
					Observed: seen,
				}
			}),
		kindcell.Observed[*managedfile.Watcher](managedfile.SeenSchema()),
		cell.Invoke(func(t *managedfile.Target, jobs job.Group) error {
			return jobs.Add(job.OneShot("templates", func(ctx context.Context, health health.Health) error {
				return t.FollowTables(ctx, health)
			}))
		}),
	)
}
