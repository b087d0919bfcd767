package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/statehive/statehive/internal/store"
	"github.com/statehive/statehive/reconciler/internal/hold"
	"github.com/statehive/statehive/reconciler/internal/pool"
)

func (l *loop) newPool(ctx context.Context) *pool.Pool {
	c := &l.r.p.Config
	return pool.New(ctx, c.Workers, pool.Deadlines{Operation: c.OperationTimeout, Grace: c.stuckAfter()}, pool.Calls{
		Snapshot:   l.r.p.DB.ReadTxn,
		NewChecker: func() pool.Checker { return &taskChecker{r: l.r, depends: l.r.depends.NewChecker()} },
		Perform:    l.r.perform,
		Joined:     l.r.p.Target.UpdateBatch != nil,
	})
}

// taskChecker is a [pool.Checker].
type taskChecker struct {
	r       *Engine
	depends *hold.Checker
	same    bool // what blocks rows is as it was when the batch was handed out
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
			was = t.Was // its status was reset because it differs
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

// readable returns err, or what comes of reading it if that is a panic, as of a nil
// pointer that was returned as an error.
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
		return fmt.Errorf("the target returned an error of type %T that cannot be read: %w", err, panicked)
	}
	return err
}

// explained adds to an error that came of the end of its context why that ended.
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
