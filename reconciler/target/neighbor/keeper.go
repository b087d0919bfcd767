package neighbor

import (
	"context"
	"iter"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/statehive/statehive/reconciler/target/rtnl"
	"github.com/statehive/statehive/statedb"
)

// event is a decoded notification.
type event struct {
	kind  eventKind
	entry Seen // without the names of its device
	link  rtnl.Link
}

type eventKind uint8

const (
	entryMade   eventKind = iota
	entryUnmade           // it is gone, or has become an entry that the kernel has learned
	linkChanged
	linkGone
)

func decode(m syscall.NetlinkMessage) (e event, ok bool) {
	switch m.Header.Type {
	case unix.RTM_NEWNEIGH, unix.RTM_DELNEIGH:
		n, ok := decodeNeighbor(m)
		e.entry = n.Seen
		if m.Header.Type == unix.RTM_DELNEIGH || !n.made() {
			e.kind = entryUnmade
		}
		return e, ok
	case unix.RTM_NEWLINK:
		e.kind = linkChanged
		e.link, ok = rtnl.DecodeLink(m)
	case unix.RTM_DELLINK:
		e.kind = linkGone
		e.link, ok = rtnl.DecodeLink(m)
	}
	return e, ok
}

// keeper keeps the table of a mirror. It belongs to one goroutine.
type keeper struct {
	target *Target
	table  *statedb.RWTable[Seen]
	links  rtnl.Devices
}

// list returns all entries that somebody has made.
func (k *keeper) list(ctx context.Context) ([]Seen, error) {
	before := k.links
	if err := k.links.List(ctx, k.target.conn); err != nil {
		return nil, err
	}
	entries, err := k.target.list(ctx)
	if err != nil {
		return nil, err
	}
	rows := make([]Seen, 0, len(entries))
	known := make(map[SeenKey]bool, len(entries))
	renamed := false
	for _, s := range entries { // the kernel lists entries twice if they change meanwhile
		if !known[s.key()] {
			known[s.key()] = true
			s = k.named(s)
			rows = append(rows, s)
			link, old := before.Of(s.Index)
			renamed = renamed || s.isOurs() && old && (link.Name != s.Device || link.Others != s.OtherNames)
		}
	}
	if renamed {
		k.renamed()
	}
	return rows, ctx.Err()
}

// renamed reports that a device with entries of ours has other names.
func (k *keeper) renamed() {
	if k.target.config.Renamed != nil {
		k.target.config.Renamed()
	}
}

// named returns an entry with the names of its device.
func (k *keeper) named(s Seen) Seen {
	s.Device, s.OtherNames = k.links.Names(s.Index)
	return s
}

// apply applies an event to the table. The table is never in doubt, because the kernel announces
// each entry that is removed, also when its link goes down.
func (k *keeper) apply(txn *statedb.WriteTxn, e event) (doubt string, err error) {
	switch e.kind {
	case entryMade:
		_, _, err = k.table.Insert(txn, k.named(e.entry))
	case entryUnmade:
		_, _, err = k.table.Delete(txn, e.entry)
	case linkChanged:
		if _, renamed := k.links.Change(e.link); !renamed {
			return "", nil
		}
		ours := false
		for s := range k.onDevice(txn, e.link.Index) {
			if _, _, err := k.table.Insert(txn, k.named(s)); err != nil {
				return "", err
			}
			ours = ours || s.isOurs()
		}
		if ours {
			k.renamed()
		}
	case linkGone:
		k.links.Remove(e.link.Index)
		for s := range k.onDevice(txn, e.link.Index) {
			if _, _, err := k.table.Delete(txn, s); err != nil {
				return "", err
			}
		}
	}
	return "", err
}

// onDevice yields the entries of a device.
func (k *keeper) onDevice(txn statedb.ReadTxn, index int) iter.Seq2[Seen, statedb.Revision] {
	return k.table.Range(txn, SeenByKey.Query(SeenKey{Index: index}), SeenByKey.Query(SeenKey{Index: index + 1}))
}
