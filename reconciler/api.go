package reconciler

import (
	"time"

	"github.com/statehive/statehive/reconciler/internal/engine"
	"github.com/statehive/statehive/reconciler/internal/hold"
	"github.com/statehive/statehive/reconciler/internal/pool"
	"github.com/statehive/statehive/statedb"
)

// This file has the types that do not depend on the row type. They are defined, and their
// fields documented, in the packages of the engine.

type (
	// Config tunes a reconciler. The zero value of each field stands for its default.
	Config = engine.Config

	// Limits can be changed while a reconciler runs.
	Limits = engine.Limits

	// ChangeLimit bounds how many rows are changed within a window of time, so that a mistake
	// in the desired state does not reach the whole target before anyone notices. Changes that
	// exceed it are held and shown by [Reconciler.Plan], until they are approved with
	// [Reconciler.Approve], or until so many are withdrawn that the rest is within the limit.
	// Time alone releases nothing. A limit of deletes also holds those after which too many rows
	// of other tables of the [Group] would lack a row that they depend on.
	ChangeLimit = hold.ChangeLimit

	// Memory remembers across restarts that deletes are held ([Params].Memory): if any were,
	// the orphans that the next run finds are held, too, however few they are. Its methods are
	// called from one goroutine.
	Memory = hold.Memory

	// HeldDeletes is what a [Memory] stores.
	HeldDeletes = hold.HeldDeletes

	// Drift configures the handling of rows that differ from the observed table.
	Drift = hold.Drift

	// DriftPolicy is what is done about a row that has drifted.
	DriftPolicy = hold.DriftPolicy

	// Health receives the health of a reconciler. Its methods are called from one goroutine,
	// and only when something has changed.
	Health = engine.Health

	// Group connects the reconcilers of a process ([Params].Group). It finds cycles of
	// dependencies, and makes sure that dependents are deleted first: the Delete of a row
	// waits while a reconciler of the group that depends on the row's table ([DependsOn])
	// still has to delete a row that names it, even if both were removed in the same commit.
	// It does not wait for reconcilers that are not running or that are waiting for their
	// sources, nor for rows of its own table that wait for it in turn, and never for longer
	// than five minutes. The delete of an orphan also waits until the other reconcilers have
	// searched for theirs. The limit does not apply while the other reconciler has deletes
	// that are paused or need an approval, even after it has stopped: deleting what those rows
	// depend on would delete them, too.
	//
	// The zero value is an empty group. It is safe for concurrent use.
	Group = hold.Group
)

type (
	// Summary is an overview of a reconciler.
	Summary = engine.Summary

	// Stats are the measurements of a reconciler: totals since it was made, and its current
	// state.
	Stats = engine.Stats

	// Totals are the counts of [Stats] since the reconciler was made.
	Totals = engine.Totals

	// ClassStats describes the rows ready in one priority class: change, manual, retry or
	// refresh.
	ClassStats = engine.ClassStats

	// FailureGroup describes the rows that fail for the same reason: in the same operation, with
	// the same first line of the error's text.
	//
	// Texts that differ only in the key are considered the same: <key> replaces the text of the
	// row's primary key, and each of its words of at least three characters. There are at most
	// 1000 groups. Rows that fit into none of them are in the last one, which has the error
	// "other errors" and no operation.
	FailureGroup = engine.FailureGroup

	// NotDone is an entry of the not-done table: a row that is not done because an operation
	// failed or is to be repeated, or because the row is held. Rows that are merely pending are
	// not listed.
	NotDone = engine.NotDone

	// NotDoneKey identifies a [NotDone] row.
	NotDoneKey = engine.NotDoneKey

	// Explanation is everything known about the state of a row. It is plain data that can be
	// encoded as JSON.
	Explanation = engine.Explanation

	// History is the recent history of the row of an [Explanation].
	History = engine.History

	// Wait is something that a row waits for.
	Wait = engine.Wait

	// Attempt is an operation that failed.
	Attempt = engine.Attempt

	// Plan lists the operations that a reconciler holds because they exceed
	// [Config.DeleteLimit] or [Config.UpdateLimit]. The zero value is empty.
	Plan = engine.Plan

	// Planned is an operation of a [Plan].
	Planned = engine.Planned
)

