package statedb

import (
	"iter"
	"net/netip"
	"slices"

	"github.com/statehive/statehive/statedb/index"
	"github.com/statehive/statehive/statedb/internal/engine"
)

// PrefixIndex is an [Index] of networks that can also be searched by containment:
// for the longest prefix that contains an address, for all that contain a prefix
// and for all that are inside one. It is immutable and safe for concurrent use,
// and has the transactions, snapshots and watches of every index.
//
// Host bits do not count: 10.0.0.5/8 is 10.0.0.0/8. IPv4-mapped IPv6 addresses,
// and such prefixes of /96 and longer, are the IPv4 ones that they stand for.
// IPv4 and IPv6 never contain each other: ::/0 contains no IPv4 address, mapped or not. The
// zone of an address does not count. An invalid prefix is a key like any other,
// but contains nothing and is inside of nothing; a search for one finds nothing.
//
// The order is that of addresses, a network before those inside it.
//
// A search by containment looks for the nearest network before what is searched, and
// again for what both have in common when that one is a neighbor that does not contain it:
// once or twice where networks lie apart, and in the worst case, among neighboring hosts,
// for each bit of the address. Its cost does not grow with the rows otherwise. The watches of the searches may
// close without need: they cover the network that was found (all of the family
// when none was, and for Containing), widened to whole bytes.
type PrefixIndex[Obj any] struct{ Index[Obj, netip.Prefix] }

// NewPrefixIndex declares an index with exactly one prefix per row, which key
// returns. It may be the primary index.
func NewPrefixIndex[Obj any](name string, key func(Obj) netip.Prefix) PrefixIndex[Obj] {
	return prefixIndex(NewIndex(name, key))
}

// NewMultiPrefixIndex declares an index with any number of prefixes per row, as
// [NewMultiIndex] does. A search yields a row once for each prefix that it finds.
func NewMultiPrefixIndex[Obj any](name string, keys func(Obj) iter.Seq[netip.Prefix]) PrefixIndex[Obj] {
	return prefixIndex(NewMultiIndex(name, keys))
}

func prefixIndex[Obj any](ix Index[Obj, netip.Prefix]) PrefixIndex[Obj] {
	ix.codec, ix.networks = index.Prefixes(), true
	return PrefixIndex[Obj]{ix}
}

// Unique is [Index.Unique] for networks.
func (i PrefixIndex[Obj]) Unique() PrefixIndex[Obj] {
	i.Index = i.Index.Unique()
	return i
}

// Lookup returns the row with the longest prefix that contains addr: of several
// rows with this prefix the first one by primary key.
func (i PrefixIndex[Obj]) Lookup(txn ReadTxn, table Table[Obj], addr netip.Addr) (Obj, Revision, bool) {
	return i.LookupPrefix(txn, table, hostPrefix(addr))
}

// LookupWatch is Lookup with a watch, as the …Watch methods of [Table] have it:
// also a new, longer prefix that contains addr closes it.
func (i PrefixIndex[Obj]) LookupWatch(txn ReadTxn, table Table[Obj], addr netip.Addr) (Obj, Revision, <-chan struct{}, bool) {
	return i.LookupPrefixWatch(txn, table, hostPrefix(addr))
}

// LookupPrefix returns the row with the longest prefix that contains prefix,
// which may be prefix itself.
func (i PrefixIndex[Obj]) LookupPrefix(txn ReadTxn, table Table[Obj], prefix netip.Prefix) (Obj, Revision, bool) {
	s := i.search(txn, table, prefix)
	e, _ := s.longest()
	if e == nil {
		return *new(Obj), 0, false
	}
	return e.obj, e.rev, true
}

// LookupPrefixWatch is LookupPrefix with a watch.
func (i PrefixIndex[Obj]) LookupPrefixWatch(txn ReadTxn, table Table[Obj], prefix netip.Prefix) (Obj, Revision, <-chan struct{}, bool) {
	s := i.search(txn, table, prefix)
	e, length := s.longest()
	watch := s.watch(length)
	if e == nil {
		return *new(Obj), 0, watch, false
	}
	return e.obj, e.rev, watch, true
}

// Containing yields the rows with prefixes that contain prefix, itself included,
// from the shortest prefix to the longest.
func (i PrefixIndex[Obj]) Containing(txn ReadTxn, table Table[Obj], prefix netip.Prefix, opts ...ReadOption) iter.Seq2[Obj, Revision] {
	o := merged(opts)
	s := i.search(txn, table, prefix)
	return rows(s.containing(o), o)
}

