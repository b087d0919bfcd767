package engine

import (
	"errors"
	"fmt"

	"golang.org/x/time/rate"
)

// Limits can be changed while a reconciler runs.
type Limits struct {
	// RoundSize is how many changes are taken from the feed at a time. Default 1000.
	RoundSize int
	// Limiter bounds the rate of operations; nil: there is no bound. Its own
	// methods may be used to change it at any time.
	Limiter *rate.Limiter
}

func (l Limits) check() error {
	if l.RoundSize < 0 {
		return fmt.Errorf("Limits.RoundSize is %d: it must be positive, or 0 for the default", l.RoundSize)
	}
	return nil
}

func (l Limits) withDefaults() *Limits {
	setDefault(&l.RoundSize, 1000)
	return &l
}

// Limits returns the limits in force.
func (r *Engine) Limits() Limits { return *r.limits.Load() }

// SetLimits puts limits in the place of those in force. Nothing changes when one
// of them is wrong.
func (r *Engine) SetLimits(limits Limits) error {
	if err := limits.check(); err != nil {
		return err
	}
	r.limits.Store(limits.withDefaults())
	// One that does not run finds them when it does.
	if err := r.inbox.post(func(l *loop) { l.rate.Reset() }); !errors.Is(err, ErrNotRunning) {
		return err
	}
	return nil
}

func (r *Engine) roundSize() int { return r.limits.Load().RoundSize }
