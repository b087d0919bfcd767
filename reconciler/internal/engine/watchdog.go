package engine

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/statehive/statehive/reconciler/internal/workqueue"
)

// maxStuckGrace bounds how long an operation may go on after the end of its
// context before it counts as stuck.
const maxStuckGrace = 10 * time.Second

func (c *Config) stuckAfter() time.Duration { return min(c.OperationTimeout, maxStuckGrace) }

// watchOver ends the contexts of operations that take too long, and replaces the
// workers of those that do not heed that.
func (l *loop) watchOver(now time.Time) {
	l.endOverdue(now)
	c := &l.r.p.Config
	for _, w := range slices.Clone(l.crew) {
		if stamp := w.began.Load(); stamp < 0 && now.Sub(w.beganAt(stamp)) >= longer(c.OperationTimeout, c.stuckAfter()) {
			l.replace(w, stamp, now)
		}
	}
}

func (l *loop) endOverdue(now time.Time) { l.r.endOverdue(l.crew, now) }

// endOverdue ends the contexts of operations that take too long.
func (r *Engine) endOverdue(workers []*worker, now time.Time) {
	for _, w := range workers {
		if stamp := w.began.Load(); stamp > 0 && now.Sub(w.beganAt(stamp)) >= r.p.Config.OperationTimeout {
			w.overdue(stamp)
		}
	}
}

// endOverdueUntil calls endOverdue again and again.
func (r *Engine) endOverdueUntil(done <-chan struct{}, workers []*worker) {
	ticker := time.NewTicker(lockPatience)
	defer ticker.Stop()
	for {
		select {
		case <-done:
			return
		case now := <-ticker.C:
			r.endOverdue(workers, now)
		}
	}
}

// nextOverdue returns when watchOver may have something to do, or zero.
func (l *loop) nextOverdue() (due time.Time) {
	c := &l.r.p.Config
	for _, w := range l.crew {
		switch stamp := w.began.Load(); {
		case stamp > 0:
			due = earliest(due, w.beganAt(stamp).Add(c.OperationTimeout))
		case stamp < 0:
			due = earliest(due, w.beganAt(stamp).Add(longer(c.OperationTimeout, c.stuckAfter())))
		case w.batch != nil: // it is about to begin
			due = earliest(due, w.batch.at.Add(c.OperationTimeout))
		}
	}
	return due
}

// nextEnd returns when endOverdue may have something to do, or zero.
func (l *loop) nextEnd(now time.Time) (due time.Time) {
	for _, w := range l.crew {
		switch stamp := w.began.Load(); {
		case stamp > 0:
			due = earliest(due, w.beganAt(stamp).Add(l.r.p.Config.OperationTimeout))
		case stamp == 0 && w.batch != nil: // it is about to begin, or to end
			due = earliest(due, now.Add(progressPeriod))
		}
	}
	return due
}

// nextPeek returns when to look at the batches that workers have, or zero: one
// does not say so when an operation ends shortly after the one before, and the
// next one may take long.
func (l *loop) nextPeek(now time.Time) (due time.Time) {
	for _, w := range l.crew {
		if b := w.batch; b == nil || b.limit-b.collected < 2 {
			continue
		}
		stamp := w.began.Load()
		if stamp == 0 || now.Sub(w.beganAt(stamp)) < progressPeriod || int(w.batch.done.Load()) > w.batch.collected {
			due = earliest(due, now.Add(progressPeriod))
		}
	}
	return due
}

// replace puts a new worker in the place of one that is stuck, and says so. The
// row stays in the hands of the old one until its operation returns. Nothing
// happens if the operation that began at the time in stamp returns this moment.
func (l *loop) replace(w *worker, stamp int64, now time.Time) {
	stack, took := w.stack(), now.Sub(w.beganAt(stamp))
	l.takeBack(w.batch)
	l.collect(w, now)
	if w.began.Load() != stamp {
		return
	}
	w.stuck = true
	l.stuck = append(l.stuck, w)
	l.crew[slices.Index(l.crew, w)] = l.newWorker()
	l.staff = slices.Concat(l.crew, l.stuck)
	inHand := w.batch.inHand()
	for i := range inHand {
		if !inHand[i].skipped {
			l.reportStuck(&inHand[i], &StuckError{After: took, Stack: stack}, now)
		}
	}
	for i := range inHand {
		if out := &inHand[i]; out.skipped { // beside the others, but not in the target's hands
			l.skipped(out, now)
			out.givenBack = true
		}
	}
}

// reportStuck makes known that an operation does not return.
func (l *loop) reportStuck(out *outcome, stuck *StuckError, now time.Time) {
	err := &TargetError{Operation: out.kind.String(), Err: stuck}
	l.r.p.Logger.Error("operation is stuck", "reconciler", l.r.p.Name, "operation", out.kind.String(),
		"key", l.nameOf(out), "after", stuck.After, "stack", string(stuck.Stack))
	if out.kind == opObserve || out.kind == opPrune {
		l.full.asked = false
		l.fullFailed(err, now)
		return
	}
	if out.item == nil {
		l.giveUpRound(now)
	}
	it := out.item
	if it == nil || it.Stage() != workqueue.Running {
		return // it has returned by now
	}
	it.Err = err
	l.queue.Move(it, workqueue.Stuck)
	it.Remember(Attempt{
		At: now.Add(-stuck.After), Took: stuck.After, Operation: out.kind.String(), Reasons: it.Ran.String(), Error: err.Error(),
	})
	l.leaveFull(it)
	l.failing(it, now)
	l.ledger.note(it)
	l.waits.oweNow(it)
	l.rested(it)
	l.commit.add(&outcome{operation: out.renewed(), err: err, stuck: true}, now)
}

func (l *loop) nameOf(out *outcome) string {
	if out.kind == opObserve || out.kind == opPrune {
		return ""
	}
	return l.r.p.Table.KeyText(out.entry)
}

// retire lets a worker go that was stuck and has returned.
func (l *loop) retire(w *worker) {
	close(w.batches)
	l.stuck = slices.DeleteFunc(l.stuck, func(other *worker) bool { return other == w })
	l.staff = slices.Concat(l.crew, l.stuck)
}

// abandoned names the operations that the reconciler does not wait for any longer.
func (l *loop) abandoned(now time.Time) error {
	var errs []error
	for _, w := range l.staff {
		if stamp := w.began.Load(); w.batch != nil && stamp != 0 {
			stuck := &StuckError{After: now.Sub(w.beganAt(stamp)), Stack: w.stack()}
			inHand := w.batch.inHand()
			for i := range inHand {
				if inHand[i].skipped {
					continue
				}
				errs = append(errs, fmt.Errorf("%v %s: %w", inHand[i].kind, l.nameOf(&inHand[i]), stuck))
			}
		}
	}
	if len(errs) == 0 {
		return nil // they return this moment
	}
	return fmt.Errorf("reconciler %s stopped: %w", l.r.p.Name, errors.Join(errs...))
}
