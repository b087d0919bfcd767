package engine

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/statehive/statehive/reconciler/internal/pool"
)

// initTarget repeats Init until it succeeds. False: ctx ended, and the error is of
// an Init that did not return nevertheless; or the table was dropped.
func (r *Engine) initTarget(ctx context.Context) (ready bool, err error) {
	for attempts := 1; ; attempts++ {
		returned, err := r.callInit(ctx)
		if returned && err == nil {
			return true, nil
		}
		if !returned {
			return false, fmt.Errorf("reconciler %s stopped: init: %w", r.p.Name, err)
		}
		r.notReady(err, attempts)
		select {
		case <-ctx.Done():
			return false, nil
		case <-time.After(r.backoff().After(attempts)):
		}
		if r.sources(r.p.DB.ReadTxn()).dropped {
			return false, r.errDropped()
		}
	}
}

func (r *Engine) notReady(err error, attempts int) {
	err = &TargetError{Operation: "init", Err: err}
	r.unready.Store(&Wait{Cause: waitTarget, Text: "the target, which is not ready: " + err.Error()})
	r.p.Health.Degraded("target is not ready", err)
	r.p.Logger.Warn("target is not ready", "reconciler", r.p.Name, "attempts", attempts, "error", err)
}

// initCall is an Init under way, in a goroutine of its own: it may not heed its
// context, or end its goroutine.
type initCall struct {
	goroutine chan []byte
	ended     chan error
}

// callInit calls the target's Init. One that is stuck is reported and waited for,
// since two must not overlap, until ctx ends: then it has not returned.
func (r *Engine) callInit(ctx context.Context) (returned bool, err error) {
	began := time.Now()
	opCtx, cancel := context.WithTimeoutCause(ctx, r.p.Config.OperationTimeout, pool.ErrOverdue)
	defer cancel()
	c := &initCall{goroutine: make(chan []byte, 1), ended: make(chan error, 1)}
	go r.runInit(opCtx, c)
	select {
	case err := <-c.ended:
		return true, err
	case <-opCtx.Done():
	}
	grace := time.NewTimer(r.p.Config.stuckAfter())
	defer grace.Stop()
	select {
	case err := <-c.ended:
		return true, err
	case <-grace.C:
	}
	stuck := &StuckError{After: time.Since(began), Stack: pool.StackOf(<-c.goroutine)}
	r.notReady(stuck, 0)
	select {
	case err := <-c.ended:
		return true, err
	case <-ctx.Done():
		return false, stuck
	}
}

// runInit makes errors of a panic and of an ended goroutine.
func (r *Engine) runInit(ctx context.Context, c *initCall) {
	c.goroutine <- pool.Goroutine()
	err := pool.ErrGoexit
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
		c.ended <- err
	}()
	err = r.explained(ctx, r.p.Target.Init(ctx))
}
