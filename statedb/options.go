package statedb

import (
	"bytes"
	"iter"

	"github.com/statehive/statehive/statedb/internal/engine"
)

// ReadOption changes the order of what a query yields, or how much of it:
// [Reverse] and [Limit]. Of two that contradict each other the last one counts.
type ReadOption struct {
	reverse bool
	limited bool
	limit   int
}

// Reverse yields the rows in the opposite order, the last one first.
func Reverse() ReadOption { return ReadOption{reverse: true} }

// Limit ends the sequence after n rows; it is empty if n is not positive. With
// [Reverse] these are the last n rows, the last one first.
func Limit(n int) ReadOption { return ReadOption{limited: true, limit: n} }

func merged(opts []ReadOption) (all ReadOption) {
	for _, o := range opts {
		all.reverse = all.reverse || o.reverse
		if o.limited {
			all.limited, all.limit = true, o.limit
		}
	}
	return all
}

// Count returns how many rows a sequence yields, by running it to its end.
func Count[Obj any](rows iter.Seq2[Obj, Revision]) int {
	n := 0
	for range rows {
		n++
	}
	return n
}

func prefixed[V any](r engine.Reader[V], prefix []byte, o ReadOption) iter.Seq2[[]byte, V] {
	if o.reverse {
		return r.PrefixReverse(prefix)
	}
	return r.Prefix(prefix)
}

func bounded[V any](r engine.Reader[V], from []byte, o ReadOption) iter.Seq2[[]byte, V] {
	if o.reverse {
		return while(r.PrefixReverse(nil), func(key []byte) bool { return bytes.Compare(key, from) >= 0 })
	}
	return r.LowerBound(from)
}

// between yields what is in [from, to).
func between[V any](r engine.Reader[V], from, to []byte, o ReadOption) iter.Seq2[[]byte, V] {
	if o.reverse {
		return while(r.BelowReverse(to), func(key []byte) bool { return bytes.Compare(key, from) >= 0 })
	}
	return while(r.LowerBound(from), func(key []byte) bool { return bytes.Compare(key, to) < 0 })
}

// while ends a sequence at the first key that is not wanted.
func while[V any](entries iter.Seq2[[]byte, V], wanted func(key []byte) bool) iter.Seq2[[]byte, V] {
	return func(yield func([]byte, V) bool) {
		for key, value := range entries {
			if !wanted(key) || !yield(key, value) {
				return
			}
		}
	}
}

func none[Obj any](func(Obj, Revision) bool) {}

func single[Obj any](e *entry[Obj], exists bool, o ReadOption) iter.Seq2[Obj, Revision] {
	if !exists || o.limited && o.limit < 1 {
		return none[Obj]
	}
	return func(yield func(Obj, Revision) bool) { yield(e.obj, e.rev) }
}

func rows[Obj any](entries iter.Seq2[[]byte, *entry[Obj]], o ReadOption) iter.Seq2[Obj, Revision] {
	if o.limited {
		return firstRows(entries, o.limit)
	}
	return func(yield func(Obj, Revision) bool) {
		for _, e := range entries {
			if !yield(e.obj, e.rev) {
				return
			}
		}
	}
}

func firstRows[Obj any](entries iter.Seq2[[]byte, *entry[Obj]], limit int) iter.Seq2[Obj, Revision] {
	if limit < 1 {
		return none[Obj]
	}
	return func(yield func(Obj, Revision) bool) {
		left := limit
		for _, e := range entries {
			left--
			if !yield(e.obj, e.rev) || left == 0 {
				return
			}
		}
	}
}
