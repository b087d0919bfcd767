package link

import (
	"iter"
	"slices"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/statedb"
)

// ByEnd finds the rows that create a device: the row with its name, and the row of the
// veth whose other end it is.
var ByEnd = statedb.NewMultiIndex("end", func(l Link) iter.Seq[Key] {
	switch {
	case l.Type == "":
		return nil
	case l.Peer == "":
		return slices.Values([]Key{Key(l.Name)})
	}
	return slices.Values([]Key{Key(l.Name), Key(l.Peer)})
})

// ByConfigured finds the row that sets attributes of a device that it does not create.
var ByConfigured = statedb.NewMultiIndex("configured", func(l Link) iter.Seq[Key] {
	if l.Type != "" {
		return nil
	}
	return slices.Values([]Key{Key(l.Name)})
})

// Device returns the queries for the rows that a device needs: one that creates it, and one that sets its attributes, such as
// whether it is up. Others may do either.
func Device(name string) iter.Seq[statedb.Query[Link]] {
	return slices.Values([]statedb.Query[Link]{ByEnd.Query(Key(name)), ByConfigured.Query(Key(name))})
}

// ByMaster finds the rows of the ports of a bridge.
var ByMaster = statedb.NewMultiIndex("master", func(l Link) iter.Seq[Key] {
	if l.Master == "" {
		return nil
	}
	return slices.Values([]Key{Key(l.Master)})
})

// DependsOn makes rows wait for the links of the devices that they need. The function device
// returns the name of a row's device, or an empty string. Rows do not wait for a device that
// is in no row of the links' table, because others create it. The rows of links are compared with
// observed, as returned by [Target.Observed]: a row whose link is gone, or has been replaced
// by somebody else's, does not count as done.
func DependsOn[Obj any](
	links *statedb.Table[Link], observed reconciler.Observation[Link], device func(Obj) string,
) reconciler.Dependency[Obj] {
	return reconciler.DependsOn(links, Link.GetStatus, func(obj Obj) iter.Seq[statedb.Query[Link]] {
		name := device(obj)
		if name == "" {
			return nil
		}
		return Device(name)
	}, observed)
}

// Removes returns a function that reports whether the delete of a row takes the device away, or what the device needs to be up. It
// does not if the link is of others, unless the agent has set it up.
func (t *Target) Removes(seen *statedb.Table[Seen]) func(txn statedb.ReadTxn, was Link) bool {
	return func(txn statedb.ReadTxn, was Link) bool {
		rec, _ := t.records.Get(was.Name)
		if rec.Borrowed != nil { // the link may have another name now
			is, _, found := seen.Get(txn, SeenByIndex.Query(rec.Borrowed.Index))
			return found && is.Up && !rec.Borrowed.Up
		}
		is, _, found := seen.Get(txn, SeenByName.Query(was.Name))
		return found && (state{link: &is, rec: rec}).created()
	}
}

// MinIPv6MTU is the least MTU with which a link has IPv6. The kernel removes addresses and settings when it becomes less.
const MinIPv6MTU = 1280

// Replaces reports whether the update of a link takes the addresses and routes of the device away, given the table of
// existing links: the link is made anew, or set down, or its MTU becomes too small for IPv6.
func Replaces(seen *statedb.Table[Seen]) func(txn statedb.ReadTxn, row Link) (was Link, replaced bool) {
	return func(txn statedb.ReadTxn, row Link) (was Link, replaced bool) {
		is, _, found := seen.Get(txn, SeenByName.Query(row.Name))
		if !found {
			return Link{}, false
		}
		peer, _, _ := seen.Get(txn, SeenByIndex.Query(is.Peer))
		if row.Type != "" && !(state{link: &is, peer: peer.Name}).isLike(row) {
			return Link{Name: row.Name, Peer: peer.Name}, true
		}
		tooSmall := row.MTU != 0 && row.MTU < MinIPv6MTU && is.MTU >= MinIPv6MTU
		return Link{Name: row.Name}, is.Up && !row.Up || tooSmall
	}
}

// Needs makes a link wait for other links of its table: a port waits for its bridge, and a link
// without a type waits for the veth whose other end it is. For observed, see [DependsOn].
func Needs(links *statedb.Table[Link], observed reconciler.Observation[Link]) reconciler.Dependency[Link] {
	return reconciler.DependsOn(links, Link.GetStatus, func(l Link) iter.Seq[statedb.Query[Link]] {
		return func(yield func(statedb.Query[Link]) bool) {
			if l.Type == "" && !yield(ByEnd.Query(Key(l.Name))) {
				return
			}
			if l.Master != "" {
				for q := range Device(l.Master) {
					if !yield(q) {
						return
					}
				}
			}
		}
	}, observed)
}

// RemovedFirst returns a function that yields the rows of links to be created that need the name of a removed one as that of their other
// end, but not one with the same two names exchanged: what is wrong with that would take the removed one along, so that waits until somebody
// triggers it.
func RemovedFirst(links *statedb.Table[Link]) func(txn statedb.ReadTxn, was Link) iter.Seq[statedb.Query[Link]] {
	return func(txn statedb.ReadTxn, was Link) iter.Seq[statedb.Query[Link]] {
		return func(yield func(statedb.Query[Link]) bool) {
			for l := range links.List(txn, ByEnd.Query(Key(was.Name))) {
				if l.Peer == was.Name && l.Name != was.Peer && !yield(ByKey.Query(Key(l.Name))) {
					return
				}
			}
		}
	}
}

// DeletedAfter makes links stay while links that the kernel has as their ports are to have another master, but are pending or in error:
// the kernel would set them free with the link.
func DeletedAfter(db *statedb.DB, links *statedb.Table[Link], seen *statedb.Table[Seen], observed reconciler.Observation[Link]) reconciler.Dependency[Link] {
	return reconciler.DependsOnBy(links, Link.GetStatus, func(l Link) string { return l.Name }, func(name string) iter.Seq[statedb.Query[Link]] {
		return func(yield func(statedb.Query[Link]) bool) {
			txn := db.ReadTxn()
			master, _, found := seen.Get(txn, SeenByName.Query(name))
			if !found {
				return
			}
			for s := range seen.All(txn) {
				if s.Master == master.Index && !yield(ByKey.Query(Key(s.Name))) {
					return
				}
			}
		}
	}, observed).OrFailed()
}
