package agent

import (
	"context"
	"io"

	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/health"
	"github.com/statehive/statehive/hive/job"
	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/reconcilercell"
	"github.com/statehive/statehive/reconciler/source/file"
	"github.com/statehive/statehive/reconciler/source/filecell"
	"github.com/statehive/statehive/reconciler/target/address"
	"github.com/statehive/statehive/reconciler/target/link"
	"github.com/statehive/statehive/reconciler/target/ownership"
	"github.com/statehive/statehive/reconciler/target/route"
	"github.com/statehive/statehive/reconciler/target/sysctl"
	"github.com/statehive/statehive/statedb"
	"github.com/statehive/statehive/statedb/dbcell"
)

func sysctls(around *surroundings) cell.Cell {
	return kind("sysctl", "kernel parameters", "name", sysctl.Schema(), sysctl.Default, sysctl.Sysctl.Normalized,
		cell.ProvidePrivate(
			func(owned *ownership.Store) (reconciler.Target[sysctl.Sysctl], error) {
				return sysctl.New(sysctl.Config{Owned: owned, Allow: around.allowSysctl})
			},
			func(links *statedb.Table[link.Link], seen reconciler.Observation[link.Link]) reconcilercell.Relations[sysctl.Sysctl] {
				return reconcilercell.Relations[sysctl.Sysctl]{
					DependsOn: []reconciler.Dependency[sysctl.Sysctl]{link.DependsOn(links, seen, sysctl.Sysctl.Device)},
				}
			}),
	)
}

// linkCheck returns an error for a device that is not the link which we have made
// under its name: see link.Target.Vouches.
type linkCheck func(ctx context.Context, device string, index int) error

func links() cell.Cell {
	return kind("link", "network links", "name", link.Schema(), link.Default, link.Link.Normalized,
		cell.ProvidePrivate(
			func(owned *ownership.Store, l cell.Lifecycle) (*link.Target, error) {
				t, err := link.New(link.Config{Owned: owned})
				return t, closeAtStop(l, t, err)
			},
			func(t *link.Target) reconciler.Target[link.Link] { return t },
			(*link.Target).NewMirror,
			func(seen reconciler.Observation[link.Link]) reconcilercell.Relations[link.Link] {
				return reconcilercell.Relations[link.Link]{Observed: seen}
			}),
		cell.Provide((*link.Target).Observed, func(t *link.Target) linkCheck { return t.Vouches }),
		observed[link.Mirror](link.SeenSchema()),
	)
}

func addresses() cell.Cell {
	return kind("address", "addresses of links", "address", address.Schema(), address.Default, address.Address.Normalized,
		cell.ProvidePrivate(
			func(owned *ownership.Store, vouch linkCheck, l cell.Lifecycle) (*address.Target, error) {
				t, err := address.New(address.Config{Owned: owned, Allowed: vouch})
				return t, closeAtStop(l, t, err)
			},
			func(t *address.Target) reconciler.Target[address.Address] { return t },
			(*address.Target).NewMirror,
			func(
				links *statedb.Table[link.Link], seenLinks reconciler.Observation[link.Link], seen reconciler.Observation[address.Address],
			) reconcilercell.Relations[address.Address] {
				return reconcilercell.Relations[address.Address]{
					DependsOn: []reconciler.Dependency[address.Address]{
						link.DependsOn(links, seenLinks, func(a address.Address) string { return a.Device }),
					},
					Observed: seen,
				}
			}),
		cell.Provide(address.Observed),
		observed[address.Mirror](address.SeenSchema()),
	)
}

func routes() cell.Cell {
	return kind("route", "routes", "destination", route.Schema(), route.Default, route.Route.Normalized,
		cell.ProvidePrivate(
			func(vouch linkCheck, l cell.Lifecycle) (*route.Target, error) {
				t, err := route.New(route.Config{Allowed: vouch})
				return t, closeAtStop(l, t, err)
			},
			func(t *route.Target) reconciler.Target[route.Route] { return t },
			(*route.Target).NewMirror,
			func(
				links *statedb.Table[link.Link], seenLinks reconciler.Observation[link.Link],
				addresses *statedb.Table[address.Address], seenAddresses reconciler.Observation[address.Address],
				seen *statedb.Table[route.Seen],
			) reconcilercell.Relations[route.Route] {
				return reconcilercell.Relations[route.Route]{
					DependsOn: route.DependsOn(links, seenLinks, addresses, seenAddresses),
					Observed:  route.Observed(seen),
				}
			}),
		observed[route.Mirror](route.SeenSchema()),
	)
}

// mirror keeps a table of what the kernel has.
type mirror interface {
	Run(ctx context.Context, health reconciler.Health) error
}

// observed is a table that a mirror of the module keeps while the hive runs. The
// mirror is made before anything runs, which could take the table, as long as it has
// no source, for complete.
func observed[M mirror, Seen any](schema statedb.Schema[Seen]) cell.Cell {
	return cell.Group(
		dbcell.Protected(schema),
		cell.Invoke(func(m M, jobs job.Group) error {
			return jobs.Add(job.OneShot(schema.Name, func(ctx context.Context, health health.Health) error { return m.Run(ctx, health) }))
		}),
	)
}

// closeAtStop has a target closed when the hive stops, unless making it failed.
func closeAtStop(l cell.Lifecycle, target io.Closer, err error) error {
	if err == nil {
		l.Append(cell.Hook{Name: "kernel connection", OnStop: func(context.Context) error { return target.Close() }})
	}
	return err
}

// kind is the module of a kind of document: its table, a reconciler, and the
// kind itself for the source. contents provide the target and, perhaps, relations.
// keyField is what to point at when two documents have one key.
func kind[Obj reconciler.Reconcilable[Obj]](
	name, title, keyField string, schema statedb.Schema[Obj],
	defaults func() Obj, normalized func(Obj) (Obj, error), contents ...cell.Cell,
) cell.Cell {
	return cell.Module(name, title,
		dbcell.Protected(schema),
		cell.Group(contents...),
		reconcilercell.Register[Obj](),
		filecell.Kind(file.KindConfig[Obj]{Name: name, KeyField: keyField, Default: defaults, Normalized: normalized}),
	)
}
