package link

import (
	"cmp"
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

// ByPeer finds the row of the veth whose other end a device is.
var ByPeer = statedb.NewMultiIndex("peer", func(l Link) iter.Seq[Key] {
	if l.Peer == "" {
		return nil
	}
	return slices.Values([]Key{Key(l.Peer)})
})

// rowsFor returns the queries for the rows that a device needs, under one of its names: the one that has the name, which sets its attributes,
// such as whether it is up, and the one that creates it as the other end of a veth. Others may do either.
func rowsFor(name string) []statedb.Query[Link] {
	return []statedb.Query[Link]{ByPeer.Query(Key(name)), ByKey.Query(Key(name))}
}

// Devices are the links that rows of other kinds name. It is safe for concurrent use.
type Devices struct {
	db       *statedb.DB
	links    *statedb.Table[Link]
	seen     *statedb.Table[Seen]
	observed reconciler.Observation[Link]
}

// NewDevices returns the devices of a table of links. Observed is what its rows are compared with, as returned by [Target.Observed].
func NewDevices(
	db *statedb.DB, links *statedb.Table[Link], seen *statedb.Table[Seen], observed reconciler.Observation[Link],
) Devices {
	return Devices{db, links, seen, observed}
}

// Names yields all names of a device, of which name is one, or name if there is no such device.
func (d Devices) Names(name string) iter.Seq[string] {
	return func(yield func(string) bool) {
		is, _, _ := d.seen.Get(d.db.ReadTxn(), SeenByName.Query(name))
		if !yield(name) || is.OtherNames == "" {
			return
		}
		for _, other := range is.names() {
			if other != name && !yield(other) {
				return
			}
		}
	}
}

// ProperName returns the proper name of a device, given any of its names, or "" if there is no such device.
func (d Devices) ProperName(txn statedb.ReadTxn, name string) string {
	is, _, _ := d.seen.Get(txn, SeenByName.Query(name))
	return is.Name
}

// Rows returns the queries for the rows that a device needs, under any of its names: one that has the name, and one that creates it as the
// other end of a veth. There are none for the name "".
func (d Devices) Rows(device string) iter.Seq[statedb.Query[Link]] {
	return func(yield func(statedb.Query[Link]) bool) {
		if device == "" {
			return
		}
		for name := range d.Names(device) {
			for _, q := range rowsFor(name) {
				if !yield(q) {
					return
				}
			}
		}
	}
}

// OtherEnd returns the name of the other end of a veth, or "" if it is not in this network namespace.
func (d Devices) OtherEnd(device string) string { return otherEnd(d.db.ReadTxn(), d.seen, device) }

// AreNeeded reports whether a row that is to create a link, or the other end of a veth, with one of some names is pending or in error.
func (d Devices) AreNeeded(names ...string) bool {
	for _, name := range names {
		for l := range d.links.List(d.db.ReadTxn(), ByEnd.Query(Key(name))) {
			if l.Status.Kind() != reconciler.Done {
				return true
			}
		}
	}
	return false
}

// WaitsFor reports whether the row that is to create a device is pending or in error, and needs one of some names.
func (d Devices) WaitsFor(device string, names ...string) bool {
	for l := range d.links.List(d.db.ReadTxn(), ByEnd.Query(Key(device))) {
		if l.Status.Kind() != reconciler.Done && (slices.Contains(names, l.Name) || l.Peer != "" && slices.Contains(names, l.Peer)) {
			return true
		}
	}
	return false
}

// Revision is that of the existing links: it changes with their state.
func (d Devices) Revision(txn statedb.ReadTxn) statedb.Revision { return d.seen.Revision(txn) }

// DeclaredRevision is that of the rows of links.
func (d Devices) DeclaredRevision(txn statedb.ReadTxn) statedb.Revision { return d.links.Revision(txn) }

// IsRunning reports whether a device is set up and has a carrier.
func (d Devices) IsRunning(txn statedb.ReadTxn, device string) bool {
	is, _, _ := d.seen.Get(txn, SeenByName.Query(device))
	return is.Running
}

// IsUp reports whether a device exists and is set up, with a carrier or not.
func (d Devices) IsUp(txn statedb.ReadTxn, device string) bool {
	is, _, found := d.seen.Get(txn, SeenByName.Query(device))
	return found && is.Up
}

// PortOf returns the bridge, bond or team that a device is a port of, given its index, and whether it is one: all packets that arrive there
// go to that link, so that an address of the port is of no use.
func (d Devices) PortOf(txn statedb.ReadTxn, index int) (master string, is bool) {
	port, _, _ := d.seen.Get(txn, SeenByIndex.Query(index))
	if port.Master == 0 {
		return "", false
	}
	of, _, _ := d.seen.Get(txn, SeenByIndex.Query(port.Master))
	return of.Name, of.Type != "vrf" && slices.Contains(masters, of.Type)
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
// is in no row of the links' table, because others create it. A row of links whose link is gone, or has
// been replaced by somebody else's, does not count as done.
func DependsOn[Obj any](d Devices, device func(Obj) string) reconciler.Dependency[Obj] {
	return DependsOnBy(d, device, d.Rows)
}

// DependsOnBy is [DependsOn] for rows that may need several devices. By and on are those of [reconciler.DependsOnBy].
func DependsOnBy[Obj any, Key comparable](d Devices, by func(Obj) Key, on func(Key) iter.Seq[statedb.Query[Link]]) reconciler.Dependency[Obj] {
	return reconciler.DependsOnBy(d.links, Link.GetStatus, by, on, d.observed)
}

// Removes returns a function that reports whether the delete of a row takes the device away, or what the device needs to be up. It
// does not if the link is of others, unless the agent has set it up and no row has another name of it. The other end of a veth goes with it,
// whatever its name is in the row.
func (t *Target) Removes(seen *statedb.Table[Seen]) func(txn statedb.ReadTxn, was Link) (is Link, removes bool) {
	left := func(txn statedb.ReadTxn, is Seen, was Link, rec record) bool {
		_, left := t.heir(txn, &is, was.Name, rec, indexIn(txn, seen))
		return left
	}
	removes := func(txn statedb.ReadTxn, was Link) bool {
		rec, _ := t.records.Get(was.Name)
		if rec.Borrowed != nil { // the link may have another name now
			is, _, found := seen.Get(txn, SeenByIndex.Query(rec.Borrowed.Index))
			return found && is.Up && !rec.Borrowed.Up && !left(txn, is, was, rec)
		}
		is, _, found := seen.Get(txn, SeenByName.Query(was.Name))
		return found && (state{link: &is, rec: rec}).created() && !rec.givesBack(was) && !left(txn, is, was, rec)
	}
	return func(txn statedb.ReadTxn, was Link) (Link, bool) {
		is := was
		is.Peer = cmp.Or(otherEnd(txn, seen, was.Name), was.Peer)
		return is, removes(txn, was)
	}
}

// indexIn returns a function that returns the index of the link with a name, or 0.
func indexIn(txn statedb.ReadTxn, seen *statedb.Table[Seen]) func(name string) int {
	return func(name string) int {
		is, _, _ := seen.Get(txn, SeenByName.Query(name))
		return is.Index
	}
}

// otherEnd returns the name of the other end of a veth, or "" if it is not in this network namespace.
func otherEnd(txn statedb.ReadTxn, seen *statedb.Table[Seen], name string) string {
	is, _, _ := seen.Get(txn, SeenByName.Query(name))
	if is.Type != Veth {
		return ""
	}
	end, _, _ := seen.Get(txn, SeenByIndex.Query(is.Peer))
	return end.Name
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
		name := peer.Name
		if slices.Contains(peer.names(), row.Peer) {
			name = row.Peer
		}
		if row.Type != "" && !(state{link: &is, peer: name}).isLike(row) {
			return Link{Name: row.Name, Peer: peer.Name}, true
		}
		tooSmall := row.MTU != 0 && row.MTU < MinIPv6MTU && is.MTU >= MinIPv6MTU
		return Link{Name: row.Name}, is.Up && !row.Up || tooSmall
	}
}

// Needs makes a link wait for other links of its table: a port waits for its bridge, and a link
// without a type waits for the veth whose other end it is.
func Needs(d Devices) reconciler.Dependency[Link] {
	return reconciler.DependsOn(d.links, Link.GetStatus, func(l Link) iter.Seq[statedb.Query[Link]] {
		return func(yield func(statedb.Query[Link]) bool) {
			if l.Type == "" {
				for name := range d.Names(l.Name) {
					if !yield(ByEnd.Query(Key(name))) {
						return
					}
				}
			}
			if l.Master != "" {
				for q := range d.Rows(l.Master) {
					if !yield(q) {
						return
					}
				}
			}
		}
	}, d.observed)
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
				if s.Master != master.Index {
					continue
				}
				for _, name := range s.names() {
					if !yield(ByKey.Query(Key(name))) {
						return
					}
				}
			}
		}
	}, observed).OrFailed()
}
