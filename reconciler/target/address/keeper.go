package address

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
	kind    uint16 // type of the message, such as unix.RTM_NEWADDR
	address kernelAddress
	link    rtnl.Link
}

func decode(m syscall.NetlinkMessage) (e event, ok bool) {
	e.kind = m.Header.Type
	switch e.kind {
	case unix.RTM_NEWADDR, unix.RTM_DELADDR:
		e.address, ok = decodeAddress(m)
	case unix.RTM_NEWLINK, unix.RTM_DELLINK:
		e.link, ok = rtnl.DecodeLink(m)
	}
	return e, ok
}

// keeper keeps the table of a mirror. It belongs to one goroutine.
type keeper struct {
	target *Target
	db     *statedb.DB
	table  *statedb.RWTable[Seen]
	links  rtnl.Devices
	// limited are the addresses whose lifetimes expire.
	limited map[SeenKey]lifetimes
}

// list returns all addresses.
func (k *keeper) list(ctx context.Context) ([]Seen, error) {
	if err := k.links.List(ctx, k.target.conn); err != nil {
		return nil, err
	}
	addresses, err := k.target.list(ctx, unix.AF_UNSPEC)
	if err != nil {
		return nil, err
	}
	if k.limited == nil {
		k.limited = map[SeenKey]lifetimes{}
	}
	all, txn := make([]Seen, 0, len(addresses)), k.db.ReadTxn()
	known := make(map[SeenKey]bool, len(addresses))
	for _, a := range addresses {
		if !known[a.SeenKey] {
			known[a.SeenKey] = true
			all = append(all, k.seen(txn, a))
		}
	}
	return all, ctx.Err()
}

// seen returns the row of an address. Its lifetimes are the values at the time when they were
// set, or else when the address was first seen, because the time left is not exact.
func (k *keeper) seen(txn statedb.ReadTxn, a kernelAddress) Seen {
	was, _, _ := statedb.ReadOnly(k.table).Get(txn, SeenByKey.Query(a.SeenKey))
	s := k.named(a.seen()).since(was)
	if _, ends := s.lifetimes().shortest(); !ends {
		delete(k.limited, a.SeenKey)
		return s
	}
	before, known := k.limited[a.SeenKey]
	hasRunOut := s.PreferredLifetime.seconds == 0
	if known && before.set == s.set && before.valid.agrees(s.ValidLifetime) && (hasRunOut || before.preferred.agrees(s.PreferredLifetime)) {
		s.ValidLifetime = before.valid
		if !hasRunOut {
			s.PreferredLifetime = before.preferred
		}
		return s
	}
	k.limited[a.SeenKey] = s.lifetimes()
	return s
}

// seen returns the row of an address, without the names of its device.
func (a kernelAddress) seen() Seen {
	return Seen{
		Index: a.Index, Address: a.Address, Duplicate: a.isDuplicate(), Scope: a.scope,
		ValidLifetime: a.left.valid, PreferredLifetime: a.left.preferred, set: a.left.set, Ours: a.ours, connects: a.connects(),
		secondary: a.isSecondary(), metric: a.metric,
		Tentative: a.flags&unix.IFA_F_TENTATIVE != 0, Optimistic: a.flags&unix.IFA_F_OPTIMISTIC != 0,
		created: a.created,
	}
}

// named returns an address with the names of its device.
func (k *keeper) named(s Seen) Seen {
	s.Device, s.OtherNames = k.links.Names(s.Index)
	return s
}

// apply applies an event to the table. It returns the reason why the table may be wrong, or
// an empty string.
func (k *keeper) apply(txn *statedb.WriteTxn, e event) (doubt string, err error) {
	switch e.kind {
	case unix.RTM_NEWADDR:
		k.target.duplicates.noteAdded(e.address.SeenKey)
		_, _, err = k.table.Insert(txn, k.seen(txn, e.address))
	case unix.RTM_DELADDR:
		delete(k.limited, e.address.SeenKey)
		if s := e.address; s.isDuplicate() && s.flags&unix.IFA_F_PERMANENT == 0 && k.target.recorded.has(k.target.records, s.SeenKey) {
			k.target.duplicates.noteRemoved(s.SeenKey)
		}
		_, _, err = k.table.Delete(txn, e.address.seen())
		if e.address.hasPeer {
			doubt = "an address with a peer is gone, and there may be one with another peer"
		}
	case unix.RTM_NEWLINK:
		return k.linkChanged(txn, e.link)
	case unix.RTM_DELLINK:
		k.links.Remove(e.link.Index)
		for s := range onDevice(txn, statedb.ReadOnly(k.table), e.link.Index) {
			delete(k.limited, SeenKey{s.Index, s.Address})
			if _, _, err := k.table.Delete(txn, s); err != nil {
				return "", err
			}
		}
	}
	return doubt, err
}

// onDevice yields the addresses of a device.
func onDevice(txn statedb.ReadTxn, table *statedb.Table[Seen], index int) iter.Seq2[Seen, statedb.Revision] {
	return table.Range(txn, SeenByKey.Query(SeenKey{Index: index}), SeenByKey.Query(SeenKey{Index: index + 1}))
}

// linkChanged handles a change of a link. When a link goes down, the kernel removes its IPv6
// addresses.
func (k *keeper) linkChanged(txn *statedb.WriteTxn, link rtnl.Link) (doubt string, err error) {
	before, renamed := k.links.Change(link)
	down := before.Up && !link.Up
	if !renamed && !down {
		return "", nil
	}
	for s := range onDevice(txn, statedb.ReadOnly(k.table), link.Index) {
		if down && s.Address.Addr().Is6() {
			doubt = "a link with IPv6 addresses went down"
		}
		if _, _, err := k.table.Insert(txn, k.named(s)); err != nil {
			return "", err
		}
	}
	return doubt, nil
}
