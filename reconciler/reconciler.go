package reconciler

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"log/slog"
	"time"

	"github.com/statehive/statehive/internal/store"
	"github.com/statehive/statehive/reconciler/internal/engine"
	"github.com/statehive/statehive/reconciler/internal/hold"
	"github.com/statehive/statehive/statedb"
)

// Reconciler drives a target to the state that the rows of a table describe. Make it with [New]
// and call Run once. The other methods are safe for concurrent use at any time.
type Reconciler[Obj any] struct {
	engine *engine.Engine
	table  *statedb.RWTable[Obj]
}

// Params are the parameters of a [Reconciler]. DB, Table and Target are required.
type Params[Obj any] struct {
	// Name of the reconciler in metrics, health and commands. Default: the
	// table's name.
	Name   string
	DB     *statedb.DB
	Table  *statedb.RWTable[Obj]
	Target Target[Obj]
	Config Config

	// Related are other tables and events that make rows run.
	Related []Related[Obj]
	// DependsOn are the tables whose rows must be done before rows of this table are
	// updated. Group, if not nil, has the reconcilers that wait for each other's deletes.
	DependsOn []Dependency[Obj]
	Group     *Group
	// DeletedBefore name rows that must not be deleted before those of this table, although
	// updates do not wait for them: deleting them would remove what this table has in the target.
	DeletedBefore []Dependency[Obj]
	// DeletedAfter name rows that are to be applied before a row is deleted, such as those that
	// replace it: the delete waits while any of them is pending, however long, and so do the deletes
	// of rows that the row depends on. It does not wait for a row that is in error, unless it is
	// [Dependency.OrFailed], nor for one that agrees with the observed state, as after a start.
	DeletedAfter []Dependency[Obj]
	// DeletesLast makes a delete wait for all rows of the table that were inserted or changed after its own row, and after the start, until
	// each has been applied since, if only with an error that matches [ErrApplied], or is gone: one of them may be in its place, and fail. The
	// deletes of orphans, and those of the [StartPeriod], also wait for the rows of the start. A delete that is triggered by its key does
	// not wait. DeletesLast suits rows that people write: where rows come and go all the time, and one of them always fails, nothing would ever
	// be deleted.
	DeletesLast bool
	// RemovedFirst, if set, yields queries for the rows that may not be possible to apply before a row is deleted. If one of them has
	// failed with an error that matches [fs.ErrExist], DeletesLast does not make the delete wait. RemovedFirst is called from one
	// goroutine. It must return quickly and must not use the reconciler.
	RemovedFirst func(txn statedb.ReadTxn, was Obj) iter.Seq[statedb.Query[Obj]]
	// Removes, if set, reports whether the delete of a row takes something from the target that other rows may depend on, and returns a row
	// that describes what: the target may have it with other fields. If the delete takes nothing, it is not held for rows that would
	// depend on that: see [ChangeLimit]. Removes is called like RemovedFirst.
	Removes func(txn statedb.ReadTxn, was Obj) (is Obj, removes bool)
	// Replaces, if set, reports whether the update of a row would first remove what the row has in the target, as when
	// an object has to be made anew, and returns that row as it was. Like its delete, the update waits for the deletes
	// of rows that depend on that row: for as long as those are paused or need an approval, otherwise for a few
	// seconds. Replaces is called from one goroutine. It must return quickly and must not use the reconciler.
	Replaces func(txn statedb.ReadTxn, row Obj) (was Obj, replaced bool)
	// Memory, if set, remembers across restarts that deletes are held because they exceed
	// Config.DeleteLimit. Without it the limit counts anew after a restart.
	Memory Memory
	// Observed, if set, is what done rows are compared with to detect drift.
	Observed Observation[Obj]

	// RefreshInterval, if set, returns the time after which a row that was applied is applied
	// again, ±10 %. The status of the row stays done. If the result is not positive, the row is
	// not refreshed. Result.Again takes precedence. RefreshInterval is called from one
	// goroutine, whenever a row is done. It must return quickly and must not use the
	// reconciler. A row for which it panics is not refreshed, which health reports. Each
	// row with such an interval takes memory of its own; other rows cost nothing.
	RefreshInterval func(Obj) time.Duration

	// NotDone, if set, is the table of the rows that are not done. Several reconcilers
	// may share the table, under different names.
	NotDone *statedb.RWTable[NotDone]
	// Origin, if set, returns who wrote a row, given its table and its key as text, or ""
	// if that is unknown. It may be called from several goroutines concurrently.
	Origin func(table, key string) string
	// Logger and Health may be nil. For rows that fail for the same reason ([FailureGroup]), one
	// line is logged when the first of them fails, and then at most one line a minute, with
	// their number and some of their keys. At most 100 warnings and errors with the same
	// message are logged per minute. The others are counted, and a line at the end of the
	// minute has their number and the last of them.
	Logger *slog.Logger
	Health Health
}

