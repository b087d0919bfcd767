package hive

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/internal/guard"
)

// Condition is something that has to be so before the hive is ready.
type Condition struct {
	// Name says what it is about.
	Name string
	// Waits names what is not so yet; nothing when the condition holds. It is called by several goroutines at once, also before
	// the hive has started, and must not block.
	Waits func() []string
}

// ConditionOut contributes a condition.
type ConditionOut struct {
	cell.Out
	Condition Condition `group:"ready-conditions"`
}

// NewCondition makes the contribution of a condition.
func NewCondition(name string, waits func() []string) ConditionOut {
	return ConditionOut{Condition: Condition{Name: name, Waits: waits}}
}

// ErrStopping is returned by WaitReady when the hive stops, or has failed to start.
var ErrStopping = errors.New("the hive stops")

// Readiness reports whether the hive is ready: it has started, and every condition held at one look. It is injectable
// and safe for concurrent use.
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

// Ready returns true, or what is waited for. Once ready it stays so until the stop begins: what happens later is a matter of
// health. A condition that panics does not hold.
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

// waits calls Waits, whatever that does.
func (c Condition) waits() (waits []string) {
	if err := <-guard.Go(func() error { waits = c.Waits(); return nil }); err != nil {
		return []string{err.Error()}
	}
	return waits
}

// readyPeriod is how often WaitReady looks: conditions do not tell when they change.
const readyPeriod = 20 * time.Millisecond

// WaitReady returns nil as soon as the hive is ready. Its errors are ErrStopping and the cause of ctx, with what is waited for.
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
