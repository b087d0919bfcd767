package engine

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/statehive/statehive/internal/store"
	"github.com/statehive/statehive/reconciler/internal/workqueue"
)

// batch is some operations on rows of one snapshot, which a worker carries out
// one after the other. Those that have not begun can be taken back.
type batch struct {
	tasks     []outcome
	txn       store.ReadTxn
	read      time.Time // when txn was the newest
	at        time.Time // when it was handed out
	class     workqueue.Class
	ofRound   bool
	spent     int // of the credit of its class
	answer    answer
	next      atomic.Int32 // the first one that has not begun
	done      atomic.Int32 // those before have ended
	limit     int          // the deciding goroutine's: those from here on were taken back
	collected int          // and those before have been looked at
}

// claim returns the next operations, from first to last, which nobody can take
// back any more: one, or as many of the same kind as follow each other if they are
// carried out together. When first is last, there are none left.
func (b *batch) claim(together bool) (first, last int) {
	for {
		next := b.next.Load()
		first, last = int(next), int(next)
		for last < len(b.tasks) && (last == first || together && b.tasks[last].kind == b.tasks[first].kind) {
			last++
		}
		if first >= last || b.next.CompareAndSwap(next, int32(last)) {
			return first, last
		}
	}
}

// takeBack returns the operations that have not begun. They never will.
func (b *batch) takeBack() []outcome {
	next := min(int(b.next.Swap(int32(len(b.tasks)))), b.limit)
	taken := b.tasks[next:b.limit]
	b.limit = next
	return taken
}

// asks says that the batch is a question to the target about its surplus.
func (b *batch) asks() bool {
	return len(b.tasks) == 1 && (b.tasks[0].kind == opObserve || b.tasks[0].kind == opPrune)
}

// remaining is how many operations have not begun.
func (b *batch) remaining() int { return max(0, b.limit-int(b.next.Load())) }

// inHand returns the operations that have begun and not ended: one, or as many as
// are carried out together.
func (b *batch) inHand() []outcome {
	first, last := int(b.done.Load()), min(b.limit, int(b.next.Load()))
	return b.tasks[min(first, last):last]
}

// ended returns the operations that have ended since the last call.
func (b *batch) ended() []outcome {
	first := b.collected
	b.collected = int(b.done.Load())
	return b.tasks[first:b.collected]
}

const (
	// fresh is how long a snapshot counts as the newest.
	fresh = time.Millisecond
	// progressPeriod is the time after which a worker makes known how far it is.
	progressPeriod = time.Millisecond
)

// worker carries out batches. The fields below are its own, or safe to share,
// but for the last ones, which are the deciding goroutine's.
type worker struct {
	r        *Engine
	stopping context.Context                         //nolint:containedctx // ends when the reconciler does not wait any longer
	ctx      context.Context                         //nolint:containedctx // of all operations until one is overdue
	cancel   atomic.Pointer[context.CancelCauseFunc] // ends ctx; the watchdog uses it too
	batches  chan *batch
	returns  chan<- *worker
	progress chan<- struct{}
	left     <-chan struct{} // closed when the reconciler has ended
	depends  checkers
	// began is when the operation that runs began, as time since epoch; 0 between two
	// operations, and negative once the watchdog has ended its context.
	began     atomic.Int64
	epoch     time.Time              // the wall clock may be set: only its monotonic part counts
	goroutine atomic.Pointer[[]byte] // "goroutine 7 ", as stacks begin
	signaled  time.Time
	hand      *batch
	gone      chan struct{} // closed at the end

	batch *batch // nil: idle
	stuck bool   // replaced by another one
}

// run carries out batches until there are no more. An operation that ends its
// goroutine does not end the worker.
func (w *worker) run() {
	id := goroutine()
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
			case w.returns <- w:
			case <-w.left:
			}
		}
		select {
		case w.hand = <-w.batches:
		case <-w.left:
		}
		if w.hand == nil {
			ended = true
			return
		}
	}
}

func (w *worker) renew() {
	ctx, cancel := context.WithCancelCause(w.stopping)
	w.ctx = opContext{ctx}
	w.cancel.Store(&cancel)
}

// carryOut runs what is not taken back. Each operation begins when the one
// before has ended, so that one look at the clock serves both.
func (w *worker) carryOut(b *batch) {
	now := time.Now()
	w.signaled = now
	together := w.r.p.Target.UpdateBatch != nil && b.class != workqueue.Retries && !b.asks()
	for first, last := b.claim(together); first < last; {
		tasks, began := b.tasks[first:last], now
		if len(tasks) == 1 {
			w.carryOne(b, tasks, began)
		} else {
			w.carryTogether(b, tasks, began)
		}
		now = time.Now()
		for i := range tasks {
			tasks[i].took = now.Sub(began)
		}
		b.done.Store(int32(last))
		// Before anyone is told, so that a seed repeats who does what.
		first, last = b.claim(together)
		if now.Sub(w.signaled) >= progressPeriod && first < last {
			w.signaled = now
			w.signal()
		}
	}
}