// StartPeriod is how long after the start deletes count as a part of the change that the start is a part of: see Params.DeletesLast.
const StartPeriod = hold.StartPeriod

// New returns a reconciler of rows that have one status, or an error that
// names the invalid parameter.
func New[Obj Reconcilable[Obj]](p Params[Obj]) (*Reconciler[Obj], error) {
	return NewWithStatus(p, StatusField[Obj]{Get: Obj.GetStatus, Set: Obj.WithStatus})
}

// NewWithStatus returns a reconciler that keeps its status in the given field of
// the rows, so that several reconcilers can share a table. See [StatusSet].
func NewWithStatus[Obj any](p Params[Obj], field StatusField[Obj]) (*Reconciler[Obj], error) {
	untypedParams := engine.Params{
		Name: p.Name, DB: p.DB, Config: p.Config, Group: p.Group, Memory: p.Memory, Observed: p.Observed.of,
		DeletesLast: p.DeletesLast, NotDone: p.NotDone, Origin: p.Origin, Logger: p.Logger, Health: p.Health,
	}
	if p.Table != nil {
		untypedParams.Table = p.Table.Untyped()
	}
	if p.Table != nil && p.Target != nil {
		if err := checkOrphans(p.Target); err != nil {
			return nil, fmt.Errorf("reconciler %q: %w", cmp.Or(p.Name, p.Table.Name()), err)
		}
		untypedParams.Target = untyped(p.Table, p.Target, field)
	}
	if interval := p.RefreshInterval; interval != nil {
		untypedParams.RefreshInterval = func(e *store.Entry) time.Duration { return interval(rowOf[Obj](e)) }
	}
	if first := p.RemovedFirst; first != nil {
		untypedParams.RemovedFirst = func(txn statedb.ReadTxn, e *store.Entry, yield func(store.Query) bool) {
			queries(first(txn, rowOf[Obj](e)), yield)
		}
	}
	if removes := p.Removes; removes != nil {
		untypedParams.Removes = func(txn statedb.ReadTxn, e *store.Entry) *store.Entry {
			is, does := removes(txn, rowOf[Obj](e))
			if !does {
				return nil
			}
			return untypedParams.Table.NewEntry(pointerTo(&is))
		}
	}
	if replaces := p.Replaces; replaces != nil {
		untypedParams.Replaces = func(txn statedb.ReadTxn, e *store.Entry) *store.Entry {
			was, replaced := replaces(txn, rowOf[Obj](e))
			if !replaced {
				return nil
			}
			return untypedParams.Table.NewEntry(pointerTo(&was))
		}
	}
	for _, related := range p.Related {
		untypedParams.Related = append(untypedParams.Related, related.of)
	}
	for _, d := range p.DependsOn {
		untypedParams.DependsOn = append(untypedParams.DependsOn, d.of)
	}
	for _, d := range p.DeletedBefore {
		untypedParams.DeletedBefore = append(untypedParams.DeletedBefore, d.of)
	}
	for _, d := range p.DeletedAfter {
		untypedParams.DeletedAfter = append(untypedParams.DeletedAfter, d.of)
	}
	e, err := engine.New(untypedParams)
	if err != nil {
		return nil, err
	}
	return &Reconciler[Obj]{e, p.Table}, nil
}

