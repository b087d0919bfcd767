// Package dryrun compares rows with the system and says what a reconciler would create,
// change field by field, and delete, in order, without doing it.
//
// It uses the methods of a target that only read: Diff returns how a row differs, and Observe
// lists the objects that are ours, some of which may be in no row. No other method of a target
// is called, not even Init, and these two must not write. So a plan is only as accurate as
// they are: see [reconciler.Differ].
//
// If the comparison of a row fails because of something that another row is about to create, such
// as the address of a link that does not exist yet, the row is created after the other one.
// Deletes come last; a row is deleted before the rows that it depends on.
//
// A [Kind] is safe for concurrent use if its target is.
package dryrun
