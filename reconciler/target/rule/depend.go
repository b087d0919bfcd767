package rule

import (
	"iter"
	"slices"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/target/route"
	"github.com/statehive/statehive/statedb"
)

// DependsOn makes a rule wait until each route of its family in its table has been tried:
// with only some of the routes, packets would go the wrong way.
// The rule does not wait for a route that has failed, because the other routes may be useful
// without it, but it does wait for a route that is itself waiting. It does not wait for routes
// in the table main, where the kernel always looks.
//
// Deletes happen in the reverse order: a route waits until the rules with its table are
// deleted. The kernel keeps rules whose tables are empty.
func DependsOn(routes *statedb.Table[route.Route]) reconciler.Dependency[Rule] {
	return reconciler.DependsOn(routes, tried, needed).OneOf(nil).Kept()
}

// needed yields queries for the untried routes that a rule waits for, which are found quickly,
// and for all routes of its table.
func needed(r Rule) iter.Seq[statedb.Query[route.Route]] {
	r = r.completed()
	if r.Table == 0 || r.Table == route.MainTable {
		return nil
	}
	all := route.InTable{Family: r.Family, Table: r.Table}
	untried := all
	untried.Untried = true
	return slices.Values([]statedb.Query[route.Route]{route.ByTable.Query(untried), route.ByTable.Query(all)})
}

// tried returns the status of a route as seen by the rules that wait for it.
func tried(r route.Route) reconciler.Status {
	if r.Status.Kind() == reconciler.Error {
		return r.Status.After(nil, r.Status.Since())
	}
	return r.Status
}
