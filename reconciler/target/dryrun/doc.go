// Package dryrun says what a reconciler would do with rows, compared with what there is: what
// it would create, change field by field, and delete, in that order. It does none of it.
//
// It goes the way of an apply as far as that reads: what a row differs in is told by its
// target's Diff, and what is ours and in no row by its Observe. No other method of a target
// is called, neither Init nor any that writes, and the contract of these two is to write
// nothing. So a plan is as good as they are: see [reconciler.Differ].
//
// A row whose comparison fails because of something that another row is about to make, such
// as the address of a link that does not exist yet, is created after that one. Deletes
// come last, each before those of the rows that it depends on.
//
// A [Kind] may be used by several goroutines at once, if its target may.
package dryrun
