package address

import (
	"context"
	"iter"
	"net/netip"
	"slices"
	"strings"
	"syscall"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/target/internal/mirror"
	"github.com/statehive/statehive/reconciler/target/internal/steps"
	"github.com/statehive/statehive/statedb"
)

// Seen is an address that a device has, whoever gave it.
type Seen struct {
	Device string `json:"device"`
	// OtherNames are those that the device has besides, with spaces between them.
	OtherNames string       `json:"otherNames,omitempty"`
	Address    netip.Prefix `json:"address"`
	Duplicate  bool         `json:"duplicate,omitempty"` // another host has it
}

// SeenByKey is the primary index.
var SeenByKey = statedb.NewIndex("key", func(s Seen) Key { return Key{s.Device, s.Address} })

// SeenByName finds addresses by any of the names of their devices.
var SeenByName = statedb.NewMultiIndex("name", func(s Seen) iter.Seq[Key] { return slices.Values(s.keys()) })

// keys are all keys that rows for the address can have.
func (s Seen) keys() []Key {
	keys := []Key{{s.Device, s.Address}}
	for name := range strings.FieldsSeq(s.OtherNames) {
		keys = append(keys, Key{name, s.Address})
	}
	return keys
}

// SeenSchema declares the table "observed-addresses".
func SeenSchema() statedb.Schema[Seen] {
	return statedb.Schema[Seen]{
		Name: "observed-addresses", Primary: SeenByKey, Secondary: []statedb.Indexer[Seen]{SeenByName},
	}
}

// Mirror keeps a table of [Seen] as the kernel is.
type Mirror struct{ *mirror.Mirror[Seen] }

// NewMirror returns a mirror, to be run before t is closed. Nobody else writes its
// table.
func (t *Target) NewMirror(db *statedb.DB, seen statedb.RWTable[Seen]) (Mirror, error) {
	m, err := mirror.New(mirror.Config[Seen]{
		DB: db, Table: seen, List: t.seen,
		// Addresses go with links, and links get other names.
		Subscribe: mirror.Rtnetlink(unix.RTNLGRP_LINK, unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR),
		Tells:     func(syscall.NetlinkMessage) bool { return true },
	})
	return Mirror{m}, err
}

// seen lists all addresses.
func (t *Target) seen(ctx context.Context) ([]Seen, error) {
	addrs, err := t.list(netlink.FAMILY_ALL)
	if err != nil {
		return nil, err
	}
	all := make([]Seen, 0, len(addrs))
	known := map[place]bool{}
	devices := map[int]Seen{} // without addresses
	for _, addr := range addrs {
		s, ok := devices[addr.LinkIndex]
		if !ok {
			name, others := t.conn.LinkNames(addr.LinkIndex)
			s = Seen{Device: name, OtherNames: strings.Join(others, " ")}
			devices[addr.LinkIndex] = s
		}
		s.Address, s.Duplicate = prefixOf(addr), isDuplicate(addr)
		if at := (place{addr.LinkIndex, s.Address}); !known[at] {
			known[at] = true
			all = append(all, s)
		}
	}
	return all, ctx.Err()
}

// Observed compares addresses with what a mirror has seen.
func Observed(seen statedb.Table[Seen]) reconciler.Observation[Address] {
	return reconciler.Observes(seen,
		func(_ statedb.ReadTxn, s Seen) iter.Seq[statedb.Query[Address]] {
			return func(yield func(statedb.Query[Address]) bool) {
				for _, key := range s.keys() {
					if !yield(ByKey.Query(key)) {
						return
					}
				}
			}
		},
		func(txn statedb.ReadTxn, want Address) []reconciler.Change { return differences(txn, seen, want) })
}

func differences(txn statedb.ReadTxn, seen statedb.Table[Seen], want Address) []reconciler.Change {
	is := ""
	for s := range seen.List(txn, SeenByName.Query(want.Key())) {
		if is = s.Address.String(); s.Duplicate {
			is += ", a duplicate"
		}
	}
	return steps.Changes(steps.Field("address", is, want.Address.String(), nil))
}
