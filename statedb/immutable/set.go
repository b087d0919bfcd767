package immutable

import "iter"

// Set is a persistent set in key order. The zero value is empty. It is immutable
// and safe for concurrent use, and can be copied.
type Set[K Key] struct{ m Map[K, struct{}] }

// SetOf returns a set of the given keys.
func SetOf[K Key](keys ...K) Set[K] {
	b := Set[K]{}.Builder()
	for _, key := range keys {
		b.Add(key)
	}
	return b.Set()
}

// CollectSet returns a set of the keys that seq yields.
func CollectSet[K Key](seq iter.Seq[K]) Set[K] {
	b := Set[K]{}.Builder()
	for key := range seq {
		b.Add(key)
	}
	return b.Set()
}

// Len returns the number of elements.
func (s Set[K]) Len() int { return s.m.Len() }

// IsZero reports whether the set is empty, for the option omitzero of encoding/json.
func (s Set[K]) IsZero() bool { return s.Len() == 0 }

// Has reports whether key is an element.
func (s Set[K]) Has(key K) bool { return s.m.Has(key) }

// Add returns a set with key, or s itself if key is an element already. For many
// changes use [Set.Builder].
func (s Set[K]) Add(key K) Set[K] {
	if s.Has(key) {
		return s
	}
	return Set[K]{s.m.Set(key, struct{}{})}
}

// Delete returns a set without key, or s itself if key is not an element.
func (s Set[K]) Delete(key K) Set[K] { return Set[K]{s.m.Delete(key)} }

// All yields the elements in order.
func (s Set[K]) All() iter.Seq[K] { return s.m.Keys() }

// From yields the elements in order, starting with the first one not less than key.
func (s Set[K]) From(key K) iter.Seq[K] { return keysOf(s.m.From(key)) }

// Backward yields the elements in reverse order.
func (s Set[K]) Backward() iter.Seq[K] { return keysOf(s.m.Backward()) }

func keysOf[K Key](seq iter.Seq2[K, struct{}]) iter.Seq[K] {
	return func(yield func(K) bool) {
		for key := range seq {
			if !yield(key) {
				return
			}
		}
	}
}

// Union returns the set of the elements that are in s or in other.
func (s Set[K]) Union(other Set[K]) Set[K] {
	if s.Len() < other.Len() {
		s, other = other, s
	}
	b := s.Builder()
	for key := range other.All() {
		b.Add(key)
	}
	return b.Set()
}

// Minus returns the set of the elements that are in s but not in other.
func (s Set[K]) Minus(other Set[K]) Set[K] {
	b := s.Builder()
	for key := range other.All() {
		b.Delete(key)
	}
	return b.Set()
}
