// Package sysctlcell adds the kind "sysctl" to a hive.
package sysctlcell

import (
	"iter"
	"slices"

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
// linkcell: sysctls of a device wait for its link, and are checked when it is made anew or renamed. allow is sysctl.Config.Allow.
func Cell(allow func(name string) error) cell.Cell {
	return kindcell.Cell(
		kindcell.Kind[sysctl.Sysctl]{
			Name: "sysctl", Title: "kernel parameters", KeyField: "name",
			Schema: sysctl.Schema(), Default: sysctl.Default, Normalized: sysctl.Sysctl.Normalized,
		},
		cell.ProvidePrivate(
			func(owned *ownership.Store) (*sysctl.Target, error) {
				return sysctl.New(sysctl.Config{Owned: owned, Allow: allow})
			},
			func(t *sysctl.Target) reconciler.Target[sysctl.Sysctl] { return t },
			(*sysctl.Target).NewWatcher,
			(*sysctl.Target).Observed,
			func(
				t *sysctl.Target, observed reconciler.Observation[sysctl.Sysctl],
				seen *statedb.Table[link.Seen], devices link.Devices,
			) reconcilercell.Relations[sysctl.Sysctl] {
				return reconcilercell.Relations[sysctl.Sysctl]{
					Related: []reconciler.Related[sysctl.Sysctl]{
						t.Related(), reconciler.WatchesBy(seen, settingsOf, ofDevice), reconciler.WatchesBy(seen, mtuOf, ofMTU),
					},
					DependsOn: []reconciler.Dependency[sysctl.Sysctl]{link.DependsOn(devices, sysctl.Sysctl.Device)},
					Observed:  observed,
				}
			}),
		kindcell.Observed[*sysctl.Watcher](sysctl.SeenSchema()),
	)
}

// settings identifies the settings that the kernel keeps for a device. New ones have its defaults.
type settings struct {
	index int
	name  string
	ipv6  bool
}

func settingsOf(seen link.Seen) settings {
	return settings{seen.Index, seen.Name, seen.MTU >= link.MinIPv6MTU}
}

// ofDevice names the sysctls of an existing link.
func ofDevice(_ statedb.ReadTxn, seen link.Seen) iter.Seq[statedb.Query[sysctl.Sysctl]] {
	return slices.Values([]statedb.Query[sysctl.Sysctl]{sysctl.ByDevice.Query(seen.Name)})
}

// mtu is what the kernel sets the sysctl with the IPv6 MTU of a link to. It does so when the MTU of
// the link changes, and when the link starts running.
type mtu struct {
	of      uint32
	running bool
}

func mtuOf(seen link.Seen) mtu { return mtu{seen.MTU, seen.Running} }

// ofMTU names the sysctl with the IPv6 MTU of a link.
func ofMTU(_ statedb.ReadTxn, seen link.Seen) iter.Seq[statedb.Query[sysctl.Sysctl]] {
	return slices.Values([]statedb.Query[sysctl.Sysctl]{sysctl.ByKey.Query(sysctl.MTUOf(seen.Name))})
}
