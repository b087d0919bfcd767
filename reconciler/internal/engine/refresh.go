package engine

import (
	"errors"
	"fmt"
	"time"

	"github.com/statehive/statehive/internal/backoff"
	"github.com/statehive/statehive/internal/store"
	"github.com/statehive/statehive/reconciler/internal/pool"
	"github.com/statehive/statehive/reconciler/internal/workqueue"
)

// refreshSpread is the jitter of refresh intervals, so that rows applied at the same time are not
// all refreshed at the same time.
const refreshSpread = 0.1

// refreshProblem is what health reports when RefreshInterval fails.
const refreshProblem = "rows are not refreshed"

// refreshAfter returns when to apply a row again after an outcome, or zero.
func (l *loop) refreshAfter(out *pool.Task, now time.Time) time.Time {
	if l.r.p.RefreshInterval == nil || out.Kind != pool.Update || out.Err != nil || out.Outdated {
		return time.Time{}
	}
	return l.refreshAt(out.Entry, now)
}

// refreshLater schedules the refresh of a row that was done before the reconciler started.
func (l *loop) refreshLater(e *store.Entry, now time.Time) {
	if l.r.p.RefreshInterval == nil || l.queue.Items[keyOf(e)] != nil {
		return
	}
	if at := l.refreshAt(e, now); !at.IsZero() {
		it := l.queue.Get(keyOf(e))
		it.Entry, it.Present, it.Refresh = e, true, at
		l.queue.Wait(it, workqueue.Refresh, at, "")
	}
}

// refreshAt returns when to refresh a row that is done now, or zero.
func (l *loop) refreshAt(e *store.Entry, now time.Time) time.Time {
	var interval time.Duration
	err := pool.Guard(func() { interval = l.r.p.RefreshInterval(e) })
	if err != nil {
		err = fmt.Errorf("refresh interval of %s: %w", l.r.p.Table.KeyText(e), err)
	}
	l.refreshFails(keyOf(e), err)
	if err != nil || interval <= 0 {
		return time.Time{}
	}
	return now.Add(backoff.Jitter(interval, refreshSpread, l.r.random))
}

// refreshFails records the failure of a refresh interval, or that it has ended if err is nil.
func (l *loop) refreshFails(key string, err error) {
	before, known := l.refreshes[key]
	switch {
	case err == nil && !known:
		return
	case err == nil:
		delete(l.refreshes, key)
	default:
		if l.refreshes == nil {
			l.refreshes = map[string]error{}
		}
		l.refreshes[key] = err
	}
	if err != nil && (before == nil || before.Error() != err.Error()) {
		var stack []byte
		if p := (*PanicError)(nil); errors.As(err, &p) {
			stack = p.Stack
		}
		l.r.p.Logger.Error("a row is not refreshed", "reconciler", l.r.p.Name, "error", err, "stack", string(stack))
	}
	var first error
	for _, first = range l.refreshes {
		break // one of them is enough
	}
	l.health.concern(refreshProblem, first)
}
