package trie

import (
	"iter"
	"sync/atomic"
	"unsafe"

	"github.com/statehive/statehive/statedb/internal/engine"
)

// New returns an empty tree.
func New[V any]() engine.Tree[V] {
	return &tree[V]{root: allocate(minSlots), ids: &atomic.Uint64{}}
}

type tree[V any] struct {
	root *node
	size int
	ids  *atomic.Uint64

	held uintptr // see leafFor
}

func (t *tree[V]) Len() int { return t.size }

func (t *tree[V]) Get(key []byte) (V, bool) { return get[V](t.root, key) }

func (t *tree[V]) Prefix(prefix []byte) iter.Seq2[[]byte, V] { return all[V](below(t.root, prefix)) }

func (t *tree[V]) LowerBound(key []byte) iter.Seq2[[]byte, V] { return from[V](t.root, key) }

func (t *tree[V]) PrefixReverse(prefix []byte) iter.Seq2[[]byte, V] {
	return allReverse[V](below(t.root, prefix))
}

func (t *tree[V]) BelowReverse(key []byte) iter.Seq2[[]byte, V] { return belowReverse[V](t.root, key) }

func (t *tree[V]) Below(key []byte) ([]byte, V, bool) { return largestBelow[V](t.root, key) }

func (t *tree[V]) Watch(key []byte) <-chan struct{} { return watchKey(t.root, key) }

func (t *tree[V]) WatchPrefix(prefix []byte) <-chan struct{} {
	return watchPrefix(t.root, prefix)
}

func (t *tree[V]) Size() (own, keys int) {
	return sizeOf(ref(t.root), int(unsafe.Sizeof(leaf[V]{})))
}

func (t *tree[V]) Txn() engine.Txn[V] {
	return &txn[V]{writer: writer{root: ref(t.root), size: t.size, ids: t.ids}, base: t, held: t.held}
}

type txn[V any] struct {
	writer
	base *tree[V]
	held uintptr
}

func (t *txn[V]) Len() int { return t.size }

func (t *txn[V]) Get(key []byte) (V, bool) { return get[V]((*node)(t.root), key) }

func (t *txn[V]) Prefix(prefix []byte) iter.Seq2[[]byte, V] { return all[V](t.kept(prefix)) }

func (t *txn[V]) PrefixReverse(prefix []byte) iter.Seq2[[]byte, V] {
	return allReverse[V](t.kept(prefix))
}

// kept returns what is below a prefix and will not change any more.
func (t *txn[V]) kept(prefix []byte) ref {
	p := below((*node)(t.root), prefix)
	if p != nil && isNode(headOf(p)) {
		t.freeze()
	}
	return p
}

func (t *txn[V]) LowerBound(key []byte) iter.Seq2[[]byte, V] {
	t.freeze()
	return from[V]((*node)(t.root), key)
}

func (t *txn[V]) BelowReverse(key []byte) iter.Seq2[[]byte, V] {
	t.freeze()
	return belowReverse[V]((*node)(t.root), key)
}

func (t *txn[V]) Below(key []byte) ([]byte, V, bool) { return largestBelow[V]((*node)(t.root), key) }

func (t *txn[V]) Insert(key []byte, value V) (V, bool) {
	return valueIf[V](t.insert(key, leafFor(t.held, key, value)))
}

func (t *txn[V]) Delete(key []byte) (V, bool) { return valueIf[V](t.remove(key)) }

func (t *txn[V]) Commit() engine.Tree[V] {
	if base := t.base; base != nil && t.root == ref(base.root) {
		return base
	}
	t.freeze()
	t.base, t.spare = nil, nil // whoever notifies may keep t for a while
	return &tree[V]{root: (*node)(t.root), size: t.size, ids: t.ids, held: t.held}
}

func (t *txn[V]) Notify() { t.old.closeAll((*node)(t.root)) }

func get[V any](root *node, key []byte) (V, bool) { return valueIf[V](find(root, key)) }

func valueIf[V any](p ref) (V, bool) {
	if p == nil {
		return *new(V), false
	}
	return valueOf[V](p, headOf(p)), true
}

func all[V any](p ref) iter.Seq2[[]byte, V] {
	return func(yield func([]byte, V) bool) {
		if p != nil {
			walk(p, yield)
		}
	}
}

func allReverse[V any](p ref) iter.Seq2[[]byte, V] {
	return func(yield func([]byte, V) bool) {
		if p != nil {
			walkReverse(p, yield)
		}
	}
}

func from[V any](root *node, key []byte) iter.Seq2[[]byte, V] {
	return func(yield func([]byte, V) bool) {
		b := boundIn(root, key)
		walkFrom(ref(root), &b, yield)
	}
}

func belowReverse[V any](root *node, key []byte) iter.Seq2[[]byte, V] {
	return func(yield func([]byte, V) bool) {
		b := boundIn(root, key)
		walkBelow(ref(root), &b, yield)
	}
}

func largestBelow[V any](root *node, key []byte) (below []byte, value V, ok bool) {
	p := lastBelow(root, key)
	if p == nil {
		return nil, value, false
	}
	head := headOf(p)
	return keyOf(p, head), valueOf[V](p, head), true
}
