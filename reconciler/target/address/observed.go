package address

import (
	"context"
	"fmt"
	"iter"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/target/mirror"
	"github.com/statehive/statehive/reconciler/target/ownership"
	"github.com/statehive/statehive/reconciler/target/rtnl"
	"github.com/statehive/statehive/reconciler/target/steps"
	"github.com/statehive/statehive/statedb"
)

// Seen is an address that a device has, no matter who added it.
type Seen struct {
	Device string `json:"device"`
	// OtherNames are the alternative names of the device, separated by spaces.
	OtherNames string       `json:"otherNames,omitempty"`
	Index      int          `json:"index"` // of the device
	Address    netip.Prefix `json:"address"`
	Duplicate  bool         `json:"duplicate,omitempty"` // another host uses it
	Scope      rtnl.Scope   `json:"scope"`
	// The lifetimes as they were last set. A deprecated address has no preferred one.
	ValidLifetime     Lifetime `json:"validLifetime"`
	PreferredLifetime Lifetime `json:"preferredLifetime"`
	set               uint32   // when that was: see lifetimes
	// Tentative means that the kernel still looks for duplicates. It does not announce changes
	// of the lifetimes then.
	Tentative bool `json:"tentative,omitempty"`
	// Optimistic means that the address may be used although it is tentative.
	Optimistic bool `json:"optimistic,omitempty"`
	// Ours means that the address has our mark, or had it until others changed the address.
	Ours     bool   `json:"ours,omitempty"`
	unmarked bool   // others have removed our mark
	created  uint32 // when the address was added, in hundredths of a second since the boot
	// connects means that the kernel adds a route to its network along with it, unless it is secondary: then another address of the
	// network came first, whose route that is.
	connects, secondary bool
	metric              uint32 // of that route
}

// since returns an address of which was is known from before. If it was ours, and others have changed it without our mark,
// but not added it anew, it is still ours.
func (s Seen) since(was Seen) Seen {
	if was.Ours && !s.Ours && was.created == s.created {
		s.Ours, s.unmarked = true, true
	}
	return s
}

// isUsable reports whether the kernel uses the address.
func (s Seen) isUsable() bool { return (!s.Tentative || s.Optimistic) && !s.Duplicate }

func (s Seen) lifetimes() lifetimes { return lifetimes{s.ValidLifetime, s.PreferredLifetime, s.set} }

// SeenKey identifies an address by the index of its device: names move from one
// device to another. Its text is "#7 10.0.0.5/24".
type SeenKey struct {
	Index   int
	Address netip.Prefix
}

// SeenByKey is the primary index.
var SeenByKey = statedb.NewIndex("key", func(s Seen) SeenKey { return SeenKey{s.Index, s.Address} })

// SeenByHost finds addresses without their prefix lengths.
var SeenByHost = statedb.NewIndex("host", func(s Seen) netip.Addr { return s.Address.Addr() })

// SeenByName finds addresses by any of the names of their devices.
var SeenByName = statedb.NewMultiIndex("name", func(s Seen) iter.Seq[Key] { return slices.Values(s.keys()) })

// seenByNetwork finds the addresses that the kernel uses by their networks, on any of the names of their devices.
var seenByNetwork = statedb.NewMultiIndex("network", func(s Seen) iter.Seq[Network] {
	return func(yield func(Network) bool) {
		for _, key := range s.keys() {
			if s.isUsable() && !yield(Network{key.Device, key.Address.Masked()}) {
				return
			}
		}
	}
})

// keys returns all keys that rows for the address can have.
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
		Name: "observed-addresses", Primary: SeenByKey, Secondary: []statedb.Indexer[Seen]{SeenByName, SeenByHost, seenByNetwork},
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

// Mirror keeps a table of [Seen] in step with the kernel. Its target looks up existing
// addresses in that table.
type Mirror struct{ *mirror.Mirror[Seen, event] }

