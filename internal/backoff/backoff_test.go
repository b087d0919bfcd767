package backoff_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/statehive/statehive/internal/backoff"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// always returns the same number instead of a random one.
func always(n float64) func() float64 { return func() float64 { return n } }

func TestPausesDoubleUpToTheLongest(t *testing.T) {
	b := backoff.Backoff{Min: 100 * time.Millisecond, Max: time.Second}
	for attempts, want := range map[int]time.Duration{
		0: 100 * time.Millisecond,
		1: 100 * time.Millisecond,
		2: 200 * time.Millisecond,
		3: 400 * time.Millisecond,
		4: 800 * time.Millisecond,
		5: time.Second, 6: time.Second, math.MaxInt: time.Second,
	} {
		if got := b.After(attempts, always(0.5)); got != want {
			t.Errorf("the pause after %d attempts is %v, expected %v", attempts, got, want)
		}
		shortest, longest := b.After(attempts, always(0)), b.After(attempts, always(1))
		if shortest != want-want/5 || longest != want+want/5 {
			t.Errorf("the pause after %d attempts is from %v to %v, expected %v ± 20 %%", attempts, shortest, longest, want)
		}
	}
}

func TestTheFirstPauseIsNotLongerThanTheLongest(t *testing.T) {
	if got := (backoff.Backoff{Min: time.Minute, Max: time.Second}).After(1, always(0.5)); got != time.Second {
		t.Errorf("the first pause is %v", got)
	}
}

func TestNoPauseIsTooLongForADuration(t *testing.T) {
	for _, b := range []backoff.Backoff{{1, math.MaxInt64}, {math.MaxInt64/2 - 1, math.MaxInt64}, {math.MaxInt64, math.MaxInt64}} {
		for attempts := range 100 {
			if d := b.After(attempts, rand.Float64); d < 0 {
				t.Fatalf("the pause of %+v after %d attempts is %v", b, attempts, d)
			}
		}
	}
}