// carryOne runs the only one of tasks.
func (w *worker) carryOne(b *batch, tasks []outcome, began time.Time) {
	txn, out := w.snapshot(b, began), &tasks[0]
	if out.skipped = !w.current(b, txn, w.depends.same(b.txn, txn), out); out.skipped {
		return
	}
	w.do(b, tasks, began, func() {
		out.err = w.r.explained(w.ctx, w.r.perform(w.ctx, txn, out, &b.answer))
	})
}

// snapshot returns the one to use for an operation that begins now: the newest, if
// that of the batch is from a while ago.
func (w *worker) snapshot(b *batch, now time.Time) store.ReadTxn {
	if b.asks() || now.Sub(b.read) < fresh {
		return b.txn
	}
	return w.r.p.DB.ReadTxn()
}

// signal lets the deciding goroutine know that some operations have ended.
func (w *worker) signal() {
	select {
	case w.progress <- struct{}{}:
	default:
	}
}

// current says whether there is still something to be done by an operation in a
// snapshot, and notes the row of then. free: what blocks rows is as it was when it was
// handed out.
func (w *worker) current(b *batch, txn store.ReadTxn, free bool, out *outcome) bool {
	if txn == b.txn {
		return true
	}
	t := w.r.p.Table
	all := w.r.sources(txn)
	e := t.FindKey(txn, out.entry.Key())
	switch {
	case !all.ready():
		return false
	case out.kind == opDelete:
		surplus := out.full
		return e == nil && (!surplus || len(all.incomplete) == 0)
	case e == nil:
		return false
	}
	if (!free || e != out.entry) && w.depends.blocked(txn, e) {
		return false
	}
	if e != out.entry {
		was := w.r.status(e).Kind()
		if !w.r.unlimited(out.was, was) {
			return false
		}
		out.newer = &newer{was: was, entry: e}
	}
	return true
}

// do lets op carry tasks out, under the eyes of the watchdog. A panic is the error
// of each of them.
func (w *worker) do(b *batch, tasks []outcome, began time.Time, op func()) {
	stamp := int64(began.Sub(w.epoch))
	w.began.Store(stamp)
	returned := false
	defer func() {
		switch v := recover(); {
		case v != nil:
			fail(tasks, &PanicError{Value: v, Stack: debug.Stack()})
		case !returned:
			fail(tasks, errGoexit)
			for i := range tasks {
				tasks[i].took = time.Since(began)
			}
			defer b.done.Add(int32(len(tasks)))
		}
		w.returned(stamp)
	}()
	op()
	returned = true
}

// fail gives each operation that was not skipped an error.
func fail(tasks []outcome, err error) {
	for i := range tasks {
		if !tasks[i].skipped {
			tasks[i].err = err
		}
	}
}

// returned is the end of what began at the time in stamp, whose context the
// watchdog may have ended.
func (w *worker) returned(stamp int64) {
	if !w.began.CompareAndSwap(stamp, 0) {
		<-w.ctx.Done() // the watchdog is about to end it
		w.began.Store(0)
		w.renew()
	}
}

// beganAt returns when the operation with a stamp began.
func (w *worker) beganAt(stamp int64) time.Time {
	return w.epoch.Add(time.Duration(max(stamp, -stamp)))
}

// overdue ends the context of an operation that began at the time in stamp,
// unless it has ended.
func (w *worker) overdue(stamp int64) {
	if w.began.CompareAndSwap(stamp, -stamp) {
		(*w.cancel.Load())(errOverdue)
	}
}

// stack returns where the worker is.
func (w *worker) stack() []byte {
	if id := w.goroutine.Load(); id != nil {
		return stackOf(*id)
	}
	return nil
}

// goroutine returns how the stack of the calling goroutine begins.
func goroutine() []byte {
	id, _, _ := bytes.Cut(debug.Stack(), []byte("["))
	return id
}

// stackOf returns where a goroutine is.
func stackOf(id []byte) []byte {
	buf := make([]byte, 1<<16)
	for n := runtime.Stack(buf, true); n == len(buf) && n < 1<<26; n = runtime.Stack(buf, true) {
		buf = make([]byte, 4*len(buf))
	}
	for section := range bytes.SplitSeq(buf, []byte("\n\n")) {
		if bytes.HasPrefix(section, id) {
			return bytes.TrimRight(section, "\x00")
		}
	}
	return fmt.Appendf(nil, "%sis not there any more", id)
}
