package pool

import (
	"context"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/statehive/statehive/internal/store"
	"github.com/statehive/statehive/reconciler/internal/status"
	"github.com/statehive/statehive/reconciler/internal/workqueue"
)

const (
	// fresh is how long a snapshot counts as the newest for an update.
	fresh = time.Millisecond
	// progressPeriod is the shortest time between two signals of progress of a worker.
	progressPeriod = time.Millisecond
)

// Worker carries out batches. Its Batch belongs to the owner of the pool; Began is safe for
// concurrent use.
type Worker struct {
	Batch *Batch // the batch that it was given; nil: it is idle
	Stuck bool   // replaced by another one

	pool      *Pool
	checker   Checker
	batches   chan *Batch
	hand      *Batch
	signaled  time.Time
	goroutine atomic.Pointer[[]byte]
	gone      chan struct{} // closed at the end
	operation
}

// operation is the context and the start time of the running operation.
type operation struct {
	ctx    context.Context                         //nolint:containedctx // of all operations until one is overdue
	cancel atomic.Pointer[context.CancelCauseFunc] // ends ctx; the watchdog uses it too
	// began is the time since epoch at which the running operation began. It is 0 between two
	// operations, and negative once the watchdog has ended the context.
	began atomic.Int64
	epoch time.Time // the wall clock may be set: only its monotonic part counts
}

// Began returns when the running operation began, if there is one.
func (w *Worker) Began() (at time.Time, runs bool) {
	stamp := w.began.Load()
	return w.beganAt(stamp), stamp != 0
}

// run performs batches until the pool is closed. An operation that ends its goroutine does not end
// the worker.
func (w *Worker) run() {
	id := Goroutine()
	w.goroutine.Store(&id)
	w.renew()
	ended := false
	defer func() {
		(*w.cancel.Load())(nil)
		if !ended {
			go w.run()
			return
		}
		close(w.gone)
	}()
	for {
		if w.hand != nil {
			w.carryOut(w.hand)
			w.hand = nil
			select {
			case w.pool.Returns <- w:
			case <-w.pool.left:
			}
		}
		select {
		case w.hand = <-w.batches:
		case <-w.pool.left:
		}
		if w.hand == nil {
			ended = true
			return
		}
	}
}

func (w *Worker) renew() {
	ctx, cancel := context.WithCancelCause(w.pool.stopping)
	w.ctx = operationContext{ctx}
	w.cancel.Store(&cancel)
}

// carryOut performs the tasks that are not taken back. The end of one operation is the beginning of
// the next, so the clock is read once for both.
func (w *Worker) carryOut(b *Batch) {
	now := time.Now()
	w.signaled = now
	joined := w.pool.calls.Joined && b.Class != workqueue.Retries && !b.Asks()
	for first, last := b.claim(joined); first < last; {
		tasks, began := b.Tasks[first:last], now
		w.carryTasks(b, tasks, began)
		now = time.Now()
		for i := range tasks {
			tasks[i].Ended, tasks[i].Took = now, now.Sub(began)
		}
		b.done.Store(int32(last))
		// Claim before signaling, so that simulations are reproducible.
		first, last = b.claim(joined)
		if now.Sub(w.signaled) >= progressPeriod && first < last {
			w.signaled = now
			w.signal()
		}
	}
}

// carryTasks performs tasks in one call, except for those that are outdated.
func (w *Worker) carryTasks(b *Batch, tasks []Task, began time.Time) {
	txn := w.snapshot(b, tasks, began)
	skipped := 0
	if txn != b.Txn {
		w.checker.Begin(b.Txn, txn)
		for i := range tasks {
			if tasks[i].Skipped = !w.checker.Current(txn, &tasks[i]); tasks[i].Skipped {
				skipped++
			}
		}
	}
	if skipped < len(tasks) {
		w.do(b, tasks, began, func() { w.pool.calls.Perform(w.ctx, txn, b, tasks) })
	}
}

// snapshot returns the snapshot for an operation that begins now: the newest one if the batch's
// snapshot is old. Deletes and repairs always use the newest one, because a delete must not run if
// the row has come back, nor a repair if the row is gone.
func (w *Worker) snapshot(b *Batch, tasks []Task, now time.Time) store.ReadTxn {
	looks := false
	for i := range tasks { // the rest of a task may be the owner's by now
		looks = looks || tasks[i].Kind == Delete || tasks[i].Was == status.Done
	}
	if b.Asks() || !looks && now.Sub(b.Read) < fresh {
		return b.Txn
	}
	return w.pool.calls.Snapshot()
}

// signal tells the owner that operations have ended.
func (w *Worker) signal() {
	select {
	case w.pool.Progress <- struct{}{}:
	default:
	}
}

// do runs op, which performs tasks, supervised by the watchdog. A panic becomes the error of each of
// them.
func (w *Worker) do(b *Batch, tasks []Task, began time.Time, op func()) {
	stamp := int64(began.Sub(w.epoch))
	w.began.Store(stamp)
	returned := false
	defer func() {
		switch v := recover(); {
		case v != nil:
			Fail(tasks, &PanicError{Value: v, Stack: debug.Stack()})
		case !returned:
			Fail(tasks, ErrGoexit)
			now := time.Now()
			for i := range tasks {
				tasks[i].Ended, tasks[i].Took = now, now.Sub(began)
			}
			defer b.done.Add(int32(len(tasks)))
		}
		w.returned(stamp)
	}()
	op()
	returned = true
}

// Fail gives each task that was not skipped an error.
func Fail(tasks []Task, err error) {
	for i := range tasks {
		if !tasks[i].Skipped {
			tasks[i].Err = err
		}
	}
}

// returned ends the operation that began at stamp. The watchdog may have ended its context.
func (w *Worker) returned(stamp int64) {
	if !w.began.CompareAndSwap(stamp, 0) {
		<-w.ctx.Done() // the watchdog is about to end it
		w.began.Store(0)
		w.renew()
	}
}

// beganAt returns when the operation with a stamp began.
func (w *Worker) beganAt(stamp int64) time.Time {
	return w.epoch.Add(time.Duration(max(stamp, -stamp)))
}

// overdue ends the context of the operation that began at stamp, unless it has returned.
func (w *Worker) overdue(stamp int64) {
	if w.began.CompareAndSwap(stamp, -stamp) {
		(*w.cancel.Load())(ErrOverdue)
	}
}

// Stack returns the stack of the worker's goroutine.
func (w *Worker) Stack() []byte {
	if id := w.goroutine.Load(); id != nil {
		return StackOf(*id)
	}
	return nil
}
