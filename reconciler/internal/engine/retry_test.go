package engine

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestBackoffDoublesWithinItsBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := Config{
			MinBackoff: time.Duration(rapid.Int64Range(1, math.MaxInt64).Draw(t, "min")),
			MaxBackoff: time.Duration(rapid.Int64Range(1, math.MaxInt64).Draw(t, "max")),
		}
		attempts := rapid.OneOf(rapid.IntRange(-1, 80), rapid.Just(math.MaxInt)).Draw(t, "attempts")
		want := float64(c.MinBackoff) * math.Exp2(float64(max(attempts, 1)-1))
		want = min(want, float64(c.MaxBackoff))
		got := float64(c.backoff(attempts, rand.Float64))
		if got < want*0.79-2 || got > want*1.21+2 {
			t.Fatalf("backoff of attempt %d is %v, want %v ±20 %%", attempts, c.backoff(attempts, rand.Float64), time.Duration(want))
		}
	})
}

func TestBackoffIsNeverNegative(t *testing.T) {
	for _, c := range []Config{
		{MinBackoff: math.MaxInt64, MaxBackoff: math.MaxInt64},
		{MinBackoff: 1, MaxBackoff: math.MaxInt64},
		Config{}.withDefaults(),
	} {
		for attempts := range 200 {
			if d := c.backoff(attempts, rand.Float64); d < 0 {
				t.Errorf("backoff of attempt %d is %v", attempts, d)
			}
		}
	}
}