// Name returns the name of the reconciler.
func (r *Reconciler[Obj]) Name() string { return r.engine.Name() }

// FullPass requests a full pass as soon as possible: all rows are applied again and orphans
// are removed. Further requests before it begins have no effect.
func (r *Reconciler[Obj]) FullPass() { r.engine.FullPass() }

// Run reconciles until ctx ends. Operations running at that time may go on for
// Config.StopTimeout, and their outcomes are still written. Then their contexts end;
// operations that still do not return are abandoned and named by the error, which is nil
// otherwise. Run returns [ErrStarted] if it was called before. If the table is dropped, Run
// returns an error that matches [statedb.ErrDropped], and nothing is removed from the target.
func (r *Reconciler[Obj]) Run(ctx context.Context) error { return r.engine.Run(ctx) }

// Summary counts the rows of a snapshot by status. It reads the whole table.
func (r *Reconciler[Obj]) Summary(txn statedb.ReadTxn) Summary { return r.engine.Summary(txn) }

// Trigger applies the selected rows now, whatever their status, and retries failed deletes
// without waiting for their backoff. It returns the number of rows found. Rows that are
// already queued run once. Trigger returns [ErrNotRunning] if the reconciler is not running.
func (r *Reconciler[Obj]) Trigger(ctx context.Context, which Selector[Obj]) (int, error) {
	return r.engine.Trigger(ctx, which.untyped())
}

// Pause holds the selected rows, including future rows and deletes, until a time, or until
// [Reconciler.Resume] if the time is zero. Changes in the meantime result in one operation. A
// running operation continues. Pauses do not survive a restart. If there is a [Memory], the deletes of orphans are held after a restart
// while changes are paused. Pause returns [ErrNotRunning] if the reconciler is not running.
func (r *Reconciler[Obj]) Pause(ctx context.Context, which Selector[Obj], until time.Time) error {
	return r.engine.Pause(ctx, which.untyped(), until)
}

// Resume ends pauses: all of them with the zero Selector; with Keys, the pauses of these keys,
// even if they were paused together with others; and with Match, the pauses by Match of
// present and future rows that match. A row stays paused if another pause still covers it: of
// all rows, by Match when resumed by key, or by key when resumed by Match. Resume returns
// [ErrAllPaused] if which has Keys and all rows are paused.
func (r *Reconciler[Obj]) Resume(ctx context.Context, which Selector[Obj]) error {
	return r.engine.Resume(ctx, which.untyped())
}

// Forget gives up the pending delete of a row, given its primary key as text. The delete is
// not retried and no longer shown; if it is running, that run is the last. Whatever the target
// has of the row stays, unless a full pass finds it as an orphan. Forget logs a warning. It
// returns an [UnknownKeyError] if no such delete is pending, and [ErrNotRunning] if the
// reconciler is not running.
func (r *Reconciler[Obj]) Forget(ctx context.Context, key string) error {
	return r.engine.Forget(ctx, key)
}

// Explain explains the state of a row, given its primary key as text. The row is in the table,
// or its delete is pending. Explain also works while the reconciler is not running. It returns
// an [UnknownKeyError] if there is no such row.
func (r *Reconciler[Obj]) Explain(ctx context.Context, key string) (Explanation, error) {
	return r.engine.Explain(ctx, key)
}

// Plan returns the held operations, and the id to approve them by. It changes nothing in the
// target. It returns [ErrNotRunning] if the reconciler is not running.
func (r *Reconciler[Obj]) Plan(ctx context.Context) (Plan, error) { return r.engine.Plan(ctx) }

// Approve releases the operations of a plan, once; operations held since then stay held. Only
// the plan shown last can be approved, or else Approve returns an [ApprovalError] that names
// the current one. Plans do not survive a restart. Approve returns [ErrNotRunning] if the
// reconciler is not running.
func (r *Reconciler[Obj]) Approve(ctx context.Context, id string) error {
	return r.engine.Approve(ctx, id)
}