type (
	// FieldError is the error of an invalid field of a row. Row types return it from their
	// validation; sources of desired state add the position of the field in the document.
	FieldError = engine.FieldError

	// TargetError is the error of an operation of the target. It wraps the returned error, a
	// [PanicError] or a [StuckError], and has the same text.
	TargetError = engine.TargetError

	// StatusError is an error in writing statuses: the operations have run, but the rows do
	// not show it.
	StatusError = engine.StatusError

	// SourceError is the error of a source that has not delivered all of its rows.
	SourceError = engine.SourceError

	// PanicError is the error of an operation that panicked.
	PanicError = engine.PanicError

	// StuckError is the error of an operation that has not returned long after its context has
	// ended. Until it does, no other operation runs on its row.
	StuckError = engine.StuckError

	// FailedError is returned by the Wait methods when some of the rows have failed and no
	// other row is still pending.
	FailedError = engine.FailedError

	// FailedRow is a row whose last operation has failed.
	FailedRow = engine.FailedRow

	// UnknownKeyError is the error for a key that no row has. It matches
	// [statedb.ErrNotFound].
	UnknownKeyError = engine.UnknownKeyError

	// ApprovalError is returned by [Reconciler.Approve] for a plan that is not the one shown
	// last, or that was already approved.
	ApprovalError = engine.ApprovalError
)

const (
	// DriftRepair updates the row at once.
	DriftRepair = hold.DriftRepair
	// DriftReport only reports the row, in health and in the not-done table. A full pass, a
	// change of the row, or a trigger updates it nevertheless.
	DriftReport = hold.DriftReport
)

// StatusIndexName is the name of the index that [NewStatusIndex] makes.
const StatusIndexName = "status"

var (
	// ErrStarted is returned by the second call of Run.
	ErrStarted = engine.ErrStarted
	// ErrAllPaused is returned by [Reconciler.Resume] if rows are named while all are paused.
	ErrAllPaused = engine.ErrAllPaused
	// ErrNotRunning is returned by methods that need a running reconciler if it has not
	// started (Run was not called, or still waits for sources or for the target), or has
	// stopped.
	ErrNotRunning = engine.ErrNotRunning
	// ErrCycle is returned by [New] when a table depends on itself through other
	// tables of the group. Rows may depend on other rows of their own table: see
	// [DependsOn].
	ErrCycle = hold.ErrCycle
	// ErrBatchResults is the error of rows whose [BatchTarget] did not return exactly one
	// outcome for each of them.
	ErrBatchResults = engine.ErrBatchResults
	// ErrApplied is matched by errors of [Target.Update] that mean that the row was applied, although the result does not work, as when
	// another host has an address. Deletes do not wait for such a row because of [Params.DeletesLast].
	ErrApplied = pool.ErrApplied
	// NotDoneByKey is the primary index of the table of [NotDoneSchema].
	NotDoneByKey = engine.NotDoneByKey
)

// NotDoneSchema declares the table of rows that are not done, which is empty when all is well.
// Reconcilers write it along with the statuses, each key at most once a second.
func NotDoneSchema() statedb.Schema[NotDone] { return engine.NotDoneSchema() }

// Terminal marks an error as permanent: the row is not retried until its spec changes or a full
// pass reaches it. Terminal(nil) is nil.
func Terminal(err error) error { return hold.Terminal(err) }

// IsTerminal reports whether an error is marked by [Terminal].
func IsTerminal(err error) bool { return hold.IsTerminal(err) }

// RetryAfter sets the time after which a failed operation is retried, replacing the backoff if d is
// positive. RetryAfter(d, nil) is nil.
func RetryAfter(d time.Duration, err error) error { return hold.RetryAfter(d, err) }
