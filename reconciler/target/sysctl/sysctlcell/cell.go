// Package sysctlcell adds the kind "sysctl" to a hive.
package sysctlcell

import (
	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/reconcilercell"
	"github.com/statehive/statehive/reconciler/target/kindcell"
	"github.com/statehive/statehive/reconciler/target/link"
	"github.com/statehive/statehive/reconciler/target/ownership"
	"github.com/statehive/statehive/reconciler/target/sysctl"
	"github.com/statehive/statehive/statedb"
)

// Cell returns the module. It needs an *ownership.Store and the module of package
// linkcell: sysctls of a device wait for its link. allow is sysctl.Config.Allow.
func Cell(allow func(name string) error) cell.Cell {
	return kindcell.Cell(
		kindcell.Kind[sysctl.Sysctl]{
			Name: "sysctl", Title: "kernel parameters", KeyField: "name",
			Schema: sysctl.Schema(), Default: sysctl.Default, Normalized: sysctl.Sysctl.Normalized,
		},
		cell.ProvidePrivate(
			func(owned *ownership.Store) (reconciler.Target[sysctl.Sysctl], error) {
				return sysctl.New(sysctl.Config{Owned: owned, Allow: allow})
			},
			func(links *statedb.Table[link.Link], seen reconciler.Observation[link.Link]) reconcilercell.Relations[sysctl.Sysctl] {
				return reconcilercell.Relations[sysctl.Sysctl]{
					DependsOn: []reconciler.Dependency[sysctl.Sysctl]{link.DependsOn(links, seen, sysctl.Sysctl.Device)},
				}
			}),
	)
}