// ContainingWatch is Containing with a watch.
func (i PrefixIndex[Obj]) ContainingWatch(txn ReadTxn, table Table[Obj], prefix netip.Prefix, opts ...ReadOption) (iter.Seq2[Obj, Revision], <-chan struct{}) {
	s := i.search(txn, table, prefix)
	return i.Containing(txn, table, prefix, opts...), s.watch(0)
}

// Within yields the rows with prefixes that are inside prefix, itself included,
// in the order of the index.
func (i PrefixIndex[Obj]) Within(txn ReadTxn, table Table[Obj], prefix netip.Prefix, opts ...ReadOption) iter.Seq2[Obj, Revision] {
	o := merged(opts)
	s := i.search(txn, table, prefix)
	return rows(s.within(o), o)
}

// WithinWatch is Within with a watch.
func (i PrefixIndex[Obj]) WithinWatch(txn ReadTxn, table Table[Obj], prefix netip.Prefix, opts ...ReadOption) (iter.Seq2[Obj, Revision], <-chan struct{}) {
	s := i.search(txn, table, prefix)
	return i.Within(txn, table, prefix, opts...), s.watch(s.length)
}

// hostPrefix returns the prefix of one address, or an invalid one.
func hostPrefix(addr netip.Addr) netip.Prefix {
	return netip.PrefixFrom(addr.WithZone(""), addr.BitLen())
}

// prefixSearch is a search for a prefix in what a transaction sees of an index.
type prefixSearch[Obj any] struct {
	table  *table[Obj]
	txn    ReadTxn
	ix     int
	reader engine.Reader[*entry[Obj]] // nil when there is nothing to find
	key    []byte
	length int  // of the prefix
	valid  bool // the prefix, and its index
}

func (i PrefixIndex[Obj]) search(txn ReadTxn, table Table[Obj], prefix netip.Prefix) prefixSearch[Obj] {
	t := table.erased().(anyTable[Obj]).t
	key := i.codec.Append(make([]byte, 0, maxPrefixKey), prefix)
	ix, ok := t.indexOf(i.name)
	if !ok || !t.indexes[ix].ofNetworks() || key[0] == 0 {
		return prefixSearch[Obj]{table: t, txn: txn, key: key}
	}
	return prefixSearch[Obj]{table: t, txn: txn, ix: ix, reader: t.reader(txn, ix), key: key, length: int(key[len(key)-1]), valid: true}
}

// longest returns the first row with the longest prefix that contains the one
// that is searched for, and its length; nil and 0 if there is none. The key becomes that of
// this prefix.
func (s *prefixSearch[Obj]) longest() (*entry[Obj], int) {
	last, length := s.widen(s.length)
	if last == nil || s.ix == 0 {
		return last, length
	}
	return firstEntry(s.reader, s.key), length
}

// widen makes the key that of the longest prefix in the index which contains the
// present one and is of at most this length. The largest key that is not greater than the
// present one is such a prefix, or else has at least those bits in common with it that all
// such prefixes have.
//
// It returns the last row with this prefix, and the prefix's length; nil if there is none.
func (s *prefixSearch[Obj]) widen(length int) (last *entry[Obj], found int) {
	end := len(s.key) - 1
	for s.reader != nil && length >= 0 {
		shorten(s.key, length)
		s.key[end]++
		key, e, ok := s.reader.Below(s.key)
		if !ok || key[0] != s.key[0] {
			return nil, 0
		}
		length = min(length, commonBits(key[1:end], s.key[1:end]))
		if found = int(key[end]); found <= length {
			shorten(s.key, found)
			return e, found
		}
	}
	return nil, 0
}

func (s *prefixSearch[Obj]) containing(o ReadOption) iter.Seq2[[]byte, *entry[Obj]] {
	var parts []iter.Seq2[[]byte, *entry[Obj]]
	for e, length := s.widen(s.length); e != nil; e, length = s.widen(length - 1) {
		parts = append(parts, prefixed(s.reader, slices.Clone(s.key), o))
	}
	if !o.reverse {
		slices.Reverse(parts)
	}
	return func(yield func([]byte, *entry[Obj]) bool) {
		for _, part := range parts {
			for key, e := range part {
				if !yield(key, e) {
					return
				}
			}
		}
	}
}

func (s *prefixSearch[Obj]) within(o ReadOption) iter.Seq2[[]byte, *entry[Obj]] {
	if s.reader == nil {
		return func(func([]byte, *entry[Obj]) bool) {}
	}
	return between(s.reader, s.key, lastWithin(s.key, s.length), o)
}

// watch covers all prefixes that begin as the first length bits do.
func (s *prefixSearch[Obj]) watch(length int) <-chan struct{} {
	return s.table.watchPrefix(s.txn, s.ix, s.key[:1+length/8], s.valid)
}
