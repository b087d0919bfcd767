package pool

import (
	"context"
	"slices"
	"time"

	"github.com/statehive/statehive/internal/store"
)

// Calls is what workers call.
type Calls struct {
	// Snapshot returns the newest state.
	Snapshot func() store.ReadTxn
	// NewChecker makes what tells for one worker whether tasks are still right.
	NewChecker func() Checker
	// Perform calls the target for the tasks that are not skipped, and notes what came of
	// each. There is more than one task only if Joined.
	Perform func(ctx context.Context, txn store.ReadTxn, b *Batch, tasks []Task)
	// Joined: tasks of one kind that follow each other are carried out in one call.
	Joined bool
}

// Checker tells whether tasks that were handed out with one snapshot are still right in another
// one. It belongs to one worker.
type Checker interface {
	// Begin is called before Current, with both snapshots.
	Begin(before, now store.ReadTxn)
	// Current reports whether there is still something to be done, and notes the row of then.
	Current(now store.ReadTxn, t *Task) bool
}

// Pool is some workers. It belongs to one goroutine, except that channels, Began and Stack of
// workers are safe for concurrent use.
type Pool struct {
	Returns  chan *Worker  // workers that have come to the end of their batch
	Progress chan struct{} // some operations have ended

	calls     Calls
	deadlines Deadlines
	left      chan struct{}           // closed at the end
	stopping  context.Context         //nolint:containedctx // of all operations: it ends when no call does
	abort     context.CancelCauseFunc // ends the contexts of running operations
	crew      []*Worker               // those that can be given work
	stuck     []*Worker               // those that were replaced
	all       []*Worker               // both; never changed, but replaced by another slice
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
		p.crew = append(p.crew, p.newWorker())
	}
	p.all = slices.Clone(p.crew)
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

// Close ends the workers, but for those that are stuck.
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

// Workers returns those that can be given work, and All those that are stuck too. The slices
// must not be changed; All may be shared with other goroutines.
func (p *Pool) Workers() []*Worker { return p.crew }

// All returns all workers, those that are stuck included.
func (p *Pool) All() []*Worker { return p.all }

// Stuck returns the workers that were replaced.
func (p *Pool) Stuck() []*Worker { return p.stuck }

// Busy returns how many workers have a batch, those that are stuck included.
func (p *Pool) Busy() int { return p.busy }

// Idle returns a worker that has nothing to do, or nil.
func (p *Pool) Idle() *Worker {
	for _, w := range p.crew {
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

// Release makes a worker idle that has come to the end of its batch, or lets it go if it was
// stuck.
func (p *Pool) Release(w *Worker) {
	w.Batch = nil
	p.busy--
	if w.Stuck {
		close(w.batches)
		p.stuck = slices.DeleteFunc(p.stuck, func(other *Worker) bool { return other == w })
		p.all = slices.Concat(p.crew, p.stuck)
	}
}

// Replace puts a new worker in the place of one whose operation began at a time. It reports
// false if that has returned this moment.
func (p *Pool) Replace(w *Worker, began time.Time) bool {
	if at, runs := w.Began(); !runs || !at.Equal(began) {
		return false
	}
	w.Stuck = true
	p.stuck = append(p.stuck, w)
	p.crew[slices.Index(p.crew, w)] = p.newWorker()
	p.all = slices.Concat(p.crew, p.stuck)
	return true
}
