package immutable

import (
	"bytes"
	"reflect"
)

// Equal reports whether both maps have the same keys with equal values. Values are
// compared by their method Equal if they have one (as maps of this package do), or else
// by reflect.DeepEqual, which does not use such methods of values inside them.
func (m Map[K, V]) Equal(other Map[K, V]) bool {
	return m.EqualFunc(other, equalValues[V]())
}

// EqualFunc reports whether both maps have the same keys with equal values, according to equal.
func (m Map[K, V]) EqualFunc(other Map[K, V], equal func(a, b V) bool) bool {
	switch {
	case m.Len() != other.Len():
		return false
	case m.Len() == 0 || m.tree.Root() == other.tree.Root():
		return true
	}
	a, b := m.tree.Root().Iterator(), other.tree.Root().Iterator()
	for {
		keyA, elementA, ok := a.Next()
		if !ok {
			return true
		}
		keyB, elementB, _ := b.Next()
		if !bytes.Equal(keyA, keyB) || !equal(elementA.value, elementB.value) {
			return false
		}
	}
}

// Equal reports whether both sets have the same elements.
func (s Set[K]) Equal(other Set[K]) bool {
	return s.m.EqualFunc(other.m, func(_, _ struct{}) bool { return true })
}

func equalValues[V any]() func(a, b V) bool {
	t := reflect.TypeFor[V]()
	if _, ok := any(*new(V)).(interface{ Equal(V) bool }); ok && t.Kind() != reflect.Pointer {
		return func(a, b V) bool { return any(a).(interface{ Equal(V) bool }).Equal(b) }
	}
	if basic(t.Kind()) {
		return func(a, b V) bool { return any(a) == any(b) }
	}
	return func(a, b V) bool { return reflect.DeepEqual(a, b) }
}

// basic reports whether reflect.DeepEqual is the same as == for values of this kind.
func basic(kind reflect.Kind) bool {
	return kind == reflect.String || kind >= reflect.Bool && kind <= reflect.Complex128
}
