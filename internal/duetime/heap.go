// Package duetime provides a heap of items ordered by the time at which they are due.
package duetime

import (
	"container/heap"
	"time"
)

// Heap holds items of type T, usually pointers. Adding and removing an item takes
// logarithmic time. It is made by [New], and belongs to one goroutine at a time.
type Heap[T any] struct{ items items[T] }

// New returns an empty heap. due returns when an item is due, which must not change while
// the item is in the heap, except before a call of [Heap.Fix]. place returns a pointer to the
// item's position, which the heap sets. It must be -1 for an item that is in no heap.
func New[T any](due func(T) time.Time, place func(T) *int) Heap[T] {
	return Heap[T]{items[T]{due: due, place: place}}
}

// Len returns the number of items.
func (h *Heap[T]) Len() int { return len(h.items.list) }

// First returns the item that is due first, or false if there is none.
func (h *Heap[T]) First() (first T, ok bool) {
	if h.Len() == 0 {
		return first, false
	}
	return h.items.list[0], true
}

// Add adds an item, which must not be in a heap.
func (h *Heap[T]) Add(item T) { heap.Push(&h.items, item) }

// Remove removes an item if it is in the heap.
func (h *Heap[T]) Remove(item T) {
	if at := *h.items.place(item); at >= 0 {
		heap.Remove(&h.items, at)
	}
}

// Fix restores the order of the heap after the due time of one of its items has changed.
func (h *Heap[T]) Fix(item T) { heap.Fix(&h.items, *h.items.place(item)) }

// items implements heap.Interface.
type items[T any] struct {
	list  []T
	due   func(T) time.Time
	place func(T) *int
}

func (h *items[T]) Len() int           { return len(h.list) }
func (h *items[T]) Less(i, j int) bool { return h.due(h.list[i]).Before(h.due(h.list[j])) }

func (h *items[T]) Swap(i, j int) {
	h.list[i], h.list[j] = h.list[j], h.list[i]
	*h.place(h.list[i]), *h.place(h.list[j]) = i, j
}

// Push implements [heap.Interface].
func (h *items[T]) Push(x any) {
	item := x.(T)
	*h.place(item) = len(h.list)
	h.list = append(h.list, item)
}

// Pop implements [heap.Interface].
func (h *items[T]) Pop() any {
	last := len(h.list) - 1
	item := h.list[last]
	h.list[last] = *new(T)
	h.list = h.list[:last]
	*h.place(item) = -1
	return item
}
