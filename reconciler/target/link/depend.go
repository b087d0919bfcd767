package link

import (
	"iter"
	"slices"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/statedb"
)

// ByEnd finds the rows that bring a device about: that of its own name, and that
// of a veth whose other end it is.
var ByEnd = statedb.NewMultiIndex("end", func(l Link) iter.Seq[Key] {
	if l.Peer == "" {
		return slices.Values([]Key{Key(l.Name)})
	}
	return slices.Values([]Key{Key(l.Name), Key(l.Peer)})
})

// DependsOn has rows wait for the links of the devices that they need: device
// returns the name of one, or nothing. A device that is in no row is not waited
// for, because others have made it. observed, as [Target.Observed] returns it, is
// what the rows of links are compared with: one whose link is gone, or has become
// somebody else's, satisfies nobody.
func DependsOn[Obj any](
	links *statedb.Table[Link], observed reconciler.Observation[Link], device func(Obj) string,
) reconciler.Dependency[Obj] {
	return reconciler.DependsOn(links, Link.GetStatus, func(obj Obj) iter.Seq[statedb.Query[Link]] {
		name := device(obj)
		if name == "" {
			return nil
		}
		return slices.Values([]statedb.Query[Link]{ByEnd.Query(Key(name))})
	}, observed)
}

// MadeBy says, for plans, which rows make links that others only change: a veth its other end.
func MadeBy(links *statedb.Table[Link]) []reconciler.Dependency[Link] {
	maker := func(l Link) iter.Seq[statedb.Query[Link]] {
		if l.Type != "" {
			return nil
		}
		return slices.Values([]statedb.Query[Link]{ByEnd.Query(Key(l.Name))})
	}
	return []reconciler.Dependency[Link]{reconciler.DependsOn(links, Link.GetStatus, maker)}
}
