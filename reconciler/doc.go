// Package reconciler drives a target to what the rows of a table say, and writes
// back how far each row is.
//
// # A user's part
//
// The row type has a [Status] (it implements [Reconcilable]), its table is
// declared through [Reconciled], and a [Target] knows how to bring a row about.
// [New] makes a [Reconciler] of them and Run runs it. Nobody marks rows as pending,
// keeps generations or copies rows.
//
// # Promises
//
//   - Nothing runs before the table is initialized, unless [Config].SourceTimeout
//     says so, and no orphans are removed while one of its sources is incomplete.
//   - Two operations on one row never overlap.
//   - An outdated outcome is never written, an outdated delete never run.
//   - A panic of a target is an error of the row; every operation has a deadline.
//   - Own status writes are no changes, and those of others neither.
//
// How it works is told in package internal/engine, which knows nothing of the type of
// rows, and in Documentation/life-of-a-row.md.
//
// # Errors
//
// The error of a row is in its status. errors.As tells which stage it is of:
//
//   - [SourceError]: a source has not delivered what it should; [UnknownKeyError]
//     wraps it, because a row may be missing for that.
//   - statedb.RowError, matching statedb.ErrRejected: the table does not accept the
//     row; it wraps [FieldError] if a field is wrong.
//   - [TargetError]: the target could not do what is wanted. It wraps what the target
//     has returned, or [PanicError] or [StuckError].
//   - [StatusError]: the target has done it, but the status could not be written.
//
// [Terminal] and [RetryAfter] are how a target says when a failed operation is to
// be repeated.
package reconciler
