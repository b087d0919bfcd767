package immutable

import (
	"iter"

	iradix "github.com/hashicorp/go-immutable-radix/v2"

	"github.com/statehive/statehive/statedb/index"
)

// Map is a persistent map in key order. The zero value is empty. It is immutable
// and safe for concurrent use, and can be copied.
type Map[K Key, V any] struct {
	_     [0]func()       // no ==: see the package comment
	codec *index.Codec[K] // nil in the zero value, as tree is
	tree  *iradix.Tree[element[K, V]]
}

type element[K Key, V any] struct {
	key   K
	value V
}

// CollectMap returns a map of the pairs that seq yields. The last value of a key counts.
func CollectMap[K Key, V any](seq iter.Seq2[K, V]) Map[K, V] {
	b := Map[K, V]{}.Builder()
	for key, value := range seq {
		b.Set(key, value)
	}
	return b.Map()
}

// Len returns the number of keys.
func (m Map[K, V]) Len() int {
	if m.tree == nil {
		return 0
	}
	return m.tree.Len()
}

// IsZero reports whether the map is empty, for the option omitzero of encoding/json.
func (m Map[K, V]) IsZero() bool { return m.Len() == 0 }

// Get returns the value of a key, and reports whether the key is present.
func (m Map[K, V]) Get(key K) (V, bool) {
	if m.tree == nil {
		return *new(V), false
	}
	e, ok := m.tree.Get(m.codec.Append(nil, key))
	return e.value, ok
}

// Has reports whether a key is present.
func (m Map[K, V]) Has(key K) bool {
	_, ok := m.Get(key)
	return ok
}

// Set returns a map in which key has value. For many changes use [Map.Builder].
func (m Map[K, V]) Set(key K, value V) Map[K, V] {
	m = m.ready()
	m.tree, _, _ = m.tree.Insert(m.codec.Append(nil, key), element[K, V]{key, value})
	return m
}

// Delete returns a map without key, or m itself if key is not present.
func (m Map[K, V]) Delete(key K) Map[K, V] {
	if m.tree == nil {
		return m
	}
	if tree, _, deleted := m.tree.Delete(m.codec.Append(nil, key)); deleted {
		m.tree = tree
	}
	return m
}

// ready returns m, or an empty map with a tree if m is the zero value.
func (m Map[K, V]) ready() Map[K, V] {
	if m.tree == nil {
		m.codec, m.tree = codecOf[K](), iradix.New[element[K, V]]()
	}
	return m
}

// All yields the keys and their values in key order.
func (m Map[K, V]) All() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		if m.tree != nil {
			drain(m.tree.Root().Iterator().Next, yield)
		}
	}
}

// From yields the keys and their values in key order, starting with the first key not less than key.
func (m Map[K, V]) From(key K) iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		if m.tree == nil {
			return
		}
		it := m.tree.Root().Iterator()
		it.SeekLowerBound(m.codec.Append(nil, key))
		drain(it.Next, yield)
	}
}

// Backward yields the keys and their values in reverse key order.
func (m Map[K, V]) Backward() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		if m.tree != nil {
			drain(m.tree.Root().ReverseIterator().Previous, yield)
		}
	}
}

func drain[K Key, V any](next func() ([]byte, element[K, V], bool), yield func(K, V) bool) {
	for _, e, ok := next(); ok; _, e, ok = next() {
		if !yield(e.key, e.value) {
			return
		}
	}
}

// Keys yields the keys in order.
func (m Map[K, V]) Keys() iter.Seq[K] {
	return func(yield func(K) bool) {
		for key := range m.All() {
			if !yield(key) {
				return
			}
		}
	}
}

// Values yields the values in the order of their keys.
func (m Map[K, V]) Values() iter.Seq[V] {
	return func(yield func(V) bool) {
		for _, value := range m.All() {
			if !yield(value) {
				return
			}
		}
	}
}
