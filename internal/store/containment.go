package store

import (
	"fmt"
	"math/bits"
	"slices"
	"unsafe"

	"github.com/statehive/statehive/internal/store/trie"
)

// A key of an index of networks (see index.Prefixes) is the number of address bytes, the
// masked address and the prefix length, followed by the primary key in a secondary index.

// Containment is a search for networks that contain a given one, or are inside it, in
// what a transaction sees of an index.
type Containment struct {
	table  *Table
	txn    ReadTxn
	ix     int
	tree   trie.Tree // zero when there is nothing to find
	key    []byte
	length int  // of the network's prefix
	valid  bool // whether the network is valid: an invalid one contains nothing and is in nothing
}

// Contain begins a search for the network of a query, whose index must be one of networks.
// The search takes ownership of the query's key.
func (t *Table) Contain(txn ReadTxn, q Query) Containment {
	key := q.Key
	c := Containment{table: t, txn: txn, ix: t.mustIndex(q.Index), key: key}
	if !t.indexes[c.ix].Networks {
		panic(fmt.Sprintf("statedb: a search for networks in index %q of table %q, which is not a PrefixIndex", q.Index.Name, t.name))
	}
	if c.valid = key[0] != 0; c.valid {
		c.tree, c.length = t.treeOf(txn, c.ix), int(key[len(key)-1])
	}
	return c
}

// Longest returns the first row with the longest prefix that contains the network, or nil
// if there is none. It changes the key: no other search may follow.
func (c *Containment) Longest() *Entry {
	last, _ := c.widen(c.length)
	if last == nil || c.ix == 0 {
		return (*Entry)(last)
	}
	return (*Entry)(trie.Entry(c.tree.First(c.key)))
}

// LongestWatch is Longest with a watch.
func (c *Containment) LongestWatch() (*Entry, <-chan struct{}) {
	e := c.Longest()
	length := 0
	if e != nil {
		length = int(c.key[len(c.key)-1])
	}
	return e, c.Watch(length)
}

// widen sets the key to that of the longest prefix in the index that contains the present
// one and has at most length bits. The largest key that is not greater than the present one
// is such a prefix, or else shares with it at least the bits that all such prefixes have.
//
// It returns the last row with this prefix and the length of the prefix, or nil if there is
// none.
func (c *Containment) widen(length int) (last unsafe.Pointer, found int) {
	end := len(c.key) - 1
	for c.tree != (trie.Tree{}) && length >= 0 {
		shorten(c.key, length)
		c.key[end]++
		leaf := c.tree.Below(c.key)
		if leaf == nil {
			return nil, 0
		}
		key := trie.Key(leaf)
		if key[0] != c.key[0] {
			return nil, 0
		}
		length = min(length, commonBits(key[1:end], c.key[1:end]))
		if found = int(key[end]); found <= length {
			shorten(c.key, found)
			return trie.Entry(leaf), found
		}
	}
	return nil, 0
}

// Containing selects the rows with prefixes that contain the network, itself included, from
// the shortest prefix to the longest. It changes the key: no other search may follow.
func (c *Containment) Containing(opts []ReadOption) *Selection {
	var parts []trie.Range
	for e, length := c.widen(c.length); e != nil; e, length = c.widen(length - 1) {
		parts = append(parts, c.tree.Prefix(slices.Clone(c.key)))
	}
	s := c.table.selection(c.ix, trie.Range{}, opts)
	if len(parts) == 0 {
		return s
	}
	reverse := s.part.Reverse
	if !reverse {
		slices.Reverse(parts)
	}
	for i := range parts {
		parts[i].Reverse = reverse
	}
	s.part, s.more = parts[0], parts[1:]
	return s
}

// Within selects the rows with prefixes that are inside the network, itself included,
// in the order of the index.
func (c *Containment) Within(opts []ReadOption) *Selection {
	if c.tree == (trie.Tree{}) {
		return c.table.selection(c.ix, trie.Range{}, opts)
	}
	return c.table.selection(c.ix, c.tree.Between(c.key, lastWithin(c.key, c.length)), opts)
}

// Watch returns the watch of all prefixes that begin with the first length bits of the
// network, rounded down to whole bytes. It must be called before Containing.
func (c *Containment) Watch(length int) <-chan struct{} {
	if !c.valid {
		return nil // an empty result never changes
	}
	return c.table.watch(c.txn, watchPoint{c.ix, slices.Clone(c.key[:1+length/8]), true})
}

// Length returns the length of the network's prefix.
func (c *Containment) Length() int { return c.length }

// shorten cuts a key to the prefix with the first length bits of its address.
func shorten(key []byte, length int) {
	address := key[1 : len(key)-1]
	whole := length / 8
	if whole < len(address) {
		address[whole] &= ^byte(0xff >> (length % 8))
		clear(address[whole+1:])
	}
	key[len(key)-1] = byte(length)
}

// lastWithin returns an upper bound for the keys inside the prefix of key, whose length is
// given: they are less than the bound, and other keys greater than key are not.
func lastWithin(key []byte, length int) []byte {
	last := slices.Clone(key)
	address := last[1 : len(last)-1]
	whole := length / 8
	for i := whole; i < len(address); i++ {
		address[i] = 0xff
	}
	if whole < len(address) {
		address[whole] = key[1+whole] | byte(0xff>>(length%8))
	}
	last[len(last)-1] = 0xff // greater than any length
	return last
}

// commonBits returns how many leading bits two addresses of one family share.
func commonBits(a, b []byte) int {
	for i := range a {
		if x := a[i] ^ b[i]; x != 0 {
			return 8*i + bits.LeadingZeros8(x)
		}
	}
	return 8 * len(a)
}
