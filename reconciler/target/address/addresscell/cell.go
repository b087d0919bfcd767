// Package addresscell adds the kind "address" to a hive.
package addresscell

import (
	"context"
	"log/slog"

	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/health"
	"github.com/statehive/statehive/hive/job"
	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/reconcilercell"
	"github.com/statehive/statehive/reconciler/target/address"
	"github.com/statehive/statehive/reconciler/target/kindcell"
	"github.com/statehive/statehive/reconciler/target/link"
	"github.com/statehive/statehive/reconciler/target/link/linkcell"
	"github.com/statehive/statehive/reconciler/target/ownership"
	"github.com/statehive/statehive/statedb"
)

// Cell returns the module. It needs an *ownership.Store and the module of package
// linkcell, and provides the observed addresses to other kinds.
func Cell() cell.Cell {
	return kindcell.Cell(
		kindcell.Kind[address.Address]{
			Name: "address", Title: "addresses of network links", KeyField: "address",
			Schema: address.Schema(), Default: address.Default, Normalized: address.Address.Normalized,
		},
		cell.ProvidePrivate(
			func(
				owned *ownership.Store, check linkcell.Check, rows *statedb.Table[address.Address], l cell.Lifecycle, logger *slog.Logger,
			) (*address.Target, error) {
				t, err := address.New(address.Config{Owned: owned, Allowed: check, Rows: rows, Logger: logger})
				return kindcell.Closed(l, t, err)
			},
			func(t *address.Target) reconciler.Target[address.Address] { return t },
			(*address.Target).NewMirror,
			(*address.Target).NewRouteWatcher,
			(*address.Target).NewRenewer,
			(*address.Target).Unrecorded,
			func(
				t *address.Target, db *statedb.DB, kernel *statedb.Table[address.Seen], devices link.Devices,
				addresses *statedb.Table[address.Address], seen reconciler.Observation[address.Address], routes *address.RouteWatcher,
			) reconcilercell.Relations[address.Address] {
				return reconcilercell.Relations[address.Address]{
					Related: []reconciler.Related[address.Address]{routes.Related()},
					DependsOn: []reconciler.Dependency[address.Address]{
						link.DependsOn(devices, func(a address.Address) string { return a.Device }),
					},
					DeletedAfter: address.DeletedAfter(db, devices, addresses, kernel, seen),
					Observed:     seen,
					RemovedFirst: address.RemovedFirst(addresses),
					Removes:      t.Removes(kernel),
				}
			}),
		cell.Provide((*address.Target).Observed, deviceUser),
		kindcell.Observed[address.Mirror](address.SeenSchema()),
		kindcell.Unrecorded[address.Seen](),
		cell.Invoke(func(w *address.RouteWatcher, r *address.Renewer, jobs job.Group) error {
			return jobs.Add(
				job.OneShot("network-routes", func(ctx context.Context, health health.Health) error { return w.Run(ctx, health) }),
				job.OneShot("lifetimes", func(ctx context.Context, health health.Health) error { return r.Run(ctx, health) }),
			)
		}),
	)
}

// deviceUserOut contributes a function that reports whether addresses name a device.
type deviceUserOut struct {
	cell.Out

	Uses func(txn statedb.ReadTxn, device string) bool `group:"device-users"`
}

func deviceUser(rows *statedb.Table[address.Address]) deviceUserOut {
	return deviceUserOut{Uses: func(txn statedb.ReadTxn, device string) bool {
		for _, ipv6 := range []bool{false, true} {
			for range rows.List(txn, address.ByDevice.Query(address.Device{Name: device, IPv6: ipv6})) {
				return true
			}
		}
		return false
	}}
}
