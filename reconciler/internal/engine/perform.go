package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/statehive/statehive/internal/store"
	"github.com/statehive/statehive/reconciler/internal/hold"
	"github.com/statehive/statehive/reconciler/internal/pool"
	"github.com/statehive/statehive/reconciler/internal/workqueue"
)

func (l *loop) newPool(ctx context.Context) *pool.Pool {
	c := &l.r.p.Config
	return pool.New(ctx, c.Workers, pool.Deadlines{Operation: c.OperationTimeout, Grace: c.stuckAfter()}, pool.Calls{
		Snapshot:   l.r.p.DB.ReadTxn,
		NewChecker: func() pool.Checker { return &taskChecker{r: l.r, depends: l.r.depends.NewChecker()} },
		Perform:    l.r.performUntil(ctx),
		Joined:     l.r.p.Target.UpdateBatch != nil,
	})
}

// performUntil returns a function like perform, except that listings end when ctx ends because the
// reconciler stops. A listing changes nothing, so there is no need to wait for it.
func (r *Engine) performUntil(ctx context.Context) func(context.Context, store.ReadTxn, *pool.Batch, []pool.Task) {
	return func(operation context.Context, txn store.ReadTxn, b *pool.Batch, tasks []pool.Task) {
		if tasks[0].Kind == pool.Observe {
			listing, end := context.WithCancelCause(operation)
			defer end(nil)
			defer context.AfterFunc(ctx, func() { end(pool.ErrStopped) })()
			operation = listing
		}
		r.perform(operation, txn, b, tasks)
	}
}

// taskChecker is a [pool.Checker].
type taskChecker struct {
	r       *Engine
	depends *hold.Checker
	same    bool // dependencies have not changed since the batch was handed out
}

// Begin implements [pool.Checker].
func (c *taskChecker) Begin(before, now store.ReadTxn) { c.same = c.depends.Same(before, now) }

// Current implements [pool.Checker].
func (c *taskChecker) Current(txn store.ReadTxn, t *pool.Task) bool {
	all := c.r.sources(txn)
	e := c.r.p.Table.FindKey(txn, t.Entry.Key())
	switch {
	case !all.ready():
		return false
	case t.Kind == pool.Delete:
		return e == nil && (!t.Full || len(all.incomplete) == 0)
	case e == nil:
		return false
	}
	if (!c.same || e != t.Entry) && c.depends.Blocked(txn, e) {
		return false
	}
	if e != t.Entry {
		was := c.r.status(e).Kind()
		if e.Spec() == t.Entry.Spec() && was == Pending {
			was = t.Was // its status was reset because of drift
		}
		if !c.r.p.Config.UpdateLimit.Ignores(t.Was, was) {
			return false
		}
		t.Newer = &pool.Newer{Was: was, Entry: e}
	}
	return true
}

// perform calls the target for tasks of one kind that are not skipped.
func (r *Engine) perform(ctx context.Context, txn store.ReadTxn, b *pool.Batch, tasks []pool.Task) {
	if len(tasks) > 1 {
		r.performJoined(ctx, txn, tasks)
		return
	}
	t := &tasks[0]
	var err error
	switch t.Kind {
	case pool.Update:
		t.Result, err = r.p.Target.Update(ctx, txn, t.Newest())
	case pool.Delete:
		err = r.p.Target.Delete(ctx, txn, t.Entry)
	case pool.Observe:
		b.Answer.Observed, err = r.p.Target.Observe(ctx)
	case pool.Prune:
		b.Answer.Pruned, err = r.p.Target.Prune(ctx, txn)
	}
	t.Err = r.explained(ctx, err)
}

// performJoined calls the target once for many rows.
func (r *Engine) performJoined(ctx context.Context, txn store.ReadTxn, tasks []pool.Task) {
	rows := make([]*store.Entry, 0, len(tasks))
	for i := range tasks {
		if !tasks[i].Skipped {
			rows = append(rows, tasks[i].Newest())
		}
	}
	var results []BatchResult
	if tasks[0].Kind == pool.Update {
		results = r.p.Target.UpdateBatch(ctx, txn, rows)
	} else {
		for _, err := range r.p.Target.DeleteBatch(ctx, txn, rows) {
			results = append(results, BatchResult{Err: err})
		}
	}
	if len(results) != len(rows) {
		pool.Fail(tasks, fmt.Errorf("%w: %d for %d rows", ErrBatchResults, len(results), len(rows)))
		return
	}
	for i := range tasks {
		if t := &tasks[i]; !t.Skipped {
			t.Result, t.Err = results[0].Result, r.explained(ctx, results[0].Err)
			results = results[1:]
		}
	}
}

// readable returns err, or an error that replaces it if reading it panics, as with a nil pointer
// returned as an error.
func readable(err error) error {
	if err == nil {
		return nil
	}
	panicked := pool.Guard(func() {
		_ = err.Error()
		_, _ = hold.RetryDelay(err)
		_ = hold.IsTerminal(err)
	})
	if panicked != nil {
		return fmt.Errorf("the target returned an error of type %T whose Error method panics: %w", err, panicked)
	}
	return err
}

