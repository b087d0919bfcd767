package trie

import (
	"encoding/binary"
	"math/bits"
	"unsafe"
)

// A tree may hold networks. The key of a network is the number of address bytes, the
// address with its host bits cleared, and the length of the prefix; more bytes may follow. A
// key that begins with a zero byte is not a network.

// LongestMatch returns the first leaf of the longest network in the tree that contains the
// given one, or nil. The argument is the key of a network, with nothing after it.
//
// The address of a network that contains another one equals the other's address up to the
// length of its prefix, and is zero from there on. So its path is the path of the other one,
// or leaves that path at a chunk in which some of the low bits are cleared, and all chunks
// after that are zero. The search follows the path and, on the way back, searches the
// children that differ from it in this way, of which a node has at most four. The later a
// path diverges, and the fewer bits are cleared, the longer is the network. So the first
// network that is found is the longest.
func (t *Tree) LongestMatch(network []byte) unsafe.Pointer {
	if t.root == nil {
		return nil
	}
	m := match{network, uint64(2 * (len(network) - 1))}
	return m.follow(ref(t.root))
}

// match is a search for the longest network that contains a given one.
type match struct {
	network []byte
	end     uint64 // the first chunk after the address
}

// follow returns the first leaf of the longest match below p, which is on the path.
func (m *match) follow(p ref) ref {
	head := headOf(p)
	offset := head >> offsetShift
	if !isNode(head) || offset >= m.end {
		return m.longest(p)
	}
	n, c := (*node)(p), chunk(m.network, offset)
	if s := symbolOf(c); head&s != 0 {
		if leaf := m.follow(n.child(rank(head, s))); leaf != nil {
			return leaf
		}
	}
	if offset < 2 { // a chunk of the number of address bytes
		return nil
	}
	for c != 0 {
		c &= c - 1 // clears the lowest bit
		if s := symbolOf(c); head&s != 0 {
			if leaf := m.longest(m.zeros(n.child(rank(head, s)))); leaf != nil {
				return leaf
			}
		}
	}
	return nil
}

// zeros returns the highest node or leaf below p at which the address has ended, if all
// chunks up to there are zero, or nil.
func (m *match) zeros(p ref) ref {
	for head := headOf(p); isNode(head) && head>>offsetShift < m.end; head = headOf(p) {
		if head&symbolOf(0) == 0 {
			return nil
		}
		p = (*node)(p).child(rank(head, symbolOf(0)))
	}
	return p
}

// longest returns the first leaf of the longest match below p. p may be nil; otherwise all
// keys below it are networks with the same address.
func (m *match) longest(p ref) ref {
	if p == nil {
		return nil
	}
	key := anyKey(p)
	if key[0] != m.network[0] {
		return nil
	}
	last := len(m.network) - 1
	return m.upTo(p, min(m.network[last], commonBits(key[1:last], m.network[1:last])))
}

// upTo returns the first leaf of the longest network below p whose length is not greater
// than the given one, or nil.
func (m *match) upTo(p ref, length byte) ref {
	if head := headOf(p); isNode(head) && head>>offsetShift < m.end+2 {
		children := (*node)(p).children()
		for i := range children {
			if leaf := m.upTo(children[len(children)-1-i], length); leaf != nil {
				return leaf
			}
		}
		return nil
	}
	leaf := first(p)
	if leafKey(leaf)[len(m.network)-1] > length {
		return nil
	}
	return leaf
}

// commonBits returns how many leading bits two addresses of one family share.
func commonBits(a, b []byte) byte {
	const word = 4 // bytes
	for i := 0; i < len(a); i += word {
		if x := binary.BigEndian.Uint32(a[i:]) ^ binary.BigEndian.Uint32(b[i:]); x != 0 {
			return byte(8*i + bits.LeadingZeros32(x))
		}
	}
	return byte(8 * len(a))
}
