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

func testItem(q *queue, key string) *item {
	it := q.items[key]
	if it == nil {
		it = &item{key: key, state: waiting, heapAt: -1}
		q.items[key] = it
	}
	return it
}

// next takes one item from the lane whose turn it is.
func next(q *queue) *item {
	turn, n := q.turn(0)
	if n == 0 {
		return nil
	}
	q.spend(turn, 1)
	return q.pop(turn)
}

func TestLanesHaveTheirShares(t *testing.T) {
	q := newQueue()
	for l := range lanes {
		for i := range 210 {
			q.enqueue(testItem(q, string(rune('a'+l))+string(rune(i))), l, 0)
		}
	}
	for round := range 10 {
		var taken [lanes]int
		for range 21 {
			taken[next(q).lane]++
		}
		if taken != shares {
			t.Errorf("round %d: %v, want %v", round, taken, shares)
		}
	}
}

func TestLaneIsServedWhenTheOthersAreEmpty(t *testing.T) {
	for l := range lanes {
		q := newQueue()
		for i := range 100 {
			q.enqueue(testItem(q, string(rune(i))), l, 0)
		}
		for i := range 100 {
			if it := next(q); it == nil || it.key != string(rune(i)) {
				t.Fatalf("lane %d, item %d: %v", l, i, it)
			}
		}
		if it := next(q); it != nil {
			t.Errorf("lane %d: one more item %v", l, it)
		}
	}
}

// TestQueueAgreesWithItsModel moves items at random and compares with what a
// map says about each.
func TestQueueAgreesWithItsModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := newQueue()
		begin := time.Unix(0, 0)
		now := begin
		lane := map[string]int{}      // of the ready ones
		due := map[string]time.Time{} // of those that wait for a time
		key := rapid.SampledFrom([]string{"a", "b", "c", "d", "e"})
		t.Repeat(map[string]func(*rapid.T){
			"enqueue": func(t *rapid.T) {
				k, l := key.Draw(t, "key"), rapid.IntRange(0, int(lanes)-1).Draw(t, "lane")
				q.enqueue(testItem(q, k), laneOf(l), 0)
				if at, ready := lane[k]; !ready || l < at {
					lane[k] = l
				}
				delete(due, k)
			},
			"pop": func(t *rapid.T) {
				it := next(q)
				if (it == nil) != (len(lane) == 0) {
					t.Fatalf("popped %v of %v", it, lane)
				}
				if it == nil {
					return
				}
				if at, ready := lane[it.key]; !ready || at != int(it.lane) {
					t.Fatalf("popped %s of lane %d, which is in %d, %v", it.key, it.lane, at, ready)
				}
				delete(lane, it.key)
			},
			"wait": func(t *rapid.T) {
				k := key.Draw(t, "key")
				_, ready := lane[k]
				if _, waits := due[k]; ready || waits {
					return
				}
				due[k] = now.Add(time.Duration(rapid.IntRange(1, 10).Draw(t, "for")))
				q.wait(testItem(q, k), due[k])
			},
			"wake": func(t *rapid.T) {
				now = now.Add(time.Duration(rapid.IntRange(0, 5).Draw(t, "later")))
				q.wake(now)
				for k, at := range due {
					if !at.After(now) {
						lane[k] = int(laneRetry)
						delete(due, k)
					}
				}
			},
			"": func(t *rapid.T) {
				var first time.Time
				for _, at := range due {
					first = earliest(first, at)
				}
				if got := q.nextDue(); !got.Equal(first) {
					t.Fatalf("next due %v, want %v", got, first)
				}
				ready, changes := 0, 0
				for l := range q.ready {
					ready += q.ready[l].length
				}
				for _, at := range lane {
					if at == int(laneChange) {
						changes++
					}
				}
				if ready != len(lane) || q.backlog() != changes {
					t.Fatalf("%d ready and %d changes, want %v", ready, q.backlog(), lane)
				}
			},
		})
	})
}

func laneOf(l int) lane { return [lanes]lane{laneChange, laneManual, laneRetry, laneRefresh}[l] }
