package rule

import (
	"iter"
	"slices"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/target/route"
	"github.com/statehive/statehive/statedb"
)

// DependsOn has a rule wait for the routes of its family in its table until each of them
// has been tried: with only some of them, packets would go the wrong way.
// The rule does not wait for a route that has failed, because the others may be good
// without it, but for one that itself waits. It does not wait for the
// table main, where the kernel looks anyway.
//
// Deletes happen in the reverse order: a route waits until the rules with its table are
// deleted.
func DependsOn(routes *statedb.Table[route.Route]) reconciler.Dependency[Rule] {
	return reconciler.DependsOn(routes, tried, needed)
}

// needed yields queries for what a rule waits for, which are found at once, and for all
// routes of its table.
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

// tried is the status of a route as far as rules wait for it.
func tried(r route.Route) reconciler.Status {
	if r.Status.Kind() == reconciler.Error {
		return r.Status.After(nil, r.Status.Since())
	}
	return r.Status
}
