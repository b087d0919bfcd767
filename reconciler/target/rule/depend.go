package rule

import (
	"iter"
	"slices"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/target/route"
	"github.com/statehive/statehive/statedb"
)

// DependsOn has a rule wait for the routes of its family in the table that it looks in,
// until each of them has been tried: with some of them only, packets would take others.
// A route that has failed does not hold the rule, which the other routes of the table
// may do without; one that waits for something itself does. The table main is not waited
// for, as the kernel looks there anyway.
//
// Deletes go the other way round: that of a route waits for those of the rules that look
// in its table.
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
