package noop

import (
	"context"
	"sync/atomic"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// queueKind is one of the queues that controller-runtime has.
type queueKind bool

const (
	fifo     queueKind = false
	priority queueKind = true
)

type queue = workqueue.TypedRateLimitingInterface[uint64]

// counter is a reconciler of controller-runtime that tells when it has been
// called a number of times.
type counter struct {
	calls atomic.Int64
	want  int64
	done  chan struct{}
}

func (c *counter) Reconcile(context.Context, uint64) (reconcile.Result, error) {
	if c.calls.Add(1) == c.want {
		close(c.done)
	}
	return reconcile.Result{}, nil
}

func runController(kind queueKind) run {
	return func(ctx context.Context, n, workers int) (int, error) {
		yes, usePriority := true, bool(kind)
		reconciler := &counter{want: int64(n), done: make(chan struct{})}
		c, err := controller.NewTypedUnmanaged("noop", controller.TypedOptions[uint64]{
			SkipNameValidation:      &yes, // names may be used again
			MaxConcurrentReconciles: workers,
			Reconciler:              reconciler,
			UsePriorityQueue:        &usePriority,
		})
		if err != nil {
			return 0, err
		}
		queues := make(chan queue, 1)
		err = c.Watch(source.TypedFunc[uint64](func(_ context.Context, q queue) error {
			queues <- q
			return nil
		}))
		if err != nil {
			return 0, err
		}
		err = whileRunning(ctx, c.Start, func(ended <-chan struct{}) {
			select {
			case q := <-queues:
				for id := range n {
					q.Add(uint64(id))
				}
			case <-ended:
				return
			}
			await(reconciler.done, ended)
		})
		return int(reconciler.calls.Load()), err
	}
}
