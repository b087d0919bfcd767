package hive

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/internal/guard"
	"github.com/statehive/statehive/hive/internal/lifecycle"
)

// Condition must hold before the hive is ready.
type Condition struct {
	// Name is the subject of the condition.
	Name string
	// Pending returns what the condition is waiting for, or nothing if it holds. It must be safe for concurrent use and must not
	// block. It may be called before the hive has started.
	Pending func() []string
}

// ConditionOut contributes a condition.
type ConditionOut struct {
	cell.Out
	Condition Condition `group:"ready-conditions"`
}

// NewCondition returns the contribution of a condition.
func NewCondition(name string, waits func() []string) ConditionOut {
	return ConditionOut{Condition: Condition{Name: name, Pending: waits}}
}

// ErrStopping is returned by WaitReady, and wrapped by the error of SubLifecycle.Start, when the hive is stopping, has stopped or has
// failed to start. A job that returns it then is being stopped, and has not failed.
var ErrStopping = lifecycle.ErrStopping

// Readiness reports whether the hive is ready: it has started, and a single check found that every condition holds. It is
// injectable and safe for concurrent use.
type Readiness struct {
	started    *atomic.Bool
	down       <-chan struct{}
	conditions []Condition
	ready      atomic.Bool
}

type readinessParams struct {
	cell.In
	Conditions []Condition `group:"ready-conditions"`
}

func (h *Hive) newReadiness(p readinessParams) *Readiness {
	return &Readiness{started: &h.up, down: h.down, conditions: p.Conditions}
}

// Ready reports whether the hive is ready and, if not, what it is waiting for. Once ready, the hive stays ready until it begins to
// stop; later faults show in its health. A condition that panics does not hold.
func (r *Readiness) Ready() (ready bool, waits []string) {
	if r.stopping() {
		return false, []string{"nothing: " + ErrStopping.Error()}
	}
	if r.ready.Load() {
		return true, nil
	}
	if !r.started.Load() {
		waits = append(waits, "start of the hive")
	}
	for _, c := range r.conditions {
		for _, w := range c.waits() {
			waits = append(waits, c.Name+": "+w)
		}
	}
	if len(waits) > 0 {
		return r.ready.Load(), waits
	}
	r.ready.Store(true)
	return true, nil
}

func (r *Readiness) stopping() bool {
	select {
	case <-r.down:
		return true
	default:
		return false
	}
}

// waits calls Pending, turning a panic into a wait.
func (c Condition) waits() (waits []string) {
	if err := <-guard.Go(func() error { waits = c.Pending(); return nil }); err != nil {
		return []string{err.Error()}
	}
	return waits
}

// readyPeriod is the polling interval of WaitReady. Conditions do not announce changes.
const readyPeriod = 20 * time.Millisecond

// WaitReady waits until the hive is ready. It returns ErrStopping, or an error that wraps the cause of ctx and names what the hive
// was waiting for.
func (r *Readiness) WaitReady(ctx context.Context) error {
	ticker := time.NewTicker(readyPeriod)
	defer ticker.Stop()
	for {
		ready, waits := r.Ready()
		switch {
		case ready:
			return nil
		case r.stopping():
			return ErrStopping
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("not ready, waiting for %s: %w", strings.Join(waits, ", "), context.Cause(ctx))
		case <-r.down:
		case <-ticker.C:
		}
	}
}
