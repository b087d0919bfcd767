// Package routecell adds the kind "route" to a hive.
package routecell

import (
	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/reconcilercell"
	"github.com/statehive/statehive/reconciler/target/address"
	"github.com/statehive/statehive/reconciler/target/kindcell"
	"github.com/statehive/statehive/reconciler/target/link"
	"github.com/statehive/statehive/reconciler/target/link/linkcell"
	"github.com/statehive/statehive/reconciler/target/route"
	"github.com/statehive/statehive/reconciler/target/rule"
	"github.com/statehive/statehive/statedb"
)

// Cell returns the module. It needs the modules of packages linkcell and addresscell.
func Cell() cell.Cell {
	return kindcell.Cell(
		kindcell.Kind[route.Route]{
			Name: "route", Title: "routes", KeyField: "destination",
			Schema: route.Schema(), Default: route.Default, Normalized: route.Route.Normalized,
		},
		cell.ProvidePrivate(
			func(check linkcell.Check, l cell.Lifecycle, db *statedb.DB, rows *statedb.Table[route.Route]) (*route.Target, error) {
				t, err := route.New(route.Config{Allowed: check, Declared: func(key route.Key) bool {
					_, _, found := rows.Get(db.ReadTxn(), route.ByKey.Query(key))
					return found
				}})
				return kindcell.Closed(l, t, err)
			},
			func(t *route.Target) reconciler.Target[route.Route] { return t },
			(*route.Target).NewMirror,
			func(d route.Dependencies, rules optionalRules, seen *statedb.Table[route.Seen]) reconcilercell.Relations[route.Route] {
				return reconcilercell.Relations[route.Route]{
					DependsOn: route.DependsOn(d), DeletedBefore: route.DeletedBefore(d), DeletedAfter: rules.deletedAfter(), Observed: route.Observed(seen),
				}
			}),
		cell.ProvidePrivate(dependencies),
		cell.Provide(deletedAfter),
		kindcell.Observed[route.Mirror](route.SeenSchema()),
	)
}

// deletedAfterOut has what links and addresses wait for before they are deleted.
type deletedAfterOut struct {
	cell.Out

	Links     []reconciler.Dependency[link.Link]       `group:"deleted-after,flatten"`
	Addresses []reconciler.Dependency[address.Address] `group:"deleted-after,flatten"`
}

func deletedAfter(d route.Dependencies) deletedAfterOut {
	links, addresses := route.DevicesDeletedAfter(d)
	return deletedAfterOut{Links: links, Addresses: addresses}
}

func dependencies(
	db *statedb.DB, devices link.Devices, addresses *statedb.Table[address.Address], seenAddresses reconciler.Observation[address.Address],
	kernelAddresses *statedb.Table[address.Seen], routes *statedb.Table[route.Route], kernelRoutes *statedb.Table[route.Seen],
) route.Dependencies {
	return route.Dependencies{
		DB: db, Devices: devices, Addresses: addresses, SeenAddresses: seenAddresses, KernelAddresses: kernelAddresses,
		Routes: routes, KernelRoutes: kernelRoutes,
	}
}

// optionalRules are the tables of rules, if there are any.
type optionalRules struct {
	cell.In

	DB    *statedb.DB
	Table *statedb.Table[rule.Rule] `optional:"true"`
	Seen  *statedb.Table[rule.Seen] `optional:"true"`
}

func (r optionalRules) deletedAfter() []reconciler.Dependency[route.Route] {
	if r.Table == nil || r.Seen == nil {
		return nil
	}
	return rule.RoutesDeletedAfter(r.DB, r.Table, r.Seen)
}
