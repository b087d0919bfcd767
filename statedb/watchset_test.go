package statedb_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/statehive/statehive/statedb"
)

// never is when a watch closes that stays open.
const never = time.Duration(math.MaxInt64)

// waiting is a set of watches that close at some time after its start.
type waiting struct {
	set     statedb.WatchSet
	watches []<-chan struct{}
	start   time.Time
}

// newWaiting has to be called in a bubble.
func newWaiting(closings ...time.Duration) *waiting {
	w := &waiting{start: time.Now()}
	for _, after := range closings {
		watch := make(chan struct{})
		w.watches = append(w.watches, watch)
		switch after {
		case never:
		case 0:
			close(watch)
		default:
			time.AfterFunc(after, func() { close(watch) })
		}
	}
	w.set.Add(w.watches...)
	return w
}

// waited is what a call of Wait did: when it returned, and the places of the
// watches that it returned.
type waited struct {
	after  time.Duration
	closed []int
	err    error
}

func (w *waiting) wait(ctx context.Context, quiet time.Duration) waited {
	closed, err := w.set.Wait(ctx, quiet)
	var places []int
	for _, watch := range closed {
		places = append(places, slices.Index(w.watches, watch))
	}
	slices.Sort(places)
	return waited{time.Since(w.start), places, err}
}

func (w *waiting) want(t *testing.T, quiet, after time.Duration, closed ...int) {
	t.Helper()
	w.wantWith(t.Context(), t, quiet, waited{after, closed, nil})
}

func (w *waiting) wantWith(ctx context.Context, t *testing.T, quiet time.Duration, want waited) {
	t.Helper()
	got := w.wait(ctx, quiet)
	if got.after != want.after || !slices.Equal(got.closed, want.closed) || !errorIs(got.err, want.err) {
		t.Errorf("Wait returned %v, expected %v", got, want)
	}
	for i, watch := range w.watches {
		if slices.Contains(got.closed, i) && w.set.Has(watch) {
			t.Errorf("watch %d was returned and is still in the set", i)
		}
	}
}

func TestWatchSetWaitsUntilAWatchCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWaiting(time.Hour, 2*time.Hour, never)
		w.want(t, 0, time.Hour, 0)
		w.want(t, 0, 2*time.Hour, 1)
	})
}

func TestWatchSetReturnsAllThatHaveClosedAlready(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWaiting(0, never, 0, time.Hour)
		w.want(t, -time.Second, 0, 0, 2)
		w.want(t, 0, time.Hour, 3)
	})
}

func TestWatchSetCollectsUntilItIsQuiet(t *testing.T) {
	const ms = time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		w := newWaiting(1000*ms, 1030*ms, 1060*ms, 1111*ms, never)
		w.want(t, 50*ms, 1110*ms, 0, 1, 2)
		w.want(t, 50*ms, 1161*ms, 3)
	})
}

func TestWatchSetReturnsWhileWatchesCloseAllTheTime(t *testing.T) {
	const ms = time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		var closings []time.Duration
		for i := range 200 {
			closings = append(closings, time.Duration(1000+10*i)*ms+ms/2)
		}
		w := newWaiting(closings...)
		first := w.wait(t.Context(), 15*ms) // ten times 15 ms have 15 closings after the first
		if first.after != 1150*ms+ms/2 || len(first.closed) < 15 || len(first.closed) > 16 || first.err != nil {
			t.Errorf("Wait returned %v", first)
		}
		second := w.wait(t.Context(), 1000*ms)
		if want := closings[199]; second.after != want || len(first.closed)+len(second.closed) != 200 {
			t.Errorf("Wait returned %v", second)
		}
	})
}

func TestWatchSetDoesNotWaitForNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWaiting(time.Second, 2*time.Second)
		w.set.Add(nil)
		w.want(t, time.Hour, 2*time.Second, 0, 1)
	})
}

func TestWatchSetWithAnEndlessQuietPeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		newWaiting(time.Second, 24*time.Hour).want(t, math.MaxInt64, 24*time.Hour, 0, 1)
	})
}

func TestWatchSetReturnsTheContextsErrorWithWhatHasClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		w := newWaiting(59*time.Second, 61*time.Second)
		w.wantWith(ctx, t, time.Hour, waited{time.Minute, []int{0}, context.DeadlineExceeded})
		w.wantWith(ctx, t, time.Hour, waited{time.Minute, nil, context.DeadlineExceeded})
		w.want(t, 0, 61*time.Second, 1)
	})
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		w := newWaiting(0, never)
		w.wantWith(ctx, t, 0, waited{0, []int{0}, context.Canceled})
	})
}

func TestWatchSetThatIsEmptyWaitsForTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		w := newWaiting()
		w.set.Add(nil, nil)
		w.wantWith(ctx, t, 0, waited{time.Second, nil, context.DeadlineExceeded})
	})
}

func TestWatchSetWaitsForWhatWasInItAtTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWaiting(2*time.Second, never)
		closed := make(chan struct{})
		close(closed)
		time.AfterFunc(time.Second, func() {
			w.set.Delete(w.watches...)
			w.set.Add(closed)
		})
		w.want(t, 0, 2*time.Second, 0)
		if w.set.Has(w.watches[1]) || !w.set.Has(closed) {
			t.Error("Wait changed what others had added and deleted")
		}
	})
}

