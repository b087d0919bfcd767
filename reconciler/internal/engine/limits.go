package engine

import (
	"errors"
	"fmt"
	"math"

	"golang.org/x/time/rate"
)

// Limits can be changed while a reconciler runs.
type Limits struct {
	// RoundSize is how many changes are taken from the feed at a time. Default 1000.
	RoundSize int
	// Limiter bounds the rate of operations; nil, or a rate of [rate.Inf]: there is no
	// bound. With a rate of 0 nothing runs but a first burst. Its own methods may be used
	// to change it at any time.
	Limiter *rate.Limiter
}

func (l Limits) check() error {
	if l.RoundSize < 0 {
		return fmt.Errorf("Limits.RoundSize is %d: it must be positive, or 0 for the default", l.RoundSize)
	}
	if l.Limiter == nil {
		return nil
	}
	return checkRate(l.Limiter.Limit(), l.Limiter.Burst())
}

// checkRate refuses a rate that is no number, and one that would never let anything through
// although it is positive.
func checkRate(limit rate.Limit, burst int) error {
	switch {
	case math.IsInf(float64(limit), 1): // rate.Inf is a number, and JSON carries it
		return errors.New("Limits.Limiter has the rate +Inf: for no bound it must be rate.Inf, or Limiter nil")
	case !(limit >= 0): // or NaN
		return fmt.Errorf("Limits.Limiter has the rate %v: it must be positive, 0 for a standstill, or rate.Inf for no bound", float64(limit))
	case limit > 0 && limit != rate.Inf && burst < 1:
		return fmt.Errorf("Limits.Limiter has a burst of %d: it must be at least 1, or nothing ever runs", burst)
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
