package pool

import (
	"context"
	"slices"
	"time"

	"github.com/statehive/statehive/internal/store"
)

// Calls are the functions that workers call.
type Calls struct {
	// Snapshot returns the newest state.
	Snapshot func() store.ReadTxn
	// NewChecker returns a Checker for one worker.
	NewChecker func() Checker
	// Perform calls the target for the tasks that are not skipped, and sets their outcomes.
	// There is more than one task only if Joined.
	Perform func(ctx context.Context, txn store.ReadTxn, b *Batch, tasks []Task)
	// Joined reports whether consecutive tasks of one kind are performed in one call.
	Joined bool
}

// Checker checks whether tasks that were handed out with one snapshot are still up to date in a
// newer one. It belongs to one worker.
type Checker interface {
	// Begin is called before Current, with both snapshots.
	Begin(before, now store.ReadTxn)
	// Current reports whether the task still has to be done, and sets its newest row.
	Current(now store.ReadTxn, t *Task) bool
}

// Pool is a set of workers. It belongs to one goroutine; only its channels, and Began and Stack of
// workers, are safe for concurrent use.
type Pool struct {
	Returns  chan *Worker  // workers that have finished their batch
	Progress chan struct{} // some operations have ended

	calls     Calls
	deadlines Deadlines
	left      chan struct{}           // closed at the end
	stopping  context.Context         //nolint:containedctx // parent of the contexts of all operations
	abort     context.CancelCauseFunc // ends the contexts of running operations
	workers   []*Worker               // the workers that can be given work
	stuck     []*Worker               // the workers that were replaced
	all       []*Worker               // both; the slice is replaced, never modified
	busy      int                     // workers with a batch
}

// New starts workers. The context of operations has the values of ctx.
func New(ctx context.Context, workers int, deadlines Deadlines, calls Calls) *Pool {
	p := &Pool{
		Returns: make(chan *Worker, workers), Progress: make(chan struct{}, 1), left: make(chan struct{}),
		calls: calls, deadlines: deadlines,
	}
	p.stopping, p.abort = context.WithCancelCause(context.WithoutCancel(ctx))
	for range workers {
		p.workers = append(p.workers, p.newWorker())
	}
	p.all = slices.Clone(p.workers)
	return p
}

func (p *Pool) newWorker() *Worker {
	w := &Worker{
		pool: p, checker: p.calls.NewChecker(), batches: make(chan *Batch, 1), gone: make(chan struct{}),
	}
	w.epoch = time.Now().Add(-1) // so that no stamp is 0
	go w.run()
	return w
}

// Close ends the workers, except for stuck ones.
func (p *Pool) Close() {
	close(p.left)
	p.Abort()
	for _, w := range p.all {
		close(w.batches)
		if w.Batch == nil {
			<-w.gone
		}
	}
}

// Abort ends the contexts of all operations. It is safe for concurrent use.
func (p *Pool) Abort() { p.abort(ErrStopped) }

// Workers returns the workers that can be given work. The slice must not be modified.
func (p *Pool) Workers() []*Worker { return p.workers }

// All returns all workers, including stuck ones. The slice must not be modified, and may be shared
// with other goroutines.
func (p *Pool) All() []*Worker { return p.all }

// Stuck returns the workers that were replaced.
func (p *Pool) Stuck() []*Worker { return p.stuck }

// Busy returns how many workers have a batch, including stuck ones.
func (p *Pool) Busy() int { return p.busy }

// Idle returns an idle worker, or nil.
func (p *Pool) Idle() *Worker {
	for _, w := range p.workers {
		if w.Batch == nil {
			return w
		}
	}
	return nil
}

// Hand gives an idle worker a batch.
func (p *Pool) Hand(w *Worker, b *Batch) {
	b.limit = len(b.Tasks)
	w.Batch = b
	p.busy++
	w.batches <- b
}

// Release makes a worker idle that has finished its batch, or ends it if it was stuck.
func (p *Pool) Release(w *Worker) {
	w.Batch = nil
	p.busy--
	if w.Stuck {
		close(w.batches)
		p.stuck = slices.DeleteFunc(p.stuck, func(other *Worker) bool { return other == w })
		p.all = slices.Concat(p.workers, p.stuck)
	}
}

// Replace replaces a worker whose operation began at the given time. It reports false if that
// operation has just returned.
func (p *Pool) Replace(w *Worker, began time.Time) bool {
	if at, runs := w.Began(); !runs || !at.Equal(began) {
		return false
	}
	w.Stuck = true
	p.stuck = append(p.stuck, w)
	p.workers[slices.Index(p.workers, w)] = p.newWorker()
	p.all = slices.Concat(p.workers, p.stuck)
	return true
}
