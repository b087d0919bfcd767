// Package rulecell adds the kind "rule" to a hive.
package rulecell

import (
	"context"

	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/health"
	"github.com/statehive/statehive/hive/job"
	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/reconcilercell"
	"github.com/statehive/statehive/reconciler/target/kindcell"
	"github.com/statehive/statehive/reconciler/target/link"
	"github.com/statehive/statehive/reconciler/target/route"
	"github.com/statehive/statehive/reconciler/target/rule"
	"github.com/statehive/statehive/statedb"
)

// Cell returns the module. It needs the modules of packages linkcell and routecell.
func Cell() cell.Cell {
	return kindcell.Cell(
		kindcell.Kind[rule.Rule]{
			Name: "rule", Title: "policy routing rules", KeyField: "priority",
			Schema: rule.Schema(), Default: rule.Default, Normalized: rule.Rule.Normalized,
		},
		cell.ProvidePrivate(
			func(l cell.Lifecycle, devices link.Devices) (*rule.Target, error) {
				t, err := rule.New(rule.Config{ProperName: devices.ProperName})
				return kindcell.Closed(l, t, err)
			},
			func(t *rule.Target) reconciler.Target[rule.Rule] { return t },
			(*rule.Target).NewMirror,
			rule.NewLostRoutes,
			func(
				rules *statedb.Table[rule.Rule], routes *statedb.Table[route.Route], seen *statedb.Table[rule.Seen],
				lost *rule.LostRoutes, links *statedb.Table[link.Seen],
			) reconcilercell.Relations[rule.Rule] {
				return reconcilercell.Relations[rule.Rule]{
					Related:      []reconciler.Related[rule.Rule]{rule.Named(links)},
					DependsOn:    []reconciler.Dependency[rule.Rule]{rule.DependsOn(routes)},
					DeletedAfter: rule.DeletedAfter(rules, seen, lost),
					Observed:     rule.Observed(seen),
				}
			}),
		kindcell.Observed[rule.Mirror](rule.SeenSchema()),
		cell.Invoke(func(lost *rule.LostRoutes, jobs job.Group) error {
			return jobs.Add(job.OneShot("lost-routes", func(ctx context.Context, _ health.Health) error { return lost.Run(ctx) }))
		}),
	)
}
