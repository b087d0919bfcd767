package rule

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/target/link"
	"github.com/statehive/statehive/reconciler/target/mirror"
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

// ByDevice finds rows by the names of their devices.
var ByDevice = statedb.NewMultiIndex("device", func(r Rule) iter.Seq[string] {
	return func(yield func(string) bool) {
		_ = (r.In == "" || yield(r.In)) && (r.Out == "" || r.Out == r.In || yield(r.Out))
	}
})

// Named has rows checked again that name a device by an alternative name which it has got.
func Named(links *statedb.Table[link.Seen]) reconciler.Related[Rule] {
	return reconciler.WatchesBy(links, func(s link.Seen) string { return s.OtherNames },
		func(_ statedb.ReadTxn, s link.Seen) iter.Seq[statedb.Query[Rule]] {
			return func(yield func(statedb.Query[Rule]) bool) {
				for name := range strings.FieldsSeq(s.OtherNames) {
					if !yield(ByDevice.Query(name)) {
						return
					}
				}
			}
		})
}

// Packets are the packets that a rule is for, with what it does with them.
type Packets struct {
	Family route.Family
	// Selected describes the action and how the packets are selected.
	Selected string
}

// ByPackets finds rows by the packets that they are for.
var ByPackets = statedb.NewIndex("packets", Rule.packets)

func (r Rule) packets() Packets {
	r = r.completed()
	return Packets{r.Family, fmt.Sprintf("%s from %v to %v mark %v in %q out %q", r.Action, r.From, r.To, r.Mark, r.In, r.Out)}
}

// DeletedAfter makes rules stay until others with the same action for the same packets are applied, such as the same rule with
// another priority. It does not matter whether they lead to the same table, nor whether they are pending or in error. They also stay while a
// route that the kernel has in their table is to be in another one, and cannot be yet.
func DeletedAfter(rules *statedb.Table[Rule], seen *statedb.Table[Seen], routes *LostRoutes) []reconciler.Dependency[Rule] {
	others := reconciler.DependsOn(rules, Rule.GetStatus, func(r Rule) iter.Seq[statedb.Query[Rule]] {
		return slices.Values([]statedb.Query[Rule]{ByPackets.Query(r.packets())})
	}, Observed(seen)).OrFailed()
	return []reconciler.Dependency[Rule]{others, routes.deletedAfter()}
}

// RoutesDeletedAfter makes routes stay while the kernel has a rule that leads to their table and whose row is pending or in error: it
// is to lead elsewhere, and cannot yet. They do not wait for a rule that is as declared although its row is pending, as after a start.
// Routes of the table main do not wait either: the kernel always looks there. Before the kernel's rules are known, any rule may
// lead to their table.
func RoutesDeletedAfter(db *statedb.DB, rules *statedb.Table[Rule], seen *statedb.Table[Seen]) []reconciler.Dependency[route.Route] {
	type table struct {
		number route.Table
		ipv6   bool
	}
	of := func(r route.Route) table {
		key := r.Key()
		return table{key.Table, key.Destination.Addr().Is6()}
	}
	return []reconciler.Dependency[route.Route]{reconciler.DependsOnBy(rules, Rule.GetStatus, of, func(t table) iter.Seq[statedb.Query[Rule]] {
		return func(yield func(statedb.Query[Rule]) bool) {
			if t.number == route.MainTable {
				return
			}
			txn := db.ReadTxn()
			if !mirror.Listed(txn, seen) {
				for r := range rules.All(txn) {
					if !yield(ByKey.Query(r.Key())) {
						return
					}
				}
				return
			}
			for s := range seen.List(txn, SeenByTable.Query(t.number)) {
				if (s.Key.Family == route.Inet6) == t.ipv6 && !yield(ByKey.Query(s.Key)) {
					return
				}
			}
		}
	}, Observed(seen)).OrFailed()}
}
