// Package reconciler drives a target to what the rows of a table say, and writes
// back how far each row is.
//
// # A user's part
//
// The row type has a [Status] (it implements [Reconcilable]), its table is
// declared through [Reconciled], and a [Target] knows how to bring a row about.
// Nobody marks rows as pending, keeps generations or copies rows.
//
// # How a row travels
//
// A write of spec makes a row pending and puts a record into the table's change
// feed. The deciding goroutine (loop.go) reads the feed; the record is a hint,
// the status on the newest row says whether there is work. Then the row is an
// item of the queue (queue.go, lane.go), at most once, however often it changes.
// A free worker (operation.go) gets the newest row and calls the target. What
// came of it is written together with other outcomes (commit.go), provided that
// the spec is still the one that was worked on; else it counts for nothing, and
// the row is run again. A failed row waits for its backoff (retry.go) and
// stands in the not-done table meanwhile (notdone.go). A deleted row lives on as
// an item until the target's Delete has succeeded, or the row has come back.
//
// A full pass (full.go) applies every row again and removes what the target has
// and the table has not. It runs in slices, between the changes. At start only
// rows that are not done are applied, then the surplus is removed.
//
// # Promises
//
//   - Nothing runs before the table is initialized, and no surplus is removed
//     while one of its sources is incomplete.
//   - Two operations on one row never overlap.
//   - An outdated outcome is never written, an outdated delete never run.
//   - A panic of a target is an error of the row; every operation has a deadline.
//
// # Errors
//
// The error of a row is in its status, as the target returned it. [PanicError],
// [StatusError] and [FieldError] tell where an error came from.
package reconciler
