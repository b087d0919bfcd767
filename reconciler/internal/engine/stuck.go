package engine

import (
	"errors"
	"fmt"
	"time"

	"github.com/statehive/statehive/reconciler/internal/pool"
	"github.com/statehive/statehive/reconciler/internal/workqueue"
)

// maxStuckGrace bounds how long an operation may go on after the end of its
// context before it counts as stuck.
const maxStuckGrace = 10 * time.Second

func (c *Config) stuckAfter() time.Duration { return min(c.OperationTimeout, maxStuckGrace) }

// watchOver ends the contexts of operations that take too long, and replaces the
// workers of those that go on nevertheless.
func (l *loop) watchOver(now time.Time) {
	l.pool.EndOverdue(now)
	for _, w := range l.pool.Suspects(now) {
		l.replace(w, now)
	}
}

// replace puts a new worker in the place of one that is stuck, and reports that. The
// row stays in the hands of the old one until its operation returns.
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
		if out := &inHand[i]; out.Skipped { // beside the others, but not in the target's hands
			l.skipped(out, now)
			out.GivenBack = true
		}
	}
}

// reportStuck makes known that an operation does not return.
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
		return // it has returned by now
	}
	it.Err = err
	l.queue.Move(it, workqueue.Stuck)
	it.Remember(Attempt{
		At: now.Add(-stuck.After), Took: stuck.After, Operation: out.Kind.String(), Reasons: it.Ran.String(), Error: err.Error(),
	})
	l.leaveFull(it)
	l.failing(it, now)
	l.ledger.note(it)
	l.waits.oweNow(it)
	l.rested(it)
	reported := out.Renewed()
	reported.Err, reported.Stuck = err, true
	l.commit.add(&reported, now)
}

func (l *loop) nameOf(out *pool.Task) string {
	if out.Kind.Question() {
		return ""
	}
	return l.r.p.Table.KeyText(out.Entry)
}

// someKeys names the rows of outcomes, or the first of them if there are many.
func (l *loop) someKeys(outcomes []*pool.Task) string {
	const named = 3
	keys := "of"
	for _, out := range outcomes[:min(named, len(outcomes))] {
		keys += " " + l.nameOf(out)
	}
	if more := len(outcomes) - named; more > 0 {
		keys += fmt.Sprintf(" and %d more", more)
	}
	return keys
}

// abandoned names what the reconciler does not wait for any longer.
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
	if n := len(l.commit.outcomes); n > 0 && l.commit.lock.waiting() {
		errs = append(errs, &StatusError{fmt.Errorf("%s: %w", l.someKeys(l.commit.outcomes), l.commit.lock.errLocked())})
	}
	if l.ledger.lock.waiting() {
		errs = append(errs, fmt.Errorf("write what is not done: %w", l.ledger.lock.errLocked()))
	}
	if len(errs) == 0 {
		return nil // they return this moment
	}
	return fmt.Errorf("reconciler %s stopped: %w", l.r.p.Name, errors.Join(errs...))
}
