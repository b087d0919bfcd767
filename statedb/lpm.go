package statedb

import (
	"iter"
	"net/netip"

	"github.com/statehive/statehive/internal/store"
	"github.com/statehive/statehive/statedb/index"
)

// PrefixIndex is an [Index] of networks that can also be searched by containment:
// for the longest prefix that contains an address, for all that contain a prefix
// and for all that are inside one. It is immutable and safe for concurrent use,
// and has the transactions, snapshots and watches of every index.
//
// Host bits are ignored: 10.0.0.5/8 is the same as 10.0.0.0/8. IPv4-mapped IPv6 addresses,
// and prefixes of such addresses with at least 96 bits, are the same as the IPv4 addresses
// and prefixes that they represent. IPv4 and IPv6 never contain each other: ::/0 contains no
// IPv4 address, mapped or not. The zone of an address is ignored. An invalid prefix is a key
// like any other, but it contains nothing and is inside nothing; a search for one finds
// nothing.
//
// Keys are ordered by address; a network comes before the networks inside it.
//
// A search for the longest prefix descends the tree once, along the address, and looks
// into neighboring branches only where they can hold a shorter prefix; Containing does this
// once for each prefix that it finds. The watches of the searches may close although the
// result has not changed: they cover the network that was found, widened to whole bytes, or
// the whole address family if none was found and for Containing.
type PrefixIndex[Obj any] struct{ Index[Obj, netip.Prefix] }

// NewPrefixIndex declares an index with exactly one prefix per row, which key
// returns. It may be the primary index.
func NewPrefixIndex[Obj any](name string, key func(Obj) netip.Prefix) PrefixIndex[Obj] {
	return PrefixIndex[Obj]{oneKey(prefixes(name, key == nil), key)}
}

// NewMultiPrefixIndex declares an index with any number of prefixes per row, as
// [NewMultiIndex] does. A search yields a row once for each prefix that it finds.
func NewMultiPrefixIndex[Obj any](name string, keys func(Obj) iter.Seq[netip.Prefix]) PrefixIndex[Obj] {
	return PrefixIndex[Obj]{manyKeys(prefixes(name, keys == nil), keys)}
}

// prefixes is keysOf for networks.
func prefixes(name string, noFunction bool) *keyed[netip.Prefix] {
	k := keysWith(name, index.Prefixes(), nil, noFunction)
	k.index.Networks = true
	return k
}

// Unique is [Index.Unique] for networks.
func (i PrefixIndex[Obj]) Unique() PrefixIndex[Obj] {
	i.Index = i.Index.Unique()
	return i
}

// Lookup returns the row with the longest prefix that contains addr: the first one by
// primary key if several rows have this prefix.
func (i PrefixIndex[Obj]) Lookup(txn ReadTxn, table *Table[Obj], addr netip.Addr) (Obj, Revision, bool) {
	return i.LookupPrefix(txn, table, hostPrefix(addr))
}

// LookupWatch is Lookup with a watch, like the …Watch methods of [Table]. It also closes
// when a longer prefix that contains addr is added.
func (i PrefixIndex[Obj]) LookupWatch(txn ReadTxn, table *Table[Obj], addr netip.Addr) (Obj, Revision, <-chan struct{}, bool) {
	return i.LookupPrefixWatch(txn, table, hostPrefix(addr))
}

// LookupPrefix returns the row with the longest prefix that contains prefix,
// which may be prefix itself.
func (i PrefixIndex[Obj]) LookupPrefix(txn ReadTxn, table *Table[Obj], prefix netip.Prefix) (Obj, Revision, bool) {
	search := i.search(txn, table, prefix)
	return found[Obj](search.Longest())
}

// LookupPrefixWatch is LookupPrefix with a watch.
func (i PrefixIndex[Obj]) LookupPrefixWatch(txn ReadTxn, table *Table[Obj], prefix netip.Prefix) (Obj, Revision, <-chan struct{}, bool) {
	search := i.search(txn, table, prefix)
	e, watch := search.LongestWatch()
	obj, revision, exists := found[Obj](e)
	return obj, revision, watch, exists
}

// Containing yields the rows with prefixes that contain prefix, itself included,
// from the shortest prefix to the longest.
func (i PrefixIndex[Obj]) Containing(txn ReadTxn, table *Table[Obj], prefix netip.Prefix, opts ...ReadOption) iter.Seq2[Obj, Revision] {
	search := i.search(txn, table, prefix)
	return rows[Obj](search.Containing(opts))
}

// ContainingWatch is Containing with a watch.
func (i PrefixIndex[Obj]) ContainingWatch(txn ReadTxn, table *Table[Obj], prefix netip.Prefix, opts ...ReadOption) (iter.Seq2[Obj, Revision], <-chan struct{}) {
	search := i.search(txn, table, prefix)
	selection, watch := search.ContainingWatch(opts)
	return rows[Obj](selection), watch
}

// Within yields the rows with prefixes that are inside prefix, itself included,
// in the order of the index.
func (i PrefixIndex[Obj]) Within(txn ReadTxn, table *Table[Obj], prefix netip.Prefix, opts ...ReadOption) iter.Seq2[Obj, Revision] {
	search := i.search(txn, table, prefix)
	return rows[Obj](search.Within(opts))
}

// WithinWatch is Within with a watch.
func (i PrefixIndex[Obj]) WithinWatch(txn ReadTxn, table *Table[Obj], prefix netip.Prefix, opts ...ReadOption) (iter.Seq2[Obj, Revision], <-chan struct{}) {
	search := i.search(txn, table, prefix)
	selection, watch := search.WithinWatch(opts)
	return rows[Obj](selection), watch
}

func (i PrefixIndex[Obj]) search(txn ReadTxn, table *Table[Obj], prefix netip.Prefix) store.NetworkSearch {
	return table.Untyped().SearchNetworks(txn, i.keys.untyped(), prefix)
}

// hostPrefix returns the prefix of one address, or an invalid one.
func hostPrefix(addr netip.Addr) netip.Prefix {
	return netip.PrefixFrom(addr.WithZone(""), addr.BitLen())
}
