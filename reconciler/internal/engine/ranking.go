package engine

import (
	"container/heap"
	"slices"
)

// shown is how many of the first items of a ranking are known.
const shown = 3

// ranking is a heap whose first items, in order, are known at any time. Adding and removing an
// item takes logarithmic time.
type ranking[T any] struct {
	list   []T
	before func(a, b T) int
	at     func(T) *int // where an item keeps its position; -1: it is in no such ranking
}

// add adds an item.
func (r *ranking[T]) add(item T) { heap.Push(r, item) }

// remove removes an item if it is in the ranking.
func (r *ranking[T]) remove(item T) {
	if at := *r.at(item); at >= 0 {
		heap.Remove(r, at)
	}
}

// first returns the first items, in order.
func (r *ranking[T]) first() []T {
	// The one in place n of the order is at most n-1 levels below the top.
	top := slices.Clone(r.list[:min(len(r.list), 1<<shown-1)])
	slices.SortFunc(top, r.before)
	return top[:min(len(top), shown)]
}

// Len implements [heap.Interface].
func (r *ranking[T]) Len() int { return len(r.list) }

// Less implements [heap.Interface].
func (r *ranking[T]) Less(i, j int) bool { return r.before(r.list[i], r.list[j]) < 0 }

// Swap implements [heap.Interface].
func (r *ranking[T]) Swap(i, j int) {
	r.list[i], r.list[j] = r.list[j], r.list[i]
	*r.at(r.list[i]), *r.at(r.list[j]) = i, j
}

// Push implements [heap.Interface].
func (r *ranking[T]) Push(x any) {
	item := x.(T)
	*r.at(item) = len(r.list)
	r.list = append(r.list, item)
}

// Pop implements [heap.Interface].
func (r *ranking[T]) Pop() any {
	last := len(r.list) - 1
	item := r.list[last]
	r.list[last] = *new(T)
	r.list = r.list[:last]
	*r.at(item) = -1
	return item
}
