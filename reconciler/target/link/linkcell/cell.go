// Package linkcell adds the kind "link" to a hive.
package linkcell

import (
	"context"
	"slices"

	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/reconcilercell"
	"github.com/statehive/statehive/reconciler/target/kindcell"
	"github.com/statehive/statehive/reconciler/target/link"
	"github.com/statehive/statehive/reconciler/target/ownership"
	"github.com/statehive/statehive/statedb"
)

// Check returns an error if a device is not the link that the agent has made under that
// name: see link.Target.Vouches. Kinds call it before they add something to a device.
type Check func(ctx context.Context, device string, index int) error

type params struct {
	cell.In

	Owned *ownership.Store
	Rows  *statedb.Table[link.Link]
	// Users report whether rows of other kinds name a device.
	Users []func(txn statedb.ReadTxn, device string) bool `group:"device-users"`
}

func (p params) used(txn statedb.ReadTxn, device string) bool {
	return slices.ContainsFunc(p.Users, func(uses func(statedb.ReadTxn, string) bool) bool { return uses(txn, device) })
}

// Cell returns the module. It needs an *ownership.Store, and provides the observed
// links to other kinds, as link.Devices, and a [Check].
func Cell() cell.Cell {
	return kindcell.Cell(
		kindcell.Kind[link.Link]{
			Name: "link", Title: "network links", KeyField: "name",
			Schema: link.Schema(), Default: link.Default, Normalized: link.Link.Normalized,
		},
		cell.ProvidePrivate(
			func(p params, l cell.Lifecycle) (*link.Target, error) {
				t, err := link.New(link.Config{Owned: p.Owned, Rows: p.Rows, Used: p.used})
				return kindcell.Closed(l, t, err)
			},
			func(t *link.Target) reconciler.Target[link.Link] { return t },
			(*link.Target).NewMirror,
			(*link.Target).Unrecorded,
			func(
				t *link.Target, db *statedb.DB, links *statedb.Table[link.Link], seen *statedb.Table[link.Seen], observed reconciler.Observation[link.Link],
				devices link.Devices,
			) reconcilercell.Relations[link.Link] {
				return reconcilercell.Relations[link.Link]{
					DependsOn: []reconciler.Dependency[link.Link]{link.Needs(devices)}, Replaces: link.Replaces(seen), Observed: observed,
					DeletedAfter: []reconciler.Dependency[link.Link]{link.DeletedAfter(db, links, seen, observed)}, RemovedFirst: link.RemovedFirst(links), Removes: t.Removes(seen),
				}
			}),
		cell.Provide((*link.Target).Observed, link.NewDevices, func(t *link.Target) Check { return t.Vouches }),
		kindcell.Observed[link.Mirror](link.SeenSchema()),
		kindcell.Unrecorded[link.Seen](),
	)
}