// NewMirror returns a mirror. It must run before the target is used and until t is
// closed. Nothing else may write to its table.
func (t *Target) NewMirror(db *statedb.DB, seen *statedb.RWTable[Seen]) (Mirror, error) {
	k := &keeper{target: t, db: db, table: seen}
	m, err := mirror.New(mirror.Config[Seen, event]{
		DB: db, Table: seen, Decode: decode, Apply: k.apply,
		List:        func(ctx context.Context, _ func() error) ([]Seen, error) { return k.list(ctx) },
		Unannounced: k.links.HasUnannounced,
		// Addresses vanish with links, and links are renamed.
		Subscribe: func() (mirror.Subscription, error) {
			return rtnl.Subscribe(unix.RTNLGRP_LINK, unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR)
		},
	})
	t.mirror.Store(m)
	return Mirror{m}, err
}

// Unrecorded returns a reporter of addresses that have our mark but no record.
func (t *Target) Unrecorded(db *statedb.DB, seen *statedb.Table[Seen]) mirror.Unrecorded[Seen] {
	return mirror.Unrecorded[Seen]{
		DB: db, Table: seen, What: "addresses",
		Name:   func(s Seen) string { return Key{s.Device, s.Address}.String() },
		Is:     func(s Seen) bool { return s.Ours && !t.isRecorded(s) },
		Remedy: "declare them, or, unless a document that is refused declares them, remove them (ip address del ADDRESS dev DEVICE)",
	}
}

// isRecorded reports whether there is a record of an address, which may have been made
// when its device had another name.
func (t *Target) isRecorded(s Seen) bool {
	for _, key := range s.keys() {
		if rec, known := t.records.Get(key.String()); known && rec.Index == s.Index {
			return true
		}
	}
	return t.recorded.has(t.records, SeenKey{s.Index, s.Address})
}

// recorded caches the set of addresses that have records, whatever the names of their
// devices were. The zero value is ready for use.
type recorded struct {
	mu         sync.Mutex
	addresses  map[SeenKey]bool // nil if not yet collected
	generation uint64           // of the records that addresses was collected from
}

func (r *recorded) has(records *ownership.Records[record], key SeenKey) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if generation := records.Generation(); r.addresses == nil || r.generation != generation {
		r.addresses, r.generation = map[SeenKey]bool{}, generation
		for _, rec := range records.All() {
			r.addresses[rec.seenKey()] = true
		}
	}
	return r.addresses[key]
}

// presence looks up an existing address.
type presence func(SeenKey) (s Seen, present bool)

// present returns a presence that knows everything the kernel did before the call.
func (t *Target) present(ctx context.Context) (presence, error) {
	if view := t.mirror.Load().View(ctx); view.Reliable() {
		return presentIn(view), nil
	}
	return t.presentNow(ctx, unix.AF_UNSPEC)
}

// presentNow is like present for a family, but always uses a new listing.
func (t *Target) presentNow(ctx context.Context, family byte) (presence, error) {
	addresses, err := t.list(ctx, family)
	if err != nil {
		return nil, err
	}
	known := make(map[SeenKey]Seen, len(addresses))
	for _, a := range addresses {
		known[a.SeenKey] = a.seen()
	}
	return func(k SeenKey) (s Seen, present bool) {
		s, present = known[k]
		return s, present
	}, nil
}

func presentIn(view mirror.View[Seen]) presence {
	return func(k SeenKey) (Seen, bool) { return view.Get(SeenByKey.Query(k)) }
}

// Observed returns the comparison of rows with the addresses in a mirror's table.
func (t *Target) Observed(seen *statedb.Table[Seen]) reconciler.Observation[Address] {
	return reconciler.Observes(seen, rowsOf,
		func(txn statedb.ReadTxn, want Address) []reconciler.Change { return t.differences(txn, seen, want) })
}

