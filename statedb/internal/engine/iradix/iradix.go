// Package iradix is the reference engine, on hashicorp/go-immutable-radix.
//
// Its watches are made eagerly, one per node. A transaction never hands out
// watches of its own: those of the version it started from are enough, because
// its commit closes them where it changed something.
package iradix

import (
	"bytes"
	"iter"

	iradix "github.com/hashicorp/go-immutable-radix/v2"

	"github.com/statehive/statehive/statedb/internal/engine"
)

// New returns an empty tree.
func New[V any]() engine.Tree[V] { return tree[V]{iradix.New[V]()} }

type tree[V any] struct{ *iradix.Tree[V] }

func (t tree[V]) Get(key []byte) (V, bool) { return t.Root().Get(key) }

func (t tree[V]) Prefix(prefix []byte) iter.Seq2[[]byte, V] { return seekPrefix(t.Root(), prefix) }

func (t tree[V]) LowerBound(key []byte) iter.Seq2[[]byte, V] { return seekLowerBound(t.Root(), key) }

func (t tree[V]) PrefixReverse(prefix []byte) iter.Seq2[[]byte, V] {
	return seekPrefixReverse(t.Root(), prefix)
}

func (t tree[V]) BelowReverse(key []byte) iter.Seq2[[]byte, V] {
	return seekBelowReverse(t.Root(), key)
}

func (t tree[V]) Below(key []byte) ([]byte, V, bool) { return first(t.BelowReverse(key)) }

func (t tree[V]) Watch(key []byte) <-chan struct{} {
	ch, _, _ := t.Root().GetWatch(key)
	return ch
}

func (t tree[V]) WatchPrefix(prefix []byte) <-chan struct{} {
	return t.Root().Iterator().SeekPrefixWatch(prefix)
}

func (t tree[V]) Txn() engine.Txn[V] {
	inner := t.Tree.Txn()
	inner.TrackMutate(true)
	return &txn[V]{inner: inner, size: t.Tree.Len()}
}

type txn[V any] struct {
	inner *iradix.Txn[V]
	size  int
}

func (t *txn[V]) Len() int { return t.size }

func (t *txn[V]) Get(key []byte) (V, bool) { return t.inner.Get(key) }

// Clone makes later writes copy the nodes that an iterator may be standing on.
func (t *txn[V]) Prefix(prefix []byte) iter.Seq2[[]byte, V] {
	return seekPrefix(t.inner.Clone().Root(), prefix)
}

func (t *txn[V]) LowerBound(key []byte) iter.Seq2[[]byte, V] {
	return seekLowerBound(t.inner.Clone().Root(), key)
}

func (t *txn[V]) PrefixReverse(prefix []byte) iter.Seq2[[]byte, V] {
	return seekPrefixReverse(t.inner.Clone().Root(), prefix)
}

func (t *txn[V]) BelowReverse(key []byte) iter.Seq2[[]byte, V] {
	return seekBelowReverse(t.inner.Clone().Root(), key)
}

func (t *txn[V]) Below(key []byte) ([]byte, V, bool) { return first(t.BelowReverse(key)) }

func (t *txn[V]) Insert(key []byte, value V) (V, bool) {
	old, replaced := t.inner.Insert(key, value)
	if !replaced {
		t.size++
	}
	return old, replaced
}

func (t *txn[V]) Delete(key []byte) (V, bool) {
	old, deleted := t.inner.Delete(key)
	if deleted {
		t.size--
	}
	return old, deleted
}

func (t *txn[V]) Commit() engine.Tree[V] { return tree[V]{t.inner.CommitOnly()} }

func (t *txn[V]) Notify() { t.inner.Notify() }

func seekPrefix[V any](root *iradix.Node[V], prefix []byte) iter.Seq2[[]byte, V] {
	return func(yield func([]byte, V) bool) {
		it := root.Iterator()
		it.SeekPrefix(prefix)
		drain(it, yield)
	}
}

func seekLowerBound[V any](root *iradix.Node[V], key []byte) iter.Seq2[[]byte, V] {
	return func(yield func([]byte, V) bool) {
		it := root.Iterator()
		it.SeekLowerBound(key)
		drain(it, yield)
	}
}

func drain[V any](it *iradix.Iterator[V], yield func([]byte, V) bool) {
	for key, value, ok := it.Next(); ok; key, value, ok = it.Next() {
		if !yield(key, value) {
			return
		}
	}
}

func seekPrefixReverse[V any](root *iradix.Node[V], prefix []byte) iter.Seq2[[]byte, V] {
	return func(yield func([]byte, V) bool) {
		it := root.ReverseIterator()
		it.SeekPrefix(prefix)
		drainReverse(it, yield)
	}
}

// seekBelowReverse leaves out key itself, to which the iterator seeks.
func seekBelowReverse[V any](root *iradix.Node[V], key []byte) iter.Seq2[[]byte, V] {
	return func(yield func([]byte, V) bool) {
		it := root.ReverseIterator()
		it.SeekReverseLowerBound(key)
		drainReverse(it, func(k []byte, value V) bool { return bytes.Equal(k, key) || yield(k, value) })
	}
}

func drainReverse[V any](it *iradix.ReverseIterator[V], yield func([]byte, V) bool) {
	for key, value, ok := it.Previous(); ok; key, value, ok = it.Previous() {
		if !yield(key, value) {
			return
		}
	}
}

func first[V any](sequence iter.Seq2[[]byte, V]) (key []byte, value V, ok bool) {
	for key, value := range sequence {
		return key, value, true
	}
	return nil, value, false
}
