package immutable

import (
	iradix "github.com/hashicorp/go-immutable-radix/v2"

	"github.com/statehive/statehive/statedb/index"
)

// MapBuilder makes many changes to a map at the price of few: it copies what it
// shares with a map once, and then changes its copy. It is made by [Map.Builder]
// and belongs to one goroutine at a time.
type MapBuilder[K Key, V any] struct {
	codec *index.Codec[K]
	txn   *iradix.Txn[element[K, V]]
	len   int
}

// Builder returns a builder that begins with what is in m; m stays as it is.
func (m Map[K, V]) Builder() *MapBuilder[K, V] {
	m = m.ready()
	return &MapBuilder[K, V]{codec: m.codec, txn: m.tree.Txn(), len: m.Len()}
}

// Len returns the number of keys.
func (b *MapBuilder[K, V]) Len() int { return b.len }

// Get returns the value of a key, and whether there is one.
func (b *MapBuilder[K, V]) Get(key K) (V, bool) {
	e, ok := b.txn.Get(b.codec.Append(nil, key))
	return e.value, ok
}

// Set gives key a value.
func (b *MapBuilder[K, V]) Set(key K, value V) {
	if _, replaced := b.txn.Insert(b.codec.Append(nil, key), element[K, V]{key, value}); !replaced {
		b.len++
	}
}

// Delete removes key and says whether it was there.
func (b *MapBuilder[K, V]) Delete(key K) bool {
	_, deleted := b.txn.Delete(b.codec.Append(nil, key))
	if deleted {
		b.len--
	}
	return deleted
}

// Map returns what has been built so far. The builder may go on; the map stays
// as it is.
func (b *MapBuilder[K, V]) Map() Map[K, V] {
	return Map[K, V]{codec: b.codec, tree: b.txn.CommitOnly()}
}

// SetBuilder is to [Set] what [MapBuilder] is to [Map]. It is made by
// [Set.Builder] and belongs to one goroutine at a time.
type SetBuilder[K Key] struct{ m *MapBuilder[K, struct{}] }

// Builder returns a builder that begins with what is in s; s stays as it is.
func (s Set[K]) Builder() *SetBuilder[K] { return &SetBuilder[K]{s.m.Builder()} }

// Len returns the number of elements.
func (b *SetBuilder[K]) Len() int { return b.m.Len() }

// Has says whether key is an element.
func (b *SetBuilder[K]) Has(key K) bool {
	_, ok := b.m.Get(key)
	return ok
}

// Add makes key an element.
func (b *SetBuilder[K]) Add(key K) { b.m.Set(key, struct{}{}) }

// Delete removes key and says whether it was there.
func (b *SetBuilder[K]) Delete(key K) bool { return b.m.Delete(key) }

// Set returns what has been built so far. The builder may go on; the set stays
// as it is.
func (b *SetBuilder[K]) Set() Set[K] { return Set[K]{b.m.Map()} }
