// Package reconciler brings a target into the state that the rows of a table describe, and
// records the outcome in the status of each row.
//
// # Usage
//
// The row type has a [Status] and implements [Reconcilable], its table is declared with
// [Reconciled], and a [Target] applies and deletes rows. [New] makes a [Reconciler] of them, and
// its Run method runs it. Users need not mark rows as pending, maintain generations, or copy
// rows.
//
// # Promises
//
//   - No operation runs before the table is initialized or [Config].SourceTimeout has
//     elapsed, and no orphans are removed while a source of the table is incomplete.
//   - Operations on the same row never overlap.
//   - The outcome of an operation on an outdated row is not written, and an outdated delete
//     is not begun.
//   - A panic of a target is an error of the row, and every operation has a deadline.
//   - Writing a status is not a change of the row, no matter which reconciler writes it.
//
// The implementation is described in package internal/engine, which is independent of the row
// type, and in Documentation/life-of-a-row.md.
//
// # Errors
//
// The error of a row is in its status. Its type, found with errors.As, tells which step has
// failed:
//
//   - [SourceError]: a source has not delivered all of its rows. [UnknownKeyError] wraps it,
//     because that may be why a row is missing.
//   - statedb.RowError, which matches statedb.ErrRejected: the table has rejected the row.
//     It wraps [FieldError] if a field is invalid.
//   - [TargetError]: the operation of the target has failed. It wraps the error that the target
//     returned, or [PanicError] or [StuckError].
//   - [StatusError]: the operation has succeeded, but the status could not be written.
//
// With [Terminal] and [RetryAfter] a target controls whether and when a failed operation is
// retried.
package reconciler