// ObservedUsable returns a comparison that only checks whether the kernel uses the addresses
// of rows. The kernel does not use an address while it looks for duplicates.
func ObservedUsable(seen *statedb.Table[Seen]) reconciler.Observation[Address] {
	return reconciler.Observes(seen, rowsOf,
		func(txn statedb.ReadTxn, want Address) []reconciler.Change { return unusable(txn, seen, want) })
}

// rowsOf yields queries for the rows that an address may have.
func rowsOf(_ statedb.ReadTxn, s Seen) iter.Seq[statedb.Query[Address]] {
	return func(yield func(statedb.Query[Address]) bool) {
		for _, key := range s.keys() {
			if !yield(ByKey.Query(key)) {
				return
			}
		}
	}
}

func unusable(txn statedb.ReadTxn, seen *statedb.Table[Seen], want Address) []reconciler.Change {
	want, err := want.Normalized()
	if err != nil {
		return nil // Update reports the error
	}
	for s := range seen.List(txn, SeenByName.Query(want.Key())) {
		if !s.isUsable() {
			return steps.Changes(steps.Field("address", s.Address.String()+", tentative", want.Address.String(), nil))
		}
	}
	return nil
}

func (t *Target) differences(txn statedb.ReadTxn, seen *statedb.Table[Seen], want Address) []reconciler.Change {
	want, err := want.Normalized()
	if err != nil {
		return nil // Update reports it
	}
	is := ""
	var different []reconciler.Change
	for s := range seen.List(txn, SeenByName.Query(want.Key())) {
		if s.Duplicate {
			is = s.Address.String() + ", a duplicate"
			continue
		}
		compared := want
		rec, known := t.records.Get(want.Key().String())
		ours := want.Adopt || t.isOurs(s, rec, known)
		if !ours {
			compared = want.leaving(s)
		}
		if s.Tentative {
			compared.ValidLifetime, compared.PreferredLifetime = s.ValidLifetime, s.PreferredLifetime
		}
		different = compared.differences(s)
		if ours && !s.Tentative {
			different = append(different, t.marking(s)...)
		}
		if len(different) == 0 {
			return nil
		}
	}
	if different != nil {
		return different
	}
	return steps.Changes(steps.Field("address", is, want.Address.String(), nil))
}

// Removes returns a function that reports whether the delete of a row removes an address: those of others stay.
func (t *Target) Removes(seen *statedb.Table[Seen]) func(txn statedb.ReadTxn, was Address) (is Address, removes bool) {
	return func(txn statedb.ReadTxn, was Address) (is Address, removes bool) {
		rec, known := t.records.Get(was.Key().String())
		if !known || rec.Existed {
			return was, false
		}
		s, _, found := seen.Get(txn, SeenByKey.Query(rec.seenKey())) // the device may have another name now
		return was, found && t.isOurs(s, rec, true)
	}
}

// leaving returns the row with unset fields taken from the existing address, as is done for
// an address of others.
func (a Address) leaving(is Seen) Address {
	if a.Scope.IsZero() {
		a.Scope = is.Scope
	}
	if a.ValidLifetime.IsZero() && a.PreferredLifetime.IsZero() {
		a.ValidLifetime, a.PreferredLifetime = is.ValidLifetime, is.PreferredLifetime
	}
	return a
}

// differences returns how an existing address differs from the row. The countdown of its
// lifetimes is not a difference.
func (a Address) differences(is Seen) []reconciler.Change {
	var changes []steps.Step
	if a.Address.Addr().Is4() {
		want := rtnl.ScopeOf(a.Scope.Number(unix.RT_SCOPE_UNIVERSE))
		changes = steps.Field("scope", is.Scope, want, nil)
	}
	want := a.lifetimes()
	if !want.valid.agrees(is.ValidLifetime) {
		changes = append(changes, steps.Field("validLifetime", is.ValidLifetime, want.valid, nil)...)
	}
	if !want.preferred.agrees(is.PreferredLifetime) {
		changes = append(changes, steps.Field("preferredLifetime", is.PreferredLifetime, want.preferred, nil)...)
	}
	return steps.Changes(changes)
}
