// Package dryrun compares rows with the system and says what a reconciler would create,
// change field by field, and delete, in order, without doing it.
//
// It takes the same path as an apply, as far as that only reads: the target's Diff says how
// a row differs, and its Observe lists what is ours, some of which may be in no row. No other
// method of a target is called, not even Init, and these two must not write.
// So a plan is as good as they are: see [reconciler.Differ].
//
// A row whose comparison fails because of something that another row is about to make, such
// as the address of a link that does not exist yet, is created after that one. Deletes
// come last, each before those of the rows that it depends on.
//
// A [Kind] may be used by several goroutines at once if its target may.
package dryrun
