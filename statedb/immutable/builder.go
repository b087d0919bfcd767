package immutable

import (
	iradix "github.com/hashicorp/go-immutable-radix/v2"

	"github.com/statehive/statehive/statedb/index"
)

// MapBuilder makes many changes to a map efficiently: it copies memory that it shares
// with a map once, and then changes its copy. It is made by [Map.Builder] and belongs
// to one goroutine at a time.
type MapBuilder[K Key, V any] struct {
	codec *index.Codec[K]
	txn   *iradix.Txn[element[K, V]]
	len   int
}

// Builder returns a builder that starts with the contents of m, which is not changed.
func (m Map[K, V]) Builder() *MapBuilder[K, V] {
	m = m.ready()
	return &MapBuilder[K, V]{codec: m.codec, txn: m.tree.Txn(), len: m.Len()}
}

// Len returns the number of keys.
func (b *MapBuilder[K, V]) Len() int { return b.len }

// Get returns the value of a key, and reports whether the key is present.
func (b *MapBuilder[K, V]) Get(key K) (V, bool) {
	e, ok := b.txn.Get(b.codec.Append(nil, key))
	return e.value, ok
}

// Set sets the value of key.
func (b *MapBuilder[K, V]) Set(key K, value V) {
	if _, replaced := b.txn.Insert(b.codec.Append(nil, key), element[K, V]{key, value}); !replaced {
		b.len++
	}
}

// Delete removes key and reports whether it was present.
func (b *MapBuilder[K, V]) Delete(key K) bool {
	_, deleted := b.txn.Delete(b.codec.Append(nil, key))
	if deleted {
		b.len--
	}
	return deleted
}

// Map returns the map built so far. The builder can be used further without
// changing the map.
func (b *MapBuilder[K, V]) Map() Map[K, V] {
	return Map[K, V]{codec: b.codec, tree: b.txn.CommitOnly()}
}

// SetBuilder makes many changes to a set efficiently, as [MapBuilder] does to a map.
// It is made by [Set.Builder] and belongs to one goroutine at a time.
type SetBuilder[K Key] struct{ m *MapBuilder[K, struct{}] }

// Builder returns a builder that starts with the elements of s, which is not changed.
func (s Set[K]) Builder() *SetBuilder[K] { return &SetBuilder[K]{s.m.Builder()} }

// Len returns the number of elements.
func (b *SetBuilder[K]) Len() int { return b.m.Len() }

// Has reports whether key is an element.
func (b *SetBuilder[K]) Has(key K) bool {
	_, ok := b.m.Get(key)
	return ok
}

// Add adds key to the set.
func (b *SetBuilder[K]) Add(key K) { b.m.Set(key, struct{}{}) }

// Delete removes key and reports whether it was present.
func (b *SetBuilder[K]) Delete(key K) bool { return b.m.Delete(key) }

// Set returns the set built so far. The builder can be used further without
// changing the set.
func (b *SetBuilder[K]) Set() Set[K] { return Set[K]{b.m.Map()} }
