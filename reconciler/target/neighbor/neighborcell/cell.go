// Package neighborcell adds the kind "neighbor" to a hive.
package neighborcell

import (
	"context"
	"time"

	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/health"
	"github.com/statehive/statehive/hive/job"
	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/reconcilercell"
	"github.com/statehive/statehive/reconciler/target/kindcell"
	"github.com/statehive/statehive/reconciler/target/link"
	"github.com/statehive/statehive/reconciler/target/link/linkcell"
	"github.com/statehive/statehive/reconciler/target/neighbor"
	"github.com/statehive/statehive/statedb"
)

// Cell returns the module. It needs the module of package linkcell.
func Cell() cell.Cell {
	return kindcell.Cell(
		kindcell.Kind[neighbor.Neighbor]{
			Name: "neighbor", Title: "permanent neighbors of network links", KeyField: "address",
			Schema: neighbor.Schema(), Default: neighbor.Default, Normalized: neighbor.Neighbor.Normalized,
		},
		cell.ProvidePrivate(
			job.NewTrigger,
			func(
				check linkcell.Check, renamed *job.Trigger, rows *statedb.Table[neighbor.Neighbor], l cell.Lifecycle,
			) (*neighbor.Target, error) {
				t, err := neighbor.New(neighbor.Config{Allowed: check, Renamed: renamed.Trigger, Rows: rows})
				return kindcell.Closed(l, t, err)
			},
			func(t *neighbor.Target) reconciler.Target[neighbor.Neighbor] { return t },
			(*neighbor.Target).NewMirror,
			func(
				devices link.Devices, seen *statedb.Table[neighbor.Seen],
			) reconcilercell.Relations[neighbor.Neighbor] {
				return reconcilercell.Relations[neighbor.Neighbor]{
					DependsOn: []reconciler.Dependency[neighbor.Neighbor]{
						link.DependsOn(devices, func(n neighbor.Neighbor) string { return n.Device }),
					},
					Observed: neighbor.Observed(seen),
				}
			}),
		kindcell.Observed[neighbor.Mirror](neighbor.SeenSchema()),
		cell.Invoke(func(renamed *job.Trigger, r *reconciler.Reconciler[neighbor.Neighbor], jobs job.Group) error {
			return jobs.Add(job.Timer("renames", func(context.Context, health.Health) error {
				r.FullPass()
				return nil
			}, 0, job.WithTrigger(renamed), job.WithDebounce(time.Second)))
		}),
	)
}
