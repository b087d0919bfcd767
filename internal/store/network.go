package store

import (
	"fmt"
	"net/netip"
	"slices"
	"unsafe"

	"github.com/statehive/statehive/internal/store/trie"
)

// NetworkSearch is a search of an index, as seen by a transaction, for networks that contain
// a given network or are inside it.
type NetworkSearch struct {
	table   *Table
	txn     ReadTxn
	ix      int
	tree    trie.Tree // zero when there is nothing to find
	network networkKey
}

// networkKey is the key of a network, as index.Prefixes encodes it: the number of address
// bytes, the masked address and the length of the prefix. In the tree of a secondary index
// the primary key follows. It is an array so that a search need not allocate it.
type networkKey struct {
	bytes [1 + 16 + 1]byte
	size  int // 0 for an invalid prefix, which contains nothing and is in nothing
}

func keyOfNetwork(p netip.Prefix) (k networkKey) {
	if !p.IsValid() {
		return k
	}
	const mapped = 96 // bits before the IPv4 address in an IPv4-mapped IPv6 address
	addr, length := p.Addr(), p.Bits()
	if addr.Is4In6() && length >= mapped {
		addr, length = addr.Unmap(), length-mapped
	}
	address := k.bytes[:0]
	if addr.Is4() {
		a := addr.As4()
		address = append(append(address, byte(len(a))), a[:]...)
	} else {
		a := addr.As16()
		address = append(append(address, byte(len(a))), a[:]...)
	}
	k.size = len(address) + 1
	k.shorten(length)
	return k
}

func (k *networkKey) key() []byte     { return k.bytes[:k.size] }
func (k *networkKey) address() []byte { return k.bytes[1 : k.size-1] }
func (k *networkKey) length() int     { return int(k.bytes[k.size-1]) }

// shorten cuts a network to the prefix with the first length bits of its address.
func (k *networkKey) shorten(length int) {
	address := k.address()
	if whole := length / 8; whole < len(address) {
		address[whole] &= ^byte(0xff >> (length % 8))
		clear(address[whole+1:])
	}
	k.bytes[k.size-1] = byte(length)
}

// end returns the upper bound of the keys inside the network. The keys inside it are less
// than the bound; all other keys greater than the network's own are not.
func (k *networkKey) end() []byte {
	end, length := *k, k.length()
	address := end.address()
	for i := length / 8; i < len(address); i++ {
		address[i] |= byte(0xff >> max(0, length-8*i))
	}
	end.bytes[end.size-1] = 0xff // greater than any length
	return end.key()
}

// SearchNetworks begins a search for a network in an index of networks.
func (t *Table) SearchNetworks(txn ReadTxn, ix *Index, network netip.Prefix) NetworkSearch {
	n := NetworkSearch{table: t, txn: txn, ix: t.mustIndex(ix), network: keyOfNetwork(network)}
	if !t.indexes[n.ix].Networks {
		panic(fmt.Sprintf("statedb: a search for networks in index %q of table %q, which is not a PrefixIndex", ix.Name, t.name))
	}
	if n.network.size > 0 {
		n.tree = t.treeOf(txn, n.ix)
	}
	return n
}

// Longest returns the first row with the longest prefix that contains the network, or nil
// if there is none.
func (n *NetworkSearch) Longest() *Entry {
	if n.ix == 0 {
		return (*Entry)(n.tree.LongestMatch(n.network.key()))
	}
	return (*Entry)(trie.Entry(n.tree.LongestMatch(n.network.key())))
}

// LongestWatch is Longest with a watch.
func (n *NetworkSearch) LongestWatch() (*Entry, <-chan struct{}) {
	leaf := n.tree.LongestMatch(n.network.key())
	return (*Entry)(trie.Entry(leaf)), n.watch(n.lengthOf(leaf))
}

// lengthOf returns the length of the network of a leaf, and 0 for nil.
func (n *NetworkSearch) lengthOf(leaf unsafe.Pointer) int {
	if leaf == nil {
		return 0
	}
	return int(trie.Key(leaf)[n.network.size-1])
}

// Containing selects the rows with prefixes that contain the network, itself included, from
// the shortest prefix to the longest.
func (n *NetworkSearch) Containing(opts []ReadOption) *Selection {
	var parts []trie.Range
	network := n.network
	for leaf := n.tree.LongestMatch(network.key()); leaf != nil; leaf = n.tree.LongestMatch(network.key()) {
		length := n.lengthOf(leaf)
		network.shorten(length)
		parts = append(parts, n.tree.Prefix(network.key()))
		if length == 0 {
			break
		}
		network.shorten(length - 1)
	}
	s := n.table.selection(n.ix, trie.Range{}, opts)
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

// ContainingWatch is Containing with a watch.
func (n *NetworkSearch) ContainingWatch(opts []ReadOption) (*Selection, <-chan struct{}) {
	return n.Containing(opts), n.watch(0)
}

// Within selects the rows with prefixes that are inside the network, itself included,
// in the order of the index.
func (n *NetworkSearch) Within(opts []ReadOption) *Selection {
	if n.tree == (trie.Tree{}) {
		return n.table.selection(n.ix, trie.Range{}, opts)
	}
	return n.table.selection(n.ix, n.tree.Between(slices.Clone(n.network.key()), n.network.end()), opts)
}

// WithinWatch is Within with a watch.
func (n *NetworkSearch) WithinWatch(opts []ReadOption) (*Selection, <-chan struct{}) {
	length := 0
	if n.network.size > 0 {
		length = n.network.length()
	}
	return n.Within(opts), n.watch(length)
}

// watch returns the watch of all prefixes that begin with the first length bits of the
// network, rounded down to whole bytes.
func (n *NetworkSearch) watch(length int) <-chan struct{} {
	if n.network.size == 0 {
		return nil // an empty result never changes
	}
	return n.table.watch(n.txn, watchPoint{n.ix, slices.Clone(n.network.bytes[:1+length/8]), true})
}
