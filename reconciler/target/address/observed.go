package address

import (
	"context"
	"fmt"
	"iter"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/target/mirror"
	"github.com/statehive/statehive/reconciler/target/rtnl"
	"github.com/statehive/statehive/reconciler/target/steps"
	"github.com/statehive/statehive/statedb"
)

// Seen is an address that a device has, whoever gave it.
type Seen struct {
	Device string `json:"device"`
	// OtherNames are those that the device has besides, with spaces between them.
	OtherNames string       `json:"otherNames,omitempty"`
	Index      int          `json:"index"` // of the device
	Address    netip.Prefix `json:"address"`
	Duplicate  bool         `json:"duplicate,omitempty"` // another host has it
}

// SeenKey identifies an address by the index of its device: names move from one
// device to another. Its text is "#7 10.0.0.5/24".
type SeenKey struct {
	Index   int
	Address netip.Prefix
}

// SeenByKey is the primary index.
var SeenByKey = statedb.NewIndex("key", func(s Seen) SeenKey { return SeenKey{s.Index, s.Address} })

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

// String returns the text form.
func (k SeenKey) String() string { return fmt.Sprintf("#%d %s", k.Index, k.Address) }

// MarshalText implements encoding.TextMarshaler.
func (k SeenKey) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (k *SeenKey) UnmarshalText(text []byte) error {
	device, address, _ := strings.Cut(string(text), " ")
	number, isNumber := strings.CutPrefix(device, "#")
	index, err := strconv.Atoi(number)
	prefix, prefixErr := netip.ParsePrefix(address)
	if !isNumber || err != nil || prefixErr != nil {
		return fmt.Errorf("%q is not the key of an observed address, expected the index of its device and itself, as \"#7 10.0.0.5/24\"", text)
	}
	*k = SeenKey{index, prefix}
	return nil
}

// Mirror keeps a table of [Seen] as the kernel is. Its target reads there what
// there is.
type Mirror struct{ *mirror.Mirror[Seen, event] }

// NewMirror returns a mirror, to be run before the target is used and until t is
// closed. Nobody else writes its table.
func (t *Target) NewMirror(db *statedb.DB, seen *statedb.RWTable[Seen]) (Mirror, error) {
	k := &keeper{target: t, table: seen}
	m, err := mirror.New(mirror.Config[Seen, event]{
		DB: db, Table: seen, Decode: decode, Apply: k.apply,
		List: func(ctx context.Context, _ func() error) ([]Seen, error) { return k.list(ctx) },
		// Addresses go with links, and links get other names.
		Subscribe: func() (mirror.Subscription, error) {
			return rtnl.Subscribe(unix.RTNLGRP_LINK, unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR)
		},
	})
	t.mirror.Store(m)
	return Mirror{m}, err
}

// presence tells which addresses there are.
type presence func(SeenKey) (duplicate, present bool)

// present returns what tells which addresses there are, with all that the kernel
// has done before the call.
func (t *Target) present(ctx context.Context) (presence, error) {
	if view := t.mirror.Load().View(ctx); view.Reliable() {
		return presentIn(view), nil
	}
	addresses, err := t.list(ctx, unix.AF_UNSPEC, false)
	if err != nil {
		return nil, err
	}
	duplicates := make(map[SeenKey]bool, len(addresses))
	for _, a := range addresses {
		duplicates[a.SeenKey] = a.isDuplicate()
	}
	return func(k SeenKey) (duplicate, present bool) {
		duplicate, present = duplicates[k]
		return duplicate, present
	}, nil
}

func presentIn(view mirror.View[Seen]) presence {
	return func(k SeenKey) (duplicate, present bool) {
		s, found := view.Get(SeenByKey.Query(k))
		return s.Duplicate, found
	}
}

// Observed compares addresses with what a mirror has seen.
func Observed(seen *statedb.Table[Seen]) reconciler.Observation[Address] {
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

func differences(txn statedb.ReadTxn, seen *statedb.Table[Seen], want Address) []reconciler.Change {
	is := ""
	for s := range seen.List(txn, SeenByName.Query(want.Key())) {
		if !s.Duplicate {
			return nil
		}
		is = s.Address.String() + ", a duplicate"
	}
	return steps.Changes(steps.Field("address", is, want.Address.String(), nil))
}
