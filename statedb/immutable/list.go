package immutable

import (
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"
	"unique"
)

// List is an immutable list. The zero value is empty. Lists with equal elements in the
// same order are equal by ==, so that a row with a List as a field stays comparable, and
// share their memory: a List is a pointer. Making a List looks each element up in a table
// of the process, so it is meant for short lists.
type List[T comparable] struct{ first unique.Handle[cell[T]] }

// cell is an element and the list behind it.
type cell[T comparable] struct {
	value T
	rest  List[T]
}

// ListOf returns a list of items, which may be changed afterwards.
func ListOf[T comparable](items ...T) (l List[T]) {
	for _, item := range slices.Backward(items) {
		l = List[T]{unique.Make(cell[T]{item, l})}
	}
	return l
}

// All yields the elements with their positions, starting with 0.
func (l List[T]) All() iter.Seq2[int, T] {
	return func(yield func(int, T) bool) {
		for i := 0; !l.IsZero(); i++ {
			c := l.first.Value()
			if !yield(i, c.value) {
				return
			}
			l = c.rest
		}
	}
}

// Slice returns a slice of the elements, or nil if there are none.
func (l List[T]) Slice() (items []T) {
	for _, item := range l.All() {
		items = append(items, item)
	}
	return items
}

// Len returns the number of elements. It takes time in proportion to that number.
func (l List[T]) Len() (n int) {
	for range l.All() {
		n++
	}
	return n
}

// IsZero reports whether the list is empty, for the option omitzero of encoding/json.
func (l List[T]) IsZero() bool { return l == List[T]{} }

// FromSlice sets the list to the elements that fill puts into a slice. fill gets a *[]T
// that points to an empty slice. FromSlice is for decoders that do not know T.
func (l *List[T]) FromSlice(fill func(slice any)) {
	var items []T
	fill(&items)
	*l = ListOf(items...)
}

// String returns the list as text for people: "a,b".
func (l List[T]) String() string {
	var parts []string
	for _, item := range l.All() {
		parts = append(parts, fmt.Sprint(item))
	}
	return strings.Join(parts, ",")
}

// MarshalJSON returns an array, which is [] for the empty list.
func (l List[T]) MarshalJSON() ([]byte, error) {
	return json.Marshal(append([]T{}, l.Slice()...))
}

// UnmarshalJSON reads an array; null is the empty list.
func (l *List[T]) UnmarshalJSON(data []byte) error {
	var items []T
	if err := json.Unmarshal(data, &items); err != nil {
		return err
	}
	*l = ListOf(items...)
	return nil
}
