package hive

import (
	"sync/atomic"

	"github.com/statehive/statehive/hive/cell"
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

// Readiness says whether the hive does what it is for: it has started, and every condition held at one look. It is injectable
// and safe for concurrent use.
type Readiness struct {
	started    *atomic.Bool
	conditions []Condition
	ready      atomic.Bool
}

type readinessParams struct {
	cell.In
	Conditions []Condition `group:"ready-conditions"`
}

func (h *Hive) newReadiness(p readinessParams) *Readiness {
	return &Readiness{started: &h.up, conditions: p.Conditions}
}

// Ready returns true, or what is waited for. Once ready it stays so: what happens later is a matter of health.
func (r *Readiness) Ready() (ready bool, waits []string) {
	if r.ready.Load() {
		return true, nil
	}
	if !r.started.Load() {
		waits = append(waits, "start of the hive")
	}
	for _, c := range r.conditions {
		for _, w := range c.Waits() {
			waits = append(waits, c.Name+": "+w)
		}
	}
	if len(waits) > 0 {
		return r.ready.Load(), waits
	}
	r.ready.Store(true)
	return true, nil
}
