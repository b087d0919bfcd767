package hold

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/statehive/statehive/reconciler/internal/pool"
	"github.com/statehive/statehive/reconciler/internal/workqueue"
)

func TestBackoffDoublesWithinItsBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := Backoff{
			Min:    time.Duration(rapid.Int64Range(1, math.MaxInt64).Draw(t, "min")),
			Max:    time.Duration(rapid.Int64Range(1, math.MaxInt64).Draw(t, "max")),
			Random: rand.Float64,
		}
		attempts := rapid.OneOf(rapid.IntRange(-1, 80), rapid.Just(math.MaxInt)).Draw(t, "attempts")
		want := float64(c.Min) * math.Exp2(float64(max(attempts, 1)-1))
		want = min(want, float64(c.Max))
		got := float64(c.After(attempts))
		if got < want*0.79-2 || got > want*1.21+2 {
			t.Fatalf("backoff of attempt %d is %v, want %v ±20 %%", attempts, c.After(attempts), time.Duration(want))
		}
	})
}

func TestBackoffIsNeverNegative(t *testing.T) {
	for _, c := range []Backoff{
		{Min: math.MaxInt64, Max: math.MaxInt64, Random: rand.Float64},
		{Min: 1, Max: math.MaxInt64, Random: rand.Float64},
		{Min: 100 * time.Millisecond, Max: time.Minute, Random: rand.Float64},
	} {
		for attempts := range 200 {
			if d := c.After(attempts); d < 0 {
				t.Errorf("backoff of attempt %d is %v", attempts, d)
			}
		}
	}
}

func TestOutcomeDecidesWhatFollows(t *testing.T) {
	b := Backoff{Min: time.Second, Max: time.Minute, Random: func() float64 { return 0.5 }}
	now, boom := time.Unix(1000, 0), errors.New("boom")
	for name, c := range map[string]struct {
		out   pool.Outcome
		stage workqueue.Stage
		in    time.Duration
	}{
		"success":              {stage: workqueue.Rest},
		"again":                {out: pool.Outcome{Result: pool.Result{Again: time.Hour}}, stage: workqueue.Again, in: time.Hour},
		"failure":              {out: pool.Outcome{Err: boom}, stage: workqueue.Backoff, in: 4 * time.Second},
		"failure, wanted once": {out: pool.Outcome{Err: boom, Result: pool.Result{Again: time.Hour}}, stage: workqueue.Backoff, in: 4 * time.Second},
		"terminal":             {out: pool.Outcome{Err: fmt.Errorf("it is %w", Terminal(boom))}, stage: workqueue.Terminal},
		"retry after":          {out: pool.Outcome{Err: fmt.Errorf("it is %w", RetryAfter(time.Hour, boom))}, stage: workqueue.Backoff, in: time.Hour},
		"retry after nothing":  {out: pool.Outcome{Err: RetryAfter(0, boom)}, stage: workqueue.Backoff, in: 4 * time.Second},
		"decided before":       {out: pool.Outcome{Err: boom, Delay: 3 * time.Second}, stage: workqueue.Backoff, in: 3 * time.Second},
	} {
		want := time.Time{}
		if c.in > 0 {
			want = now.Add(c.in)
		}
		stage, due := b.Next(&pool.Task{Outcome: c.out}, 3, now)
		if stage != c.stage || !due.Equal(want) {
			t.Errorf("%s: %v until %v, want %v until %v", name, stage, due, c.stage, want)
		}
	}
}

func TestBackoffOfAnOutcomeIsDecidedOnce(t *testing.T) {
	b := Backoff{Min: time.Second, Max: time.Minute, Random: rand.Float64}
	task := &pool.Task{Outcome: pool.Outcome{Err: errors.New("boom")}}
	_, first := b.Next(task, 1, time.Unix(1000, 0))
	if _, second := b.Next(task, 1, time.Unix(1000, 0)); !second.Equal(first) {
		t.Errorf("%v, and then %v", first, second)
	}
}