// explained adds the reason why the context ended to an error.
func (r *Engine) explained(ctx context.Context, err error) error {
	err = readable(err)
	switch cause := context.Cause(ctx); {
	case err == nil || cause == nil:
		return err
	case errors.Is(cause, pool.ErrOverdue):
		return fmt.Errorf("took longer than %v: %w", r.p.Config.OperationTimeout, err)
	default:
		return fmt.Errorf("%w: %w", cause, err)
	}
}

// maxStuckGrace bounds how long an operation may go on after the end of its
// context before it counts as stuck.
const maxStuckGrace = 10 * time.Second

func (c *Config) stuckAfter() time.Duration { return min(c.OperationTimeout, maxStuckGrace) }

// watchOver ends the contexts of operations that take too long, and replaces the workers of those
// that continue anyway.
func (l *loop) watchOver(now time.Time) {
	l.pool.EndOverdue(now)
	for _, w := range l.pool.Suspects(now) {
		l.replace(w, now)
	}
}

// replace replaces a stuck worker by a new one, and reports the operation. Its row stays with the
// old worker until the operation returns.
func (l *loop) replace(w *pool.Worker, now time.Time) {
	began, _ := w.Began()
	stack, took := w.Stack(), now.Sub(began)
	l.takeBack(w.Batch)
	l.collect(w, now)
	if !l.pool.Replace(w, began) {
		return
	}
	inHand := w.Batch.InHand()
	for i := range inHand {
		if !inHand[i].Skipped {
			l.reportStuck(&inHand[i], &StuckError{After: took, Stack: stack}, now)
		}
	}
	for i := range inHand {
		if out := &inHand[i]; out.Skipped { // part of the call's tasks, but not passed to the target
			l.skipped(out, now)
			out.GivenBack = true
		}
	}
}

// reportStuck logs a stuck operation and writes its status.
func (l *loop) reportStuck(out *pool.Task, stuck *StuckError, now time.Time) {
	err := &TargetError{Operation: out.Kind.String(), Err: stuck}
	l.r.p.Logger.Error("operation is stuck", "reconciler", l.r.p.Name, "operation", out.Kind.String(),
		"key", l.nameOf(out), "after", stuck.After, "stack", string(stuck.Stack))
	if out.Kind.Question() {
		l.full.asked = false
		l.fullFailed(err, now)
		return
	}
	if out.Item == nil {
		l.giveUpRound(now)
	}
	it := out.Item
	if it == nil || it.Stage() != workqueue.Running {
		return // it has just returned
	}
	it.Err = err
	l.queue.Move(it, workqueue.Stuck)
	it.Remember(Attempt{
		At: now.Add(-stuck.After), Took: stuck.After, Operation: out.Kind.String(), Reasons: it.Ran.String(), Error: err.Error(),
	})
	l.leaveFull(it)
	l.failing(it, now)
	l.notDone.note(it)
	l.waiters.pendingNow(it)
	l.notifyWaiters(it)
	reported := out.Renewed()
	reported.Err, reported.Stuck, reported.Ended = err, true, now
	l.commit.add(&reported, now)
}

func (l *loop) nameOf(out *pool.Task) string {
	if out.Kind.Question() {
		return ""
	}
	return l.r.p.Table.KeyText(out.Entry)
}

// unwritten names the rows whose statuses are not written, or the first of them if there are
// many.
func (l *loop) unwritten() string {
	const named = 3
	var keys []string
	for _, out := range l.commit.outcomes {
		keys = append(keys, l.nameOf(out))
	}
	for _, m := range l.commit.marks {
		keys = append(keys, l.r.p.Table.KeyText(m.entry))
	}
	text := "of " + strings.Join(keys[:min(named, len(keys))], " ")
	if more := len(keys) - named; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// abandoned returns an error that names what the reconciler no longer waits for.
func (l *loop) abandoned(now time.Time) error {
	var errs []error
	for _, w := range l.pool.All() {
		began, runs := w.Began()
		if w.Batch == nil || !runs {
			continue
		}
		stuck := &StuckError{After: now.Sub(began), Stack: w.Stack()}
		inHand := w.Batch.InHand()
		for i := range inHand {
			if !inHand[i].Skipped {
				errs = append(errs, fmt.Errorf("%v %s: %w", inHand[i].Kind, l.nameOf(&inHand[i]), stuck))
			}
		}
	}
	if l.commit.lock.waiting() {
		errs = append(errs, &StatusError{fmt.Errorf("%s: %w", l.unwritten(), l.commit.lock.errLocked())})
	}
	if l.notDone.lock.waiting() {
		errs = append(errs, fmt.Errorf("write the not-done table: %w", l.notDone.lock.errLocked()))
	}
	if len(errs) == 0 {
		return nil // they are just returning
	}
	return fmt.Errorf("reconciler %s stopped: %w", l.r.p.Name, errors.Join(errs...))
}
