package pool

import (
	"math"
	"time"
)

// Deadlines bound the duration of operations.
type Deadlines struct {
	Operation time.Duration // ends the context of an operation
	Grace     time.Duration // an operation that has not returned this long after that is stuck
}

func (d Deadlines) stuck() time.Duration {
	return d.Operation + min(d.Grace, math.MaxInt64-d.Operation)
}

// EndOverdue ends the contexts of operations that take too long.
func (p *Pool) EndOverdue(now time.Time) {
	for _, w := range p.workers {
		if stamp := w.began.Load(); stamp > 0 && now.Sub(w.beganAt(stamp)) >= p.deadlines.Operation {
			w.overdue(stamp)
		}
	}
}

// Suspects returns the workers whose operations still run long after their contexts have ended.
func (p *Pool) Suspects(now time.Time) (suspects []*Worker) {
	for _, w := range p.workers {
		if stamp := w.began.Load(); stamp < 0 && now.Sub(w.beganAt(stamp)) >= p.deadlines.stuck() {
			suspects = append(suspects, w)
		}
	}
	return suspects
}

// NextOverdue returns when EndOverdue or Suspects may have something to do, or zero.
func (p *Pool) NextOverdue() (due time.Time) {
	for _, w := range p.workers {
		switch stamp := w.began.Load(); {
		case stamp > 0:
			due = earliest(due, w.beganAt(stamp).Add(p.deadlines.Operation))
		case stamp < 0:
			due = earliest(due, w.beganAt(stamp).Add(p.deadlines.stuck()))
		case w.Batch != nil: // it is about to begin
			due = earliest(due, w.Batch.At.Add(p.deadlines.Operation))
		}
	}
	return due
}

// NextEnd returns when EndOverdue may have something to do, or zero.
func (p *Pool) NextEnd(now time.Time) (due time.Time) {
	for _, w := range p.workers {
		switch stamp := w.began.Load(); {
		case stamp > 0:
			due = earliest(due, w.beganAt(stamp).Add(p.deadlines.Operation))
		case stamp == 0 && w.Batch != nil: // it is about to begin, or to end
			due = earliest(due, now.Add(progressPeriod))
		}
	}
	return due
}

// NextPeek returns when to check the batches of workers, or zero. Workers do not signal operations
// that end shortly after each other, and the next one may take long.
func (p *Pool) NextPeek(now time.Time) (due time.Time) {
	for _, w := range p.workers {
		b := w.Batch
		if b == nil || b.limit-b.collected < 2 {
			continue
		}
		stamp := w.began.Load()
		if stamp == 0 || now.Sub(w.beganAt(stamp)) < progressPeriod || int(b.done.Load()) > b.collected {
			due = earliest(due, now.Add(progressPeriod))
		}
	}
	return due
}

// earliest returns the earlier of two times; zero is never.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
