package hold

import (
	"testing"
	"time"

	"golang.org/x/time/rate"
)

func TestRateAsksTheLimiterAgainWhenItAllowsTheNextOperation(t *testing.T) {
	now := time.Unix(1000, 0)
	limiter := rate.NewLimiter(10, 3)
	r := NewRate(func() *rate.Limiter { return limiter })
	if n := r.Take(5, now); n != 3 || r.Holds(now) {
		t.Errorf("%d operations, held %t, want a burst of 3", n, r.Holds(now))
	}
	if n := r.Take(5, now); n != 0 || !r.Holds(now) {
		t.Errorf("%d operations, held %t, want none", n, r.Holds(now))
	}
	if next := now.Add(100 * time.Millisecond); !r.Until().Equal(next) || r.Holds(next) {
		t.Errorf("asked again at %v, want %v", r.Until(), next)
	}
	now = r.Until()
	if n := r.Take(5, now); n != 1 {
		t.Errorf("%d operations after the wait, want 1: asking when must not cost one", n)
	}
	r.Reset()
	if r.Holds(now) || !r.Until().IsZero() {
		t.Error("it must be asked at once")
	}
}

func TestRateThatAllowsNothingIsAskedEverySecond(t *testing.T) {
	now := time.Unix(1000, 0)
	for name, limiter := range map[string]*rate.Limiter{
		"no burst": rate.NewLimiter(10, 0),
		"slow":     rate.NewLimiter(rate.Every(time.Hour), 1),
	} {
		limiter.AllowN(now, 1)
		r := NewRate(func() *rate.Limiter { return limiter })
		if n := r.Take(1, now); n != 0 || !r.Until().Equal(now.Add(time.Second)) {
			t.Errorf("%s: %d operations, asked again at %v", name, n, r.Until())
		}
	}
}

func TestRateWithoutALimiterAllowsEverything(t *testing.T) {
	r := NewRate(func() *rate.Limiter { return nil })
	if n := r.Take(5, time.Unix(1000, 0)); n != 5 {
		t.Errorf("%d operations, want 5", n)
	}
}
