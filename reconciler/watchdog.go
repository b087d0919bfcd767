package reconciler

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// maxStuckGrace bounds how long an operation may go on after the end of its
// context before it counts as stuck.
const maxStuckGrace = 10 * time.Second

func (l *loop[Obj]) stuckAfter() time.Duration {
	return min(l.r.p.Config.OperationTimeout, maxStuckGrace)
}

// watchOver ends the contexts of operations that take too long, and replaces the
// workers of those that do not heed that.
func (l *loop[Obj]) watchOver(now time.Time) {
	for _, w := range slices.Clone(l.crew) {
		stamp := w.began.Load()
		switch took := now.Sub(time.Unix(0, max(stamp, -stamp))); {
		case stamp == 0:
		case stamp > 0 && took >= l.r.p.Config.OperationTimeout:
			w.overdue(stamp)
		case stamp < 0 && took >= l.r.p.Config.OperationTimeout+l.stuckAfter():
			l.replace(w, took, now)
		}
	}
}

// nextOverdue returns when watchOver may have something to do, or zero.
func (l *loop[Obj]) nextOverdue() (due time.Time) {
	for _, w := range l.crew {
		switch stamp := w.began.Load(); {
		case stamp > 0:
			due = earliest(due, time.Unix(0, stamp).Add(l.r.p.Config.OperationTimeout))
		case stamp < 0:
			due = earliest(due, time.Unix(0, -stamp).Add(l.r.p.Config.OperationTimeout+l.stuckAfter()))
		case w.batch != nil: // it is about to begin
			due = earliest(due, w.batch.at.Add(l.r.p.Config.OperationTimeout))
		}
	}
	return due
}

// replace puts a new worker in the place of one that is stuck, and says so. The
// row stays in the hands of the old one until its operation returns.
func (l *loop[Obj]) replace(w *worker[Obj], took time.Duration, now time.Time) {
	l.collect(w, now)
	l.takeBack(w.batch)
	out := &w.batch.tasks[w.batch.collected]
	err := &StuckError{After: took, Stack: w.stack()}
	w.stuck = true
	l.stuck = append(l.stuck, w)
	l.crew[slices.Index(l.crew, w)] = l.newWorker()
	l.r.p.Logger.Error("operation is stuck", "reconciler", l.r.p.Name, "operation", out.kind.String(),
		"key", l.nameOf(out), "after", took, "stack", string(err.Stack))
	if out.kind == opObserve || out.kind == opPrune {
		l.full.asked = false
		l.fullFailed(err, now)
		return
	}
	if out.item == nil {
		l.giveUpRound(now)
	}
	it := out.item
	it.err = err
	it.remember(Attempt{At: now.Add(-took), Took: took, Operation: out.kind.String(), Reasons: it.ran.String(), Error: err.Error()})
	l.leaveFull(it)
	l.health.failing(it.key, failure{steady: true, err: err})
	l.ledger.note(it)
	l.commit.add(&outcome[Obj]{operation: out.operation, err: err, stuck: true}, now)
}

func (l *loop[Obj]) nameOf(out *outcome[Obj]) string {
	if out.kind == opObserve || out.kind == opPrune {
		return ""
	}
	return l.r.p.Table.Key(out.obj)
}

// retire lets a worker go that was stuck and has returned.
func (l *loop[Obj]) retire(w *worker[Obj]) {
	close(w.batches)
	l.stuck = slices.DeleteFunc(l.stuck, func(other *worker[Obj]) bool { return other == w })
}

// abandoned names the operations that the reconciler does not wait for any longer.
func (l *loop[Obj]) abandoned(now time.Time) error {
	var errs []error
	for _, w := range l.allWorkers() {
		if stamp := w.began.Load(); w.batch != nil && stamp != 0 {
			out := &w.batch.tasks[w.batch.collected]
			took := now.Sub(time.Unix(0, max(stamp, -stamp)))
			errs = append(errs, fmt.Errorf("%v %s: %w", out.kind, l.nameOf(out), &StuckError{After: took, Stack: w.stack()}))
		}
	}
	return fmt.Errorf("reconciler %s stopped: %w", l.r.p.Name, errors.Join(errs...))
}
