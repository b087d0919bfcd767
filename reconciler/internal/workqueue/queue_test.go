package workqueue

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// next takes one item from the class whose turn it is.
func next(q *Queue) *Item {
	turn, n := q.Turn(0)
	if n == 0 {
		return nil
	}
	q.Spend(turn, 1)
	return q.Pop(turn)
}

func TestClassesHaveTheirWeights(t *testing.T) {
	q := New()
	for l := range Classes {
		for i := range 210 {
			q.Enqueue(q.Get(string(rune('a'+l))+string(rune(i))), l, 0, time.Time{})
		}
	}
	for round := range 10 {
		var taken [Classes]int
		for range 21 {
			taken[next(q).class]++
		}
		if taken != weights {
			t.Errorf("round %d: %v, want %v", round, taken, weights)
		}
	}
}

func TestClassIsServedWhenTheOthersAreEmpty(t *testing.T) {
	for l := range Classes {
		q := New()
		for i := range 100 {
			q.Enqueue(q.Get(string(rune(i))), l, 0, time.Time{})
		}
		for i := range 100 {
			if it := next(q); it == nil || it.Key != string(rune(i)) {
				t.Fatalf("class %d, item %d: %v", l, i, it)
			}
		}
		if it := next(q); it != nil {
			t.Errorf("class %d: one more item %v", l, it)
		}
	}
}

// TestQueueAgreesWithItsModel moves items at random and compares with what a
// map says about each.
func TestQueueAgreesWithItsModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := New()
		begin := time.Unix(0, 0)
		now := begin
		class := map[string]int{}     // of the ready ones
		due := map[string]time.Time{} // of those that wait for a time
		key := rapid.SampledFrom([]string{"a", "b", "c", "d", "e"})
		t.Repeat(map[string]func(*rapid.T){
			"enqueue": func(t *rapid.T) {
				k, l := key.Draw(t, "key"), rapid.IntRange(0, int(Classes)-1).Draw(t, "class")
				q.Enqueue(q.Get(k), Class(l), 0, now)
				if at, ready := class[k]; !ready || l < at {
					class[k] = l
				}
				delete(due, k)
			},
			"pop": func(t *rapid.T) {
				it := next(q)
				if (it == nil) != (len(class) == 0) {
					t.Fatalf("popped %v of %v", it, class)
				}
				if it == nil {
					return
				}
				if at, ready := class[it.Key]; !ready || at != int(it.Class()) {
					t.Fatalf("popped %s of class %d, which is in %d, %v", it.Key, it.Class(), at, ready)
				}
				delete(class, it.Key)
				q.Forget(it)
			},
			"wait": func(t *rapid.T) {
				k := key.Draw(t, "key")
				_, ready := class[k]
				if _, waits := due[k]; ready || waits {
					return
				}
				due[k] = now.Add(time.Duration(rapid.IntRange(1, 10).Draw(t, "for")))
				q.Wait(q.Get(k), Debounce, due[k], "")
			},
			"wake": func(t *rapid.T) {
				now = now.Add(time.Duration(rapid.IntRange(0, 5).Draw(t, "later")))
				q.Wake(now)
				for k, at := range due {
					if !at.After(now) {
						class[k] = int(Changes)
						delete(due, k)
					}
				}
			},
			"": func(t *rapid.T) {
				var first, got time.Time
				for _, at := range due {
					if first.IsZero() || at.Before(first) {
						first = at
					}
				}
				if it := q.NextDue(); it != nil {
					got = it.Due()
				}
				if !got.Equal(first) {
					t.Fatalf("next due %v, want %v", got, first)
				}
				ready, changes := 0, 0
				for l := range q.ready {
					ready += q.ready[l].length
				}
				for _, at := range class {
					if at == int(Changes) {
						changes++
					}
				}
				if ready != len(class) || q.ready[Changes].length != changes {
					t.Fatalf("%d ready and %d changes, want %v", ready, q.ready[Changes].length, class)
				}
			},
		})
	})
}
