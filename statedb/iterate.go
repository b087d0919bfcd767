package statedb

import "iter"

// The helpers below work with every sequence that a [Table] returns, and compose
// with each other. The sequences that they return are lazy, and can be iterated
// again if their input can.

// Collect returns the rows of a sequence in its order, without their revisions, or
// nil if there are none. The slice belongs to the caller, but the rows must not be
// changed.
func Collect[Obj any](rows iter.Seq2[Obj, Revision]) []Obj {
	var all []Obj
	for obj := range rows {
		all = append(all, obj)
	}
	return all
}

// Objects yields the rows of a sequence without their revisions, for functions of package
// slices such as [slices.SortedFunc] and [slices.AppendSeq].
func Objects[Obj any](rows iter.Seq2[Obj, Revision]) iter.Seq[Obj] {
	return func(yield func(Obj) bool) {
		for obj := range rows {
			if !yield(obj) {
				return
			}
		}
	}
}

// Filter yields the rows of a sequence for which keep returns true. The limit
// of the query ([WithLimit]) counts rows before they are filtered.
func Filter[Obj any](rows iter.Seq2[Obj, Revision], keep func(Obj) bool) iter.Seq2[Obj, Revision] {
	return func(yield func(Obj, Revision) bool) {
		for obj, revision := range rows {
			if keep(obj) && !yield(obj, revision) {
				return
			}
		}
	}
}

// Map yields the result of convert for each row of a sequence, with the revision
// of the row. convert must not change the row.
func Map[Obj, To any](rows iter.Seq2[Obj, Revision], convert func(Obj) To) iter.Seq2[To, Revision] {
	return func(yield func(To, Revision) bool) {
		for obj, revision := range rows {
			if !yield(convert(obj), revision) {
				return
			}
		}
	}
}
