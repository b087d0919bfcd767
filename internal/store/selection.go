package store

import (
	"fmt"
	"unsafe"

	"github.com/statehive/statehive/internal/store/trie"
)

// Selection is the result of a query: rows in the order of an index, as they were when the
// selection was made. It is immutable. [Scan] visits the rows.
type Selection struct {
	part     trie.Range
	more     []trie.Range // the ranges after part
	distance uintptr      // from the beginning of an entry to its leaf in the index
	separate bool         // leaves are not parts of entries, but point to them
	limited  bool
	limit    int
}

// All selects every row, in the order of the primary index.
func (t *Table) All(txn ReadTxn, opts []ReadOption) *Selection {
	tree := t.treeOf(txn, 0)
	return t.selection(0, tree.All(), opts)
}

// List selects the rows with the query's key, in the order of the primary index.
func (t *Table) List(txn ReadTxn, q Query, opts []ReadOption) *Selection {
	ix := t.mustIndex(q.Index)
	tree := t.treeOf(txn, ix)
	if ix == 0 {
		return t.selection(0, tree.One(q.Key), opts)
	}
	return t.selection(ix, tree.Prefix(t.wholeKey(ix, q.Key)), opts)
}

// Prefix selects the rows with a key that starts with the query's.
func (t *Table) Prefix(txn ReadTxn, q Query, opts []ReadOption) *Selection {
	ix := t.mustIndex(q.Index)
	tree := t.treeOf(txn, ix)
	return t.selection(ix, tree.Prefix(t.prefixKey(ix, q.Key)), opts)
}

// LowerBound selects the rows with keys not less than the query's.
func (t *Table) LowerBound(txn ReadTxn, q Query, opts []ReadOption) *Selection {
	ix := t.mustIndex(q.Index)
	tree := t.treeOf(txn, ix)
	return t.selection(ix, tree.From(t.prefixKey(ix, q.Key)), opts)
}

// Range selects the rows with keys from the first query's up to the second's, which
// is not included. Both must be of one index.
func (t *Table) Range(txn ReadTxn, from, to Query, opts []ReadOption) *Selection {
	ix, first, end := t.rangeKeys(from, to)
	tree := t.treeOf(txn, ix)
	return t.selection(ix, tree.Between(first, end), opts)
}

func (t *Table) rangeKeys(from, to Query) (ix int, first, end []byte) {
	ix = t.mustIndex(from.Index)
	if other := t.mustIndex(to.Index); other != ix {
		panic(fmt.Sprintf("statedb: a range from a key of index %q to one of index %q of table %q",
			t.indexes[ix].Name, t.indexes[other].Name, t.name))
	}
	return ix, t.prefixKey(ix, from.Key), t.prefixKey(ix, to.Key)
}

func (t *Table) selection(ix int, part trie.Range, opts []ReadOption) *Selection {
	s := &Selection{part: part}
	if len(opts) > 0 {
		o := merged(opts)
		s.part.Reverse, s.limited, s.limit = o.reverse, o.limited, o.limit
	}
	if ix > 0 {
		s.distance, s.separate = t.distanceOf(ix)
	}
	return s
}

// distanceOf returns the layout of the leaves of a secondary index: they are at a distance
// from the beginning of their entries, or separate.
func (t *Table) distanceOf(ix int) (distance uintptr, separate bool) {
	for i, embedded := range t.embedded {
		if embedded == ix {
			return t.rows.Size + uintptr(i)*leafSize, false
		}
	}
	return 0, true
}

// Scan visits the rows of a selection. It belongs to one goroutine at a time. Next returns
// the next leaves of the index, and Entry the entry of a leaf, so that visiting a row costs
// very little.
type Scan struct {
	scan      trie.Scan
	selection *Selection
	parts     int // how many ranges in the selection's more have begun
	left      int
}

// Start begins to visit a selection.
func (s *Scan) Start(selection *Selection) {
	s.selection, s.parts, s.left = selection, 0, selection.limit
	s.scan.Start(&selection.part)
}

// Next returns the next leaves, or none at the end. They are valid until the next call.
func (s *Scan) Next() []unsafe.Pointer {
	run := s.scan.Next()
	if len(run) > 0 && !s.selection.limited {
		return run
	}
	return s.nextPart(run)
}

// nextPart goes on to the next part at the end of one, and stops at the limit.
func (s *Scan) nextPart(run []unsafe.Pointer) []unsafe.Pointer {
	if s.selection.limited && s.left <= 0 {
		return nil
	}
	for len(run) == 0 && s.parts < len(s.selection.more) {
		s.scan.Start(&s.selection.more[s.parts])
		s.parts++
		run = s.scan.Next()
	}
	if s.selection.limited {
		run = run[:min(len(run), s.left)]
		s.left -= len(run)
	}
	return run
}

// Layout returns the layout of the leaves: they are at a distance from the beginning of their
// entries, or separate.
func (s *Scan) Layout() (distance uintptr, separate bool) {
	return s.selection.distance, s.selection.separate
}

// Entry returns the entry of a leaf.
func (s *Scan) Entry(leaf unsafe.Pointer) *Entry {
	return EntryOf(leaf, s.selection.distance, s.selection.separate)
}

// EntryOf returns the entry of a leaf with this layout.
func EntryOf(leaf unsafe.Pointer, distance uintptr, separate bool) *Entry {
	if separate {
		return (*Entry)(trie.SeparateEntry(leaf))
	}
	return (*Entry)(unsafe.Add(leaf, -int(distance)))
}

// ReadOption changes the order of the rows that a query yields, or limits their number:
// [WithReverse] and [WithLimit]. If two options contradict each other the last one counts.
type ReadOption struct {
	reverse bool
	limited bool
	limit   int
}

// WithReverse yields the rows in the opposite order, the last one first.
func WithReverse() ReadOption { return ReadOption{reverse: true} }

// WithLimit ends the sequence after n rows; it is empty if n is not positive. With
// [WithReverse] these are the last n rows, the last one first.
func WithLimit(n int) ReadOption { return ReadOption{limited: true, limit: n} }

func merged(opts []ReadOption) (all ReadOption) {
	for _, o := range opts {
		all.reverse = all.reverse || o.reverse
		if o.limited {
			all.limited, all.limit = true, o.limit
		}
	}
	return all
}
