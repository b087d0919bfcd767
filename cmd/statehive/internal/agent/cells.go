package agent

import (
	"context"
	"io"

	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/health/healthcell"
	"github.com/statehive/statehive/hive/hivecell"
	"github.com/statehive/statehive/hive/inspect"
	"github.com/statehive/statehive/hive/metrics"
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

// cells are the agent: what every hive has, where desired state comes from, and
// a module for each kind of document.
func cells(around *surroundings) []cell.Cell {
	return []cell.Cell{
		cell.Config(options{}),
		cell.Invoke(func(options) {}), // they are read before the start
		cell.Provide(pidCommand),
		listenersCell(around),
		inspect.Cell(),
		metrics.Cell(""),
		healthcell.Cell(),
		hivecell.Cell(),
		dbcell.Cell(),
		reconcilercell.Cell(),
		filecell.Cell(),
		stateCell(around),
		kind("sysctl", "kernel parameters", "name", sysctl.Schema(), sysctl.Default, sysctl.Sysctl.Normalized,
			func(owned *ownership.Store) (reconciler.Target[sysctl.Sysctl], error) {
				return sysctl.New(sysctl.Config{Owned: owned, Allow: around.allowSysctl})
			},
			func(links statedb.Table[link.Link]) reconcilercell.Relations[sysctl.Sysctl] {
				return dependent(link.DependsOn(links, sysctl.Sysctl.Device))
			}),
		kind("link", "network links", "name", link.Schema(), link.Default, link.Link.Normalized,
			func(owned *ownership.Store, l cell.Lifecycle) (reconciler.Target[link.Link], error) {
				t, err := link.New(link.Config{Owned: owned})
				return t, closeAtStop(l, t, err)
			}),
		kind("address", "addresses of links", "address", address.Schema(), address.Default, address.Address.Normalized,
			func(owned *ownership.Store, l cell.Lifecycle) (reconciler.Target[address.Address], error) {
				t, err := address.New(address.Config{Owned: owned})
				return t, closeAtStop(l, t, err)
			},
			func(links statedb.Table[link.Link]) reconcilercell.Relations[address.Address] {
				return dependent(link.DependsOn(links, func(a address.Address) string { return a.Device }))
			}),
		kind("route", "routes", "destination", route.Schema(), route.Default, route.Route.Normalized,
			func(l cell.Lifecycle) (reconciler.Target[route.Route], error) {
				t, err := route.New()
				return t, closeAtStop(l, t, err)
			},
			func(links statedb.Table[link.Link], addresses statedb.Table[address.Address]) reconcilercell.Relations[route.Route] {
				return dependent(route.DependsOn(links, addresses)...)
			}),
	}
}

// closeAtStop has a target closed when the hive stops, unless making it failed.
func closeAtStop(l cell.Lifecycle, target io.Closer, err error) error {
	if err == nil {
		l.Append(cell.Hook{Name: "kernel connection", OnStop: func(context.Context) error { return target.Close() }})
	}
	return err
}

func dependent[Obj any](on ...reconciler.Dependency[Obj]) reconcilercell.Relations[Obj] {
	return reconcilercell.Relations[Obj]{DependsOn: on}
}

// kind is the module of a kind of document: its table, what constructors make,
// which is a target and perhaps relations, a reconciler between them, and the kind
// itself for the source. keyField is what to point at when two documents have one
// key.
func kind[Obj reconciler.Reconcilable[Obj]](
	name, title, keyField string, schema statedb.Schema[Obj],
	defaults func() Obj, normalized func(Obj) (Obj, error), constructors ...any,
) cell.Cell {
	return cell.Module(name, title,
		dbcell.Protected(schema),
		cell.ProvidePrivate(constructors...),
		reconcilercell.Register[Obj](),
		cell.Provide(func(table statedb.RWTable[Obj]) (filecell.KindOut, error) {
			return filecell.NewKind(file.KindConfig[Obj]{
				Name: name, KeyField: keyField, Table: table, Default: defaults, Normalized: normalized,
			})
		}),
	)
}
