package statedb

import (
	"github.com/statehive/statehive/statedb/internal/engine"
)

// The keys of a prefix index (see index.Prefixes): the number of address bytes,
// the masked address, the length; behind that, in a secondary index, the primary key.
const maxPrefixKey = 1 + 16 + 1

// shorten makes a key that of the prefix with the first length bits of its address.
func shorten(key []byte, length int) {
	address := key[1 : len(key)-1]
	whole := length / 8
	if whole < len(address) {
		address[whole] &= ^byte(0xff >> (length % 8))
		clear(address[whole+1:])
	}
	key[len(key)-1] = byte(length)
}

// lastWithin returns what all keys inside the prefix of key, whose length is
// given, are less than, and no others that are greater than key.
func lastWithin(key []byte, length int) []byte {
	last := append([]byte(nil), key...)
	address := last[1 : len(last)-1]
	whole := length / 8
	for i := whole; i < len(address); i++ {
		address[i] = 0xff
	}
	if whole < len(address) {
		address[whole] = key[1+whole] | byte(0xff>>(length%8))
	}
	last[len(last)-1] = 0xff // which is no length
	return last
}

// prefixLength is how many keys have a certain length.
type prefixLength uint32

// prefixLengths counts the lengths of the prefixes in a tree.
type prefixLengths struct {
	ipv4 [32 + 1]prefixLength
	ipv6 [128 + 1]prefixLength
}

// family returns the counts of the family that a key belongs to, or nil.
func (l *prefixLengths) family(key []byte) []prefixLength {
	switch {
	case len(key) == 0: // no network: see withoutAll
		return nil
	case key[0] == 4:
		return l.ipv4[:]
	case key[0] == 16:
		return l.ipv6[:]
	}
	return nil
}

// of returns the count that a key belongs to, or nil.
func (l *prefixLengths) of(key []byte) *prefixLength {
	family := l.family(key)
	if family == nil {
		return nil
	}
	return &family[key[1+key[0]]]
}

// prefixTree is the tree of a prefix index: it knows the lengths in use.
type prefixTree[V any] struct {
	engine.Tree[V]
	lengths *prefixLengths
}

func newPrefixTree[V any](empty engine.Tree[V]) engine.Tree[V] {
	return prefixTree[V]{empty, &prefixLengths{}}
}

func (t prefixTree[V]) inUse() *prefixLengths { return t.lengths }

func (t prefixTree[V]) Txn() engine.Txn[V] {
	lengths := *t.lengths
	return &prefixTxn[V]{t.Tree.Txn(), &lengths}
}

type prefixTxn[V any] struct {
	engine.Txn[V]
	lengths *prefixLengths
}

func (t *prefixTxn[V]) inUse() *prefixLengths { return t.lengths }

func (t *prefixTxn[V]) Insert(key []byte, value V) (V, bool) {
	old, replaced := t.Txn.Insert(key, value)
	if n := t.lengths.of(key); n != nil && !replaced {
		*n++
	}
	return old, replaced
}

func (t *prefixTxn[V]) Delete(key []byte) (V, bool) {
	old, deleted := t.Txn.Delete(key)
	if n := t.lengths.of(key); n != nil && deleted {
		*n--
	}
	return old, deleted
}

func (t *prefixTxn[V]) Commit() engine.Tree[V] { return prefixTree[V]{t.Txn.Commit(), t.lengths} }