// TestWatchSetOfManyWatches has more of them than a select takes.
func TestWatchSetOfManyWatches(t *testing.T) {
	const size = 1<<16 + 1000
	synctest.Test(t, func(t *testing.T) {
		closings := slices.Repeat([]time.Duration{never}, size)
		var want []int
		for i := 0; i < size; i += 1000 {
			closings[i] = time.Minute + time.Duration(i)
			want = append(want, i)
		}
		newWaiting(closings...).want(t, time.Second, time.Minute+time.Duration(want[len(want)-1])+time.Second, want...)
	})
}

func TestWatchSetIsASet(t *testing.T) {
	a, b, c := make(chan struct{}), make(chan struct{}), make(chan struct{})
	var set, other statedb.WatchSet
	want := func(has ...chan struct{}) {
		t.Helper()
		for name, watch := range map[string]chan struct{}{"a": a, "b": b, "c": c, "nil": nil} {
			if want := slices.Contains(has, watch); set.Has(watch) != want {
				t.Errorf("the set has %s: %t, expected %t", name, !want, want)
			}
		}
	}
	want()
	set.Delete(a)
	set.Clear()
	set.Merge(&other)
	set.Merge(&set)
	set.Add()
	want()
	set.Add(a, nil, b, a)
	want(a, b)
	set.Delete(a, c, nil)
	want(b)
	other.Add(b, c)
	set.Merge(&other)
	set.Merge(&set)
	want(b, c)
	set.Clear()
	want()
	if !other.Has(b) || !other.Has(c) {
		t.Error("a set that was merged into another is not as it was")
	}
	set.Add(a)
	want(a)
}

// TestWatchSetsAreForConcurrentUse is for the race detector.
func TestWatchSetsAreForConcurrentUse(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var set statedb.WatchSet
	var waiters, users sync.WaitGroup
	for range 4 {
		waiters.Go(func() {
			for ctx.Err() == nil {
				if closed, err := set.Wait(ctx, time.Microsecond); err == nil && len(closed) == 0 {
					t.Error("Wait returned neither a watch nor an error")
				}
			}
		})
	}
	for range 4 {
		users.Go(func() {
			for range 200 {
				var own statedb.WatchSet
				closed, deleted := make(chan struct{}), make(chan struct{})
				own.Add(closed, deleted)
				set.Merge(&own)
				set.Delete(deleted)
				set.Has(closed)
				close(closed)
			}
		})
	}
	users.Wait()
	cancel()
	waiters.Wait()
	_, _ = set.Wait(ctx, 0) // what has closed since
	if closed, _ := set.Wait(ctx, 0); len(closed) > 0 {
		t.Errorf("%d watches were returned twice", len(closed))
	}
}

// TestWatchSetAgreesWithItsModel compares Wait with what its documentation says of
// watches that close at times which are known. The times differ in their
// nanoseconds, so that no two things happen at once.
func TestWatchSetAgreesWithItsModel(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		quiet := milliseconds(rapid.SampledFrom([]int{0, 1, 2, 5, 50}).Draw(r, "quiet"))
		timeout := milliseconds(rapid.SampledFrom([]int{0, 10, 50, 1000}).Draw(r, "timeout")) + 999_999
		size := rapid.SampledFrom([]int{1, 10, 300}).Draw(r, "size")
		last := rapid.SampledFrom([]int{10, 60}).Draw(r, "milliseconds of closings")
		var closings []time.Duration
		for i, after := range rapid.SliceOfN(rapid.IntRange(-1, last), size, size).Draw(r, "milliseconds until each closes") {
			if after < 0 {
				closings = append(closings, never)
			} else {
				closings = append(closings, milliseconds(after)+time.Duration(i+1))
			}
		}
		var got, rest waited
		synctest.Test(t, func(t *testing.T) {
			w := newWaiting(closings...)
			ctx, cancel := context.WithTimeout(t.Context(), timeout)
			defer cancel()
			got = w.wait(ctx, quiet)
			time.Sleep(time.Minute)
			ended, end := context.WithCancel(t.Context())
			end()
			rest = w.wait(ended, 0) // what is left in the set and has closed
		})
		want := modelOfWait(closings, quiet, timeout)
		if fmt.Sprint(got) != fmt.Sprint(want) {
			r.Fatalf("Wait returned %v, expected %v", got, want)
		}
		if both := slices.Sorted(slices.Values(append(got.closed, rest.closed...))); !slices.Equal(both, before(closings, never)) {
			r.Fatalf("two calls returned %v and %v: each watch has to be returned once", got.closed, rest.closed)
		}
	})
}

func milliseconds(n int) time.Duration { return time.Duration(n) * time.Millisecond }

func modelOfWait(closings []time.Duration, quiet, timeout time.Duration) waited {
	order := slices.Sorted(slices.Values(closings))
	end := order[0]
	if quiet > 0 && end != never {
		limit := end + 10*quiet
		for i, at := range order {
			if at == never || at > min(end+quiet, limit) && i > 0 {
				end = min(end+quiet, limit)
				break
			}
			end = at
		}
	}
	if end > timeout {
		return waited{timeout, before(closings, timeout), context.DeadlineExceeded}
	}
	return waited{end, before(closings, end+1), nil}
}

// before returns the places of the watches that close before a time.
func before(closings []time.Duration, end time.Duration) (places []int) {
	for i, at := range closings {
		if at < end {
			places = append(places, i)
		}
	}
	return places
}

func BenchmarkWatchSet(b *testing.B) {
	for _, size := range []int{1, 100, 10_000} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			var set statedb.WatchSet
			for range size - 1 {
				set.Add(make(chan struct{}))
			}
			b.ReportAllocs()
			for b.Loop() {
				watch := make(chan struct{})
				set.Add(watch)
				close(watch)
				if _, err := set.Wait(b.Context(), 0); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
