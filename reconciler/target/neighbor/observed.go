package neighbor

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

// Seen is an entry that somebody has made, as opposed to one that the kernel has learned.
type Seen struct {
	Device string `json:"device"`
	// OtherNames are the alternative names of the device, separated by spaces.
	OtherNames string        `json:"otherNames,omitempty"`
	Index      int           `json:"index"` // of the device
	Address    netip.Addr    `json:"address"`
	MAC        string        `json:"mac,omitempty"`
	Protocol   rtnl.Protocol `json:"protocol"`          // 79 is ours
	Learned    bool          `json:"learned,omitempty"` // added by a routing daemon: extern_learn of ip(8)
}

// exists reports whether there is an entry. The zero value stands for no entry.
func (s Seen) exists() bool { return s.Address.IsValid() }

// isOurs reports whether the entry carries our mark.
func (s Seen) isOurs() bool { return s.Protocol == rtnl.Ours && !s.Learned }

// SeenKey identifies an entry by the index of its device: names move from one device
// to another. Its text is "#7 10.0.0.5".
type SeenKey struct {
	Index   int
	Address netip.Addr
}

func (s Seen) key() SeenKey { return SeenKey{s.Index, s.Address} }

// SeenByKey is the primary index.
var SeenByKey = statedb.NewIndex("key", Seen.key)

// SeenByName finds entries by any of the names of their devices.
var SeenByName = statedb.NewMultiIndex("name", func(s Seen) iter.Seq[Key] { return slices.Values(s.keys()) })

// keys returns all keys that rows for the entry can have.
func (s Seen) keys() []Key {
	keys := []Key{{s.Device, s.Address}}
	for name := range strings.FieldsSeq(s.OtherNames) {
		keys = append(keys, Key{name, s.Address})
	}
	return keys
}

// SeenSchema declares the table "observed-neighbors".
func SeenSchema() statedb.Schema[Seen] {
	return statedb.Schema[Seen]{Name: "observed-neighbors", Primary: SeenByKey, Secondary: []statedb.Indexer[Seen]{SeenByName}}
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
	addr, addrErr := netip.ParseAddr(address)
	if !isNumber || err != nil || addrErr != nil {
		return fmt.Errorf("%q is not the key of an observed neighbor, expected the index of its device and its address, as \"#7 10.0.0.5\"", text)
	}
	*k = SeenKey{index, addr}
	return nil
}

// Mirror keeps a table of [Seen] in step with the kernel. Its target looks up existing entries
// in that table.
type Mirror struct{ *mirror.Mirror[Seen, event] }

// NewMirror returns a mirror. It must run before the target is used and until t is
// closed. Nothing else may write to its table.
func (t *Target) NewMirror(db *statedb.DB, seen *statedb.RWTable[Seen]) (Mirror, error) {
	k := &keeper{target: t, table: seen}
	m, err := mirror.New(mirror.Config[Seen, event]{
		DB: db, Table: seen, Decode: decode, Apply: k.apply,
		List:        func(ctx context.Context, _ func() error) ([]Seen, error) { return k.list(ctx) },
		Unannounced: k.links.HasUnannounced,
		// Entries vanish with links, and links are renamed.
		Subscribe: func() (mirror.Subscription, error) {
			return rtnl.Subscribe(unix.RTNLGRP_LINK, unix.RTNLGRP_NEIGH)
		},
	})
	t.mirror.Store(m)
	return Mirror{m}, err
}

// entries returns the entry with a key; the zero value if there is none.
type entries func(SeenKey) Seen

// entries returns a function that looks up entries in a view if that is reliable, else in a new
// listing.
func (t *Target) entries(ctx context.Context, view mirror.View[Seen]) (entries, error) {
	if view.Reliable() {
		return func(k SeenKey) Seen {
			s, _ := view.Get(SeenByKey.Query(k))
			return s
		}, nil
	}
	all, err := t.list(ctx)
	if err != nil {
		return nil, err
	}
	byKey := make(map[SeenKey]Seen, len(all))
	for _, s := range all {
		byKey[s.key()] = s
	}
	return func(k SeenKey) Seen { return byKey[k] }, nil
}

// Observed returns the comparison of rows with the entries in a mirror's table.
func Observed(seen *statedb.Table[Seen]) reconciler.Observation[Neighbor] {
	return reconciler.Observes(seen,
		func(_ statedb.ReadTxn, s Seen) iter.Seq[statedb.Query[Neighbor]] {
			return func(yield func(statedb.Query[Neighbor]) bool) {
				for _, key := range s.keys() {
					if !yield(ByKey.Query(key)) {
						return
					}
				}
			}
		},
		func(txn statedb.ReadTxn, want Neighbor) []reconciler.Change {
			row, err := want.Normalized()
			if err != nil {
				return nil // Update reports it
			}
			is := Seen{}
			for s := range seen.List(txn, SeenByName.Query(row.Key())) {
				is = s
			}
			return steps.Changes(row.compare(is))
		})
}
