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
	"github.com/statehive/statehive/statedb"
)

// Reconciler drives a target to what the rows of a table say. Make it with
// [New] and call Run, once. The other methods are safe for concurrent use, at
// any time.
type Reconciler[Obj any] struct {
	engine *engine.Engine
	table  *statedb.RWTable[Obj]
}

// Params is what a [Reconciler] is made of. DB, Table and Target are required.
type Params[Obj any] struct {
	// Name of the reconciler in metrics, health and commands. Default: the
	// table's name.
	Name   string
	DB     *statedb.DB
	Table  *statedb.RWTable[Obj]
	Target Target[Obj]
	Config Config

	// Related are other tables and events whose changes make rows run.
	Related []Related[Obj]
	// DependsOn are the tables whose rows must be done before rows of this one are
	// updated, and Group the reconcilers that know each other's deletes; nil: none.
	DependsOn []Dependency[Obj]
	Group     *Group
	// Observed, if set, is what rows are compared with while nothing else happens.
	Observed Observation[Obj]

	// RefreshInterval, if set, is how long after a row was applied it is applied again,
	// ±10 %; not positive: it is not. Its status stays done. A time that the target asks for,
	// by Result.Again, comes before it. It is called from one goroutine, whenever a row is
	// done; it returns soon and does not use the reconciler. A row for which it panics is
	// not refreshed, which health shows. Rows with such an interval are kept in memory each
	// by itself; the others cost nothing.
	RefreshInterval func(Obj) time.Duration

	// NotDone, if set, is told of the rows that are not done. Several reconcilers
	// may share the table, under different names.
	NotDone *statedb.RWTable[NotDone]
	// Origin, if set, says who wrote a row, given its table and its key as text:
	// empty when it does not know. Calls may come from several goroutines at once.
	Origin func(table, key string) string
	// Logger and Health may be nil. Rows that fail for the same reason ([FailureGroup]) are one
	// line when the first of them fails, and then at most one a minute, with how many they are
	// and a few of their keys. Of the warnings and errors with the same message
	// at most 100 in a minute are logged; the others are counted, and a line at the end
	// of the minute says how many they were and what the last of them was about.
	Logger *slog.Logger
	Health Health
}

// New returns a reconciler of rows that have one status, or an error that says
// which parameter is wrong.
func New[Obj Reconcilable[Obj]](p Params[Obj]) (*Reconciler[Obj], error) {
	return NewWithStatus(p, StatusField[Obj]{Get: Obj.GetStatus, Set: Obj.WithStatus})
}

