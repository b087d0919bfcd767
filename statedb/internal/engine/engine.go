// Package engine says what the tables need of an ordered tree of byte keys.
//
// A [Tree] is an immutable version: safe for concurrent use, never changed. A
// [Txn] builds the next version from one; it belongs to one goroutine at a
// time. Any number of transactions may start from one version, but at most one
// of them may commit; the others are dropped, which has no effect. Keys given to an engine must not be changed afterwards; keys and values
// that it hands out are its own and must not be changed either.
//
// Watches are channels that close. One that was taken from a version closes
// when a later version in which the watched result differs is committed, at
// the moment Notify is called after that commit: the caller publishes the
// new version in between, so whoever wakes up can read it. A watch may close
// without need; it never fails to close.
package engine

import "iter"

// Reader reads a tree.
type Reader[V any] interface {
	// Len is the number of keys.
	Len() int
	// Get returns the value of a key.
	Get(key []byte) (V, bool)
	// Prefix yields the keys that start with prefix, in order. All keys start
	// with the empty prefix. Like all sequences it stays what it was when it was
	// asked for, also while a transaction goes on.
	Prefix(prefix []byte) iter.Seq2[[]byte, V]
	// LowerBound yields all keys that are not less than key, in order.
	LowerBound(key []byte) iter.Seq2[[]byte, V]
	// PrefixReverse yields what Prefix does in the opposite order.
	PrefixReverse(prefix []byte) iter.Seq2[[]byte, V]
	// BelowReverse yields all keys that are less than key, the largest first.
	BelowReverse(key []byte) iter.Seq2[[]byte, V]
	// Below returns the first of them.
	Below(key []byte) (below []byte, value V, ok bool)
}

// Tree is one immutable version.
type Tree[V any] interface {
	Reader[V]
	// Txn starts a transaction on this version.
	Txn() Txn[V]
	// Watch returns the channel for the value of a key, present or not.
	Watch(key []byte) <-chan struct{}
	// WatchPrefix returns the channel for all keys that start with prefix.
	WatchPrefix(prefix []byte) <-chan struct{}
	// Size estimates the bytes of heap that the version occupies: its own, and
	// those of the keys that it was given and refers to.
	Size() (own, keys int)
}

// Txn changes a copy of a version. Its Reader methods see its own writes.
type Txn[V any] interface {
	Reader[V]
	// Insert sets the value of a key and returns the one it replaced.
	Insert(key []byte, value V) (old V, replaced bool)
	// Delete removes a key and returns its value.
	Delete(key []byte) (old V, deleted bool)
	// Commit ends the transaction. The caller publishes the tree and then calls
	// Notify, once.
	Commit() Tree[V]
	Notify()
}
