package engine

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/statehive/statehive/reconciler/internal/pool"
	"github.com/statehive/statehive/reconciler/internal/workqueue"
)

// ErrNotRunning is returned by methods that need a running reconciler if it has not started (Run
// was not called, or still waits for sources or for the target), or has stopped.
var ErrNotRunning = errors.New("reconciler is not running")

// inbox is how other goroutines reach the loop. A key that is triggered repeatedly is in it once.
type inbox struct {
	signal chan struct{} // holds a token while the inbox is not empty

	mu       sync.Mutex
	open     bool
	triggers map[string]triggered
	calls    []func(*loop)
}

// triggered describes how to run a row, whatever its status.
type triggered struct {
	class workqueue.Class
	why   workqueue.Reason
}

func newInbox() *inbox {
	return &inbox{signal: make(chan struct{}, 1), triggers: map[string]triggered{}}
}

func (b *inbox) setOpen(open bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open = open
}

// trigger requests operations on rows.
func (b *inbox) trigger(keys []string, class workqueue.Class, why workqueue.Reason) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.open {
		return ErrNotRunning
	}
	for _, key := range keys {
		t, asked := b.triggers[key]
		if !asked {
			t.class = class
		}
		t.class, t.why = min(t.class, class), t.why|why
		b.triggers[key] = t
	}
	b.wake()
	return nil
}

// call runs fn in the loop and waits for it. If ctx ends before fn has begun, fn is not run: who was
// told that something was not done must not see it done later.
func (r *Engine) call(ctx context.Context, fn func(*loop)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	var decided atomic.Bool // whether fn is run
	done := make(chan struct{})
	err := r.inbox.post(func(l *loop) {
		if ctx.Err() == nil && decided.CompareAndSwap(false, true) {
			fn(l)
			close(done)
		}
	})
	if err != nil {
		return err
	}
	select {
	case <-done:
		return nil
	case <-r.ended:
		return ErrNotRunning
	case <-ctx.Done():
	}
	if decided.CompareAndSwap(false, true) {
		return ctx.Err()
	}
	select {
	case <-done:
		return nil
	case <-r.ended:
		return ErrNotRunning
	}
}

func (b *inbox) post(fn func(*loop)) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.open {
		return ErrNotRunning
	}
	b.calls = append(b.calls, fn)
	b.wake()
	return nil
}

func (b *inbox) wake() {
	select {
	case b.signal <- struct{}{}:
	default:
	}
}

// takeCalls runs the posted functions.
func (l *loop) takeCalls() {
	b := l.r.inbox
	b.mu.Lock()
	calls := b.calls
	b.calls = nil
	b.mu.Unlock()
	for _, call := range calls {
		call(l)
	}
}

// takeTriggers queues the triggered rows.
func (l *loop) takeTriggers(now time.Time) {
	b := l.r.inbox
	b.mu.Lock()
	triggers := b.triggers
	if len(triggers) == 0 {
		b.mu.Unlock()
		return
	}
	b.triggers = map[string]triggered{}
	b.mu.Unlock()
	for _, key := range sortedKeys(triggers) {
		t := triggers[key]
		if t.why == workqueue.Drifted {
			l.suspect(key, now)
			continue
		}
		it := l.queue.Get(key)
		if !it.Stage().InHand() {
			it.Force = true
		}
		l.waiters.pendingNow(it)
		l.enqueue(it, t.class, t.why, now)
	}
}

// errNotDeleted is wrapped by the error of Forget for a row that is still in the table.
var errNotDeleted = errors.New("the row is in the table, and only a delete can be forgotten")

// Forget gives up the pending delete of a row, given its primary key as text. The delete is not
// retried and no longer shown; if it is running, that run is the last. Whatever the target has of
// the row stays, unless a full pass finds it as an orphan. Forget logs a warning. It returns an
// [UnknownKeyError] if no such delete is pending, and [ErrNotRunning] if the reconciler is not
// running. Deletes that are held together with it stay held.
func (r *Engine) Forget(ctx context.Context, key string) error {
	var result error
	if err := r.call(ctx, func(l *loop) { result = l.forget(key) }); err != nil {
		return err
	}
	return result
}

func (l *loop) forget(key string) error {
	it := l.deletingItem(key)
	if it == nil {
		return l.r.whyNotDeleting(key, l)
	}
	lastError := ""
	if it.Err != nil {
		lastError = it.Err.Error()
	}
	l.r.p.Logger.Warn("delete forgotten on request", "reconciler", l.r.p.Name, "key", key,
		"attempts", it.Attempts, "error", lastError)
	l.limits.Forget(it)
	l.setDeleting(it, false)
	if it.Idle() {
		l.drop(it)
	}
	return nil
}

// deletingItem returns the pending delete of a row, or nil.
func (l *loop) deletingItem(key string) *workqueue.Item {
	for _, it := range l.queue.Items {
		if it.Deleting && l.r.p.Table.KeyText(it.Entry) == key {
			return it
		}
	}
	return nil
}

// forgotten reports whether an outcome is that of a delete that was forgotten while it ran.
func forgotten(out *pool.Task) bool {
	return out.Kind == pool.Delete && out.Err != nil && !out.Item.Deleting
}