// NewWithStatus returns a reconciler of rows that keep its status in a field, so
// that several can share a table. See [StatusSet].
func NewWithStatus[Obj any](p Params[Obj], field StatusField[Obj]) (*Reconciler[Obj], error) {
	untypedParams := engine.Params{
		Name: p.Name, DB: p.DB, Config: p.Config, Group: p.Group, Observed: p.Observed.of,
		NotDone: p.NotDone, Origin: p.Origin, Logger: p.Logger, Health: p.Health,
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
	for _, related := range p.Related {
		untypedParams.Related = append(untypedParams.Related, related.of)
	}
	for _, d := range p.DependsOn {
		untypedParams.DependsOn = append(untypedParams.DependsOn, d.of)
	}
	e, err := engine.New(untypedParams)
	if err != nil {
		return nil, err
	}
	return &Reconciler[Obj]{e, p.Table}, nil
}

// Name returns the name from the params.
func (r *Reconciler[Obj]) Name() string { return r.engine.Name() }

// FullPass asks for a full pass as soon as possible: all rows are applied again
// and orphans are removed. Asking again before it has begun changes nothing.
func (r *Reconciler[Obj]) FullPass() { r.engine.FullPass() }

// Run reconciles until ctx ends. Operations that are running then may go on for
// Config.StopTimeout; their outcomes are still written. Then their contexts end,
// and those that go on nevertheless are left behind and named by the error, which
// is nil otherwise. ErrStarted when Run was called before. When the table is
// dropped Run ends with an error that matches [statedb.ErrDropped], and nothing is
// removed because of that.
func (r *Reconciler[Obj]) Run(ctx context.Context) error { return r.engine.Run(ctx) }

// Summary counts the rows of a snapshot by status. It reads the whole table.
func (r *Reconciler[Obj]) Summary(txn statedb.ReadTxn) Summary { return r.engine.Summary(txn) }

// Trigger has the selected rows applied now, whatever their status, and failed
// deletes tried again, also of rows that wait for their backoff. It returns how
// many were found. Rows that are waiting to be run already are not run twice.
// [ErrNotRunning] when the reconciler does not run.
func (r *Reconciler[Obj]) Trigger(ctx context.Context, which Selector[Obj]) (int, error) {
	return r.engine.Trigger(ctx, which.untyped())
}

// Pause keeps the selected rows from being run until a time, or until
// [Reconciler.Resume] if it is zero: rows that come later too, and deletes too.
// Changes of a row meanwhile end in one operation. An operation that is running
// goes on. [ErrNotRunning] when the reconciler does not run; a restart forgets
// pauses.
func (r *Reconciler[Obj]) Pause(ctx context.Context, which Selector[Obj], until time.Time) error {
	return r.engine.Pause(ctx, which.untyped(), until)
}

// Resume ends the pauses of the selected rows: with the zero Selector all
// pauses, with keys those keys, also out of pauses of more keys, and with Match
// the rows that match, also later, out of the pauses by Match. A key that is in a
// pause of all rows or by Match stays paused, and so does a row that matches and
// is in a pause of all rows or by its key.
func (r *Reconciler[Obj]) Resume(ctx context.Context, which Selector[Obj]) error {
	return r.engine.Resume(ctx, which.untyped())
}

// Forget gives up the pending delete of a row, by its primary key as text: it is
// neither tried again nor shown any longer. One that is running is the last. What
// the target has of the row stays there, unless a full pass finds it an orphan. It
// is logged. [UnknownKeyError] when no such delete is pending, [ErrNotRunning]
// when the reconciler does not run.
func (r *Reconciler[Obj]) Forget(ctx context.Context, key string) error {
	return r.engine.Forget(ctx, key)
}

// Explain says how it stands with a row, given its primary key as text: a row of
// the table, or one whose delete is pending. It works at any time, also while the
// reconciler does not run. [UnknownKeyError] when there is no such row.
func (r *Reconciler[Obj]) Explain(ctx context.Context, key string) (Explanation, error) {
	return r.engine.Explain(ctx, key)
}

// Plan returns what is held, and the id to approve it by. It changes nothing in
// the target. [ErrNotRunning] when the reconciler does not run.
func (r *Reconciler[Obj]) Plan(ctx context.Context) (Plan, error) { return r.engine.Plan(ctx) }

// Approve lets through what the plan with an id showed, once: what was held since
// then stays so. Only the plan that was shown last can be approved: an
// [ApprovalError] names the current one. [ErrNotRunning] when the reconciler does
// not run; a restart forgets plans.
func (r *Reconciler[Obj]) Approve(ctx context.Context, id string) error {
	return r.engine.Approve(ctx, id)
}

// Stats returns how the reconciler stands. It neither reads the table nor waits for
// the reconciler, so that it answers also when that hangs. Before Run, and until the
// target is ready, nothing is queued.
func (r *Reconciler[Obj]) Stats() Stats { return r.engine.Stats() }

// FailureGroups returns the rows whose last operation has failed, by reason. What most rows fail
// for comes first. It neither reads the table nor waits for the reconciler, so that it answers
// also when that hangs. It is empty while the reconciler does not run.
func (r *Reconciler[Obj]) FailureGroups() []FailureGroup { return r.engine.FailureGroups() }

// Limits returns the limits in force.
func (r *Reconciler[Obj]) Limits() Limits { return r.engine.Limits() }

// SetLimits puts limits in the place of those in force. Nothing changes when one
// of them is wrong.
func (r *Reconciler[Obj]) SetLimits(limits Limits) error { return r.engine.SetLimits(limits) }

// WaitRow waits until the row with the primary key of obj is as the table says
// now, or as a later write of it says: done, or gone from the target if the table
// has no such row. A row that never was is gone once the reconciler, after its
// start, has removed the orphans of the target.
//
// It returns, as [Reconciler.WaitTable] and [Reconciler.WaitRevision] do:
//
//   - nil when that has been reached;
//   - a [FailedError] when what is not reached has failed and rests: it waits for
//     its next try, for a change, or is stuck. That may be so from the beginning:
//     [Reconciler.Trigger] has rows tried first. What is held or paused has not
//     failed and is waited for, and so are sources that have still to deliver;
//   - [ErrNotRunning] at once when the reconciler stops. One that was not started
//     yet is waited for, so that Run may be called in another goroutine just now;
//   - the error of ctx when that ends first.
func (r *Reconciler[Obj]) WaitRow(ctx context.Context, obj Obj) error {
	return r.engine.WaitRow(ctx, r.table.KeyQuery(obj).Encoded())
}

// WaitTable waits until everything that the table says now has been reached:
// every row is done, or a later write of it, and what is not in the table is gone
// from the target. It returns as [Reconciler.WaitRow] does.
func (r *Reconciler[Obj]) WaitTable(ctx context.Context) error { return r.engine.WaitTable(ctx) }

// WaitRevision is [Reconciler.WaitTable] for what the table said at a revision,
// which may be one that it has still to come to. Rows that were written soon
// after it may be waited for too, and may be why it fails.
func (r *Reconciler[Obj]) WaitRevision(ctx context.Context, revision statedb.Revision) error {
	return r.engine.WaitRevision(ctx, revision)
}

// NotTried yields what of a snapshot was wanted when the sources had delivered
// their first listings, and has not been tried since, or has failed fewer than so
// many times and will be tried again: keys as text, with how it stands with the row. Rows that
// were deleted or changed since then are none of it, and neither is a row that
// nothing will try soon: that is paused, stuck, has failed for good, or waits for another row, which is
// for the reconciler of that one to tell. Nothing before the first listings. It
// reads the table as far as it is followed. How often a row has failed is known from
// the table of what is not done, which is told of a row at most once a second: a row
// may be yielded that much longer. Without that table nobody knows: one failure is enough then.
func (r *Reconciler[Obj]) NotTried(txn statedb.ReadTxn, tries int) iter.Seq2[string, string] {
	return r.engine.NotTried(txn, tries)
}

// Selector says which rows of a table are meant: those with one of the keys, or
// that match. The zero value means all rows.
type Selector[Obj any] struct {
	Keys []string // primary keys as text, as [statedb.Table.Key] returns them
	// Match is called from several goroutines, also of rows that are deleted. It
	// returns soon and does not use the reconciler. It matches a row for which it
	// panics.
	Match func(Obj) bool
}

func (s Selector[Obj]) untyped() engine.Selector {
	which := engine.Selector{Keys: s.Keys}
	if match := s.Match; match != nil {
		which.Match = func(e *store.Entry) bool { return match(rowOf[Obj](e)) }
	}
	return which
}