// Stats returns the current measurements. It neither reads the table nor waits for the
// reconciler, so it works even when that hangs. Nothing is queued until the target is ready.
func (r *Reconciler[Obj]) Stats() Stats { return r.engine.Stats() }

// FailureGroups returns the rows whose last operation failed, grouped by reason, the largest
// group first. It neither reads the table nor waits for the reconciler, so it works even when
// that hangs. It returns nothing while the reconciler is not running.
func (r *Reconciler[Obj]) FailureGroups() []FailureGroup { return r.engine.FailureGroups() }

// Limits returns the limits in force.
func (r *Reconciler[Obj]) Limits() Limits { return r.engine.Limits() }

// SetLimits replaces the limits in force. It changes nothing if one of them is invalid.
func (r *Reconciler[Obj]) SetLimits(limits Limits) error { return r.engine.SetLimits(limits) }

// WaitRow waits until the row with the primary key of obj is reconciled as the table has it
// now, or as of a later write: done, or gone from the target if the table has no such row. A
// row that never existed counts as gone once the reconciler has removed orphans after its
// start.
//
// Like [Reconciler.WaitTable] and [Reconciler.WaitRevision] it returns:
//
//   - nil on success;
//   - a [FailedError] if everything still missing has failed and is idle: backing off, failed
//     for good, or stuck. That may be the case from the beginning; use [Reconciler.Trigger]
//     first to have the rows retried. Held and paused rows have not failed, and are waited for,
//     and so are sources that have not delivered yet;
//   - [ErrNotRunning] when the reconciler stops. If it has not started yet, the call waits for
//     it, so Run may be called concurrently;
//   - ctx's error if ctx ends first.
func (r *Reconciler[Obj]) WaitRow(ctx context.Context, obj Obj) error {
	return r.engine.WaitRow(ctx, r.table.KeyQuery(obj).Encoded())
}

// WaitTable waits until the whole table is reconciled as of now: every row, or a later write
// of it, is done, and what is not in the table is gone from the target. It returns as
// [Reconciler.WaitRow] does.
func (r *Reconciler[Obj]) WaitTable(ctx context.Context) error { return r.engine.WaitTable(ctx) }

// WaitRevision is [Reconciler.WaitTable] as of a revision, which may lie in the future. Rows
// written soon after it may be waited for too, and may be why it fails.
func (r *Reconciler[Obj]) WaitRevision(ctx context.Context, revision statedb.Revision) error {
	return r.engine.WaitRevision(ctx, revision)
}

// NotTried yields the rows of a snapshot that were in the table when its sources had delivered
// their first listings, and that have not been tried since, or have failed fewer than tries
// times and will be retried: the key as text, and a description of the state. It leaves out
// rows that were deleted or changed since, and rows that will not be tried soon because they
// are paused, stuck, have failed for good, or wait for another row, whose reconciler reports
// that one. Before the first listings it yields nothing. It reads the table lazily. The number
// of failures comes from the not-done table, which is written at most once a second for a row,
// so a row may be yielded that much longer. Without that table one failure is enough.
func (r *Reconciler[Obj]) NotTried(txn statedb.ReadTxn, tries int) iter.Seq2[string, string] {
	return r.engine.NotTried(txn, tries)
}

// Selector selects the rows of a table that have one of the keys, or match. The zero value selects
// all rows.
type Selector[Obj any] struct {
	Keys []string // primary keys as text, as [statedb.Table.Key] returns them
	// Match is called from several goroutines, also for deleted rows. It must return
	// quickly and must not use the reconciler. A row for which it panics matches.
	Match func(Obj) bool
}

func (s Selector[Obj]) untyped() engine.Selector {
	which := engine.Selector{Keys: s.Keys}
	if match := s.Match; match != nil {
		which.Match = func(e *store.Entry) bool { return match(rowOf[Obj](e)) }
	}
	return which
}
