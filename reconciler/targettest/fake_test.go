package targettest_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/targettest"
	"github.com/statehive/statehive/statedb"
)

func newFake() *targettest.Fake[row] {
	return targettest.NewFake(targettest.FakeConfig[row]{
		Key:     func(r row) string { return r.name },
		Spec:    func(r row) string { return r.value },
		Version: func(r row) uint64 { n, _ := strconv.ParseUint(r.value, 10, 64); return n },
	})
}

// started returns a fake that is ready, to be used in a bubble.
func started(t *testing.T) *targettest.Fake[row] {
	t.Helper()
	f := newFake()
	if err := f.Init(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.TakeLog()
	return f
}

func txn() statedb.ReadTxn { return statedb.New().ReadTxn() }

func always(fault targettest.Fault) func(targettest.Operation) targettest.Fault {
	return func(targettest.Operation) targettest.Fault { return fault }
}

func want(t *testing.T, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// texts returns operations with their outcomes.
func texts(log []targettest.Operation) []string {
	var all []string
	for _, op := range log {
		all = append(all, fmt.Sprintf("%v: %s", op, op.Outcome))
	}
	return all
}

func TestTheFakeKeepsTheContract(t *testing.T) {
	for name, variant := range map[string]func(*targettest.Fake[row]) reconciler.Target[row]{
		"whole":     func(f *targettest.Fake[row]) reconciler.Target[row] { return f },
		"observing": func(f *targettest.Fake[row]) reconciler.Target[row] { return f.Observing() },
		"pruning":   func(f *targettest.Fake[row]) reconciler.Target[row] { return f.Pruning() },
	} {
		t.Run(name, func(t *testing.T) {
			f := targettest.NewFake(targettest.FakeConfig[row]{
				Key:  func(r row) string { return r.name },
				Spec: func(r row) string { return r.value },
			})
			latencies := targettest.Random(1, targettest.Mix{Latency: 10 * time.Millisecond})
			f.Will(func(op targettest.Operation) targettest.Fault {
				if op.Key == "bad" && op.Kind != targettest.Delete {
					return targettest.Fault{Err: reconciler.Terminal(errors.New("bad"))}
				}
				return latencies(op)
			})
			targettest.Run(t, fakeContract(f, variant(f)))
			if broken := f.Violations(); len(broken) > 0 {
				t.Errorf("the kit breaks promises: %q", broken)
			}
		})
	}
}

func fakeContract(f *targettest.Fake[row], target reconciler.Target[row]) targettest.Contract[row] {
	return targettest.Contract[row]{
		Open: func(*testing.T) reconciler.Target[row] {
			f.Crash()
			return target
		},
		Key:      func(r row) string { return r.name },
		Rows:     []row{{"a", "1"}, {"b", "2"}, {"c", "3"}},
		Variants: []row{{"b", "4"}, {"b", "5"}, {"c", "6"}},
		Invalid:  []row{{"bad", "7"}},
		Holds: func(_ *testing.T, r row) bool {
			is, there := f.State()[r.name]
			return there && is == r.value
		},
		Remove:  func(_ *testing.T, r row) { f.Remove(r.name) },
		Disturb: func(_ *testing.T, r row) { f.Corrupt(r.name) },
		Foreign: func(t *testing.T) func() bool {
			f.PutForeign(row{"other", "1"})
			t.Cleanup(func() { f.Remove("other") })
			return func() bool { return f.Foreign()["other"] == "1" }
		},
		Virtual: true,
	}
}

func TestFaultsDecideWhatAnOperationDoes(t *testing.T) {
	failure := errors.New("failure")
	for name, c := range map[string]struct {
		fault   targettest.Fault
		outcome string
		state   string // of the key, "-" if absent
		took    time.Duration
	}{
		"none":               {targettest.Fault{}, "changed", "2", 0},
		"slow":               {targettest.Fault{Before: time.Second, After: time.Minute}, "changed", "2", time.Minute + time.Second},
		"too slow":           {targettest.Fault{Before: time.Hour, Late: time.Second}, "context deadline exceeded", "1", 10*time.Minute + time.Second},
		"too slow to answer": {targettest.Fault{After: time.Hour}, "context deadline exceeded", "2", 10 * time.Minute},
		"deaf":               {targettest.Fault{Before: time.Hour, Deaf: true}, "changed", "2", time.Hour},
		"error":              {targettest.Fault{Err: failure, Before: time.Second}, "failure", "1", time.Second},
		"error, whole":       {targettest.Fault{Err: failure, Effect: targettest.Whole}, "failure", "2", 0},
		"half":               {targettest.Fault{Effect: targettest.Half}, "failed halfway", "half-made", 0},
		"error, half":        {targettest.Fault{Err: failure, Effect: targettest.Half}, "failure", "half-made", 0},
		"panic":              {targettest.Fault{Panic: "ouch"}, "panic: ouch", "1", 0},
		"panic, whole":       {targettest.Fault{Panic: "ouch", Effect: targettest.Whole}, "panic: ouch", "2", 0},
		"goexit":             {targettest.Fault{Goexit: true}, "goexit", "1", 0},
		"again":              {targettest.Fault{Again: time.Second}, "changed", "2", 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := started(t)
				f.Put(row{"a", "1"})
				f.Will(always(c.fault))
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
				defer cancel()
				var wait sync.WaitGroup
				wait.Go(func() {
					defer func() { _ = recover() }()
					result, err := f.Update(ctx, txn(), row{"a", "2"})
					if c.fault.Err != nil && !errors.Is(err, failure) || result.Again != c.fault.Again {
						t.Errorf("Update = %v, %v", result, err)
					}
				})
				wait.Wait()
				op := f.TakeLog()[0]
				want(t, "outcome", c.outcome, op.Outcome)
				want(t, "time", c.took, op.Ended.Sub(op.Began))
				want(t, "world", map[string]string{"a": c.state}, f.State())
			})
		})
	}
}

func TestFaultsOfOtherOperations(t *testing.T) {
	f := started(t)
	f.Put(row{"a", "1"})
	f.Put(row{"b", "1"})
	f.Will(always(targettest.Fault{Effect: targettest.Half}))
	if err := f.Delete(t.Context(), txn(), row{"b", "1"}); err == nil {
		t.Error("half a Delete succeeds")
	}
	want(t, "world", map[string]string{"a": "1", "b": "half-made"}, f.State())
	var observed []string
	for obj, err := range f.Observe(t.Context()) {
		observed = append(observed, fmt.Sprint(obj, err))
	}
	want(t, "observed", []string{"{a 1} <nil>", "{ } failed halfway"}, observed)
	if n, err := f.Pruning().Prune(t.Context(), txn(), nothing); n != 1 || err == nil {
		t.Errorf("half a Prune = %d, %v", n, err)
	}
	want(t, "world", map[string]string{"b": "half-made"}, f.State())
}

func nothing(func(row, statedb.Revision) bool) {}

var _ iter.Seq2[row, statedb.Revision] = nothing

func TestStuckOperationsGoOnWhenReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := started(t)
		f.Will(always(targettest.Fault{Stuck: true}))
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _, _ = f.Update(ctx, txn(), row{"a", "1"}) }()
		go func() { _, _ = f.Update(ctx, txn(), row{"b", "1"}) }()
		synctest.Wait()
		cancel()
		time.Sleep(time.Hour)
		want(t, "in hand", []string{"update a=1: ", "update b=1: "}, texts(f.InHand()))
		f.Release("a")
		f.Release("a")
		synctest.Wait()
		want(t, "in hand", []string{"update b=1: "}, texts(f.InHand()))
		f.Crash()
		synctest.Wait()
		want(t, "log", []string{"update a=1: changed", "update b=1: dead"}, texts(f.Log()))
		want(t, "world", map[string]string{"a": "1"}, f.State())
		want(t, "peak", 2, f.Peak())
	})
}

func TestCallersThatBreakPromisesAreFound(t *testing.T) {
	for name, c := range map[string]struct {
		calls func(ctx context.Context, f *targettest.Fake[row])
		want  []string
	}{
		"before init": {
			func(ctx context.Context, f *targettest.Fake[row]) {
				f.Crash()
				_ = f.Delete(ctx, txn(), row{"a", "1"})
			},
			[]string{"delete a before Init has succeeded"},
		},
		"two on one key": {
			func(ctx context.Context, f *targettest.Fake[row]) {
				go func() { _, _ = f.Update(ctx, txn(), row{"a", "1"}) }()
				synctest.Wait()
				_ = f.Delete(ctx, txn(), row{"a", "1"})
			},
			[]string{"delete a while update a=1 is running"},
		},
		"two on two keys, and reads": {
			func(ctx context.Context, f *targettest.Fake[row]) {
				go func() { _, _ = f.Update(ctx, txn(), row{"a", "1"}) }()
				synctest.Wait()
				_ = f.Delete(ctx, txn(), row{"b", "1"})
				_, _ = f.Diff(ctx, txn(), row{"a", "1"})
			},
			nil,
		},
		"beside prune": {
			func(ctx context.Context, f *targettest.Fake[row]) {
				go func() { _, _ = f.Pruning().Prune(ctx, txn(), nothing) }()
				synctest.Wait()
				_, _ = f.Update(ctx, txn(), row{"a", "1"})
			},
			[]string{"update a=1 while prune is running"},
		},
		"prune of an observer": {
			func(ctx context.Context, f *targettest.Fake[row]) {
				_, _ = f.Prune(ctx, txn(), nothing)
				_, _ = f.Observing().Prune(ctx, txn(), nothing)
			},
			[]string{"prune of a target that can observe", "prune of a target that can observe"},
		},
		"an old row": {
			func(ctx context.Context, f *targettest.Fake[row]) {
				_, _ = f.Update(ctx, txn(), row{"a", "2"})
				_ = f.Delete(ctx, txn(), row{"a", "2"})
				_ = f.Delete(ctx, txn(), row{"a", "1"})
				_ = f.Delete(ctx, txn(), row{"a", "no version"})
			},
			[]string{"delete a with a row of version 1, older than the 2 of the last update"},
		},
		"an old row that was observed since the update, and one before it": {
			func(ctx context.Context, f *targettest.Fake[row]) {
				f.Put(row{"a", "1"})
				for _, order := range []string{"update, observe", "observe, update"} {
					for step := range strings.SplitSeq(order, ", ") {
						if step == "observe" {
							f.Observe(ctx)(func(row, error) bool { return true })
							continue
						}
						ended, cancel := context.WithCancel(ctx)
						cancel()
						_, _ = f.Update(ended, txn(), row{"a", "2"})
					}
					_ = f.Delete(ctx, txn(), row{"a", "1"})
					f.Put(row{"a", "1"})
				}
			},
			[]string{"delete a with a row of version 1, older than the 2 of the last update"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := started(t)
				f.Will(always(targettest.Fault{Before: time.Second}))
				c.calls(t.Context(), f)
				time.Sleep(time.Minute)
				want(t, "violations", c.want, f.Violations())
			})
		})
	}
}

func TestAPromiseOfTheTestIsChecked(t *testing.T) {
	f := targettest.NewFake(targettest.FakeConfig[row]{
		Key:  func(r row) string { return r.name },
		Spec: func(r row) string { return r.value },
		Promise: func(op targettest.Operation, _ statedb.ReadTxn, obj row) string {
			if op.Kind == targettest.Delete && strings.HasPrefix(obj.name, "precious") {
				return "of what is precious"
			}
			return ""
		},
	})
	if err := f.Init(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "precious"} {
		if err := f.Delete(t.Context(), txn(), row{name, "1"}); err != nil {
			t.Error(err)
		}
	}
	want(t, "violations", []string{"delete precious of what is precious"}, f.Violations())
}

func TestWhatOthersMadeIsLeftAlone(t *testing.T) {
	f := started(t)
	f.PutForeign(row{"a", "1"})
	if _, err := f.Update(t.Context(), txn(), row{"a", "2"}); err == nil {
		t.Error("Update of what others made succeeds")
	}
	if _, err := f.Diff(t.Context(), txn(), row{"a", "2"}); err == nil {
		t.Error("Diff of what others made succeeds")
	}
	if err := f.Delete(t.Context(), txn(), row{"a", "2"}); err != nil {
		t.Error(err)
	}
	want(t, "foreign", map[string]string{"a": "1"}, f.Foreign())
	want(t, "ours", map[string]string{}, f.State())
}

// storm works on many keys with random faults, and returns the log.
func storm(t *testing.T, seed uint64) (log []string) {
	synctest.Test(t, func(t *testing.T) {
		f := started(t)
		f.Will(targettest.Random(seed, targettest.Mix{
			Error: 0.1, Terminal: 0.05, RetryAfter: 0.05, Panic: 0.05, Goexit: 0.05, Slow: 0.1, Deaf: 0.1, Hang: 0.05, Again: 0.1,
			Half: 0.1, Whole: 0.1, Latency: 20 * time.Millisecond,
		}))
		var workers sync.WaitGroup
		for key := range 8 {
			workers.Go(func() {
				for n := range 50 {
					var one sync.WaitGroup
					one.Go(func() { stormOnce(t.Context(), f, row{strconv.Itoa(key), strconv.Itoa(n + 1)}) })
					one.Wait()
				}
			})
		}
		workers.Wait()
		for _, op := range f.Log() {
			log = append(log, op.Began.Format("05.000000000 ")+op.String()+" "+op.Outcome)
		}
		want(t, "violations", []string(nil), f.Violations())
	})
	return log
}

func stormOnce(ctx context.Context, f *targettest.Fake[row], r row) {
	defer func() { _ = recover() }()
	ctx, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	if len(r.value)%2 == 0 && r.value[1]%3 == 0 {
		_ = f.Delete(ctx, txn(), r)
		return
	}
	_, _ = f.Update(ctx, txn(), r)
}

func TestASeedRepeatsFaultsAndLatencies(t *testing.T) {
	first := storm(t, 7)
	want(t, "log of the second run", first, storm(t, 7))
	if other := storm(t, 8); slices.Equal(first, other) {
		t.Error("another seed makes the same log")
	}
	for _, outcome := range []string{
		"changed", "done", "fault 0", "panic: fault 1", "goexit", "context deadline exceeded", "failed halfway",
	} {
		if !slices.ContainsFunc(first, func(line string) bool { return strings.HasSuffix(line, " "+outcome) }) {
			t.Errorf("among %d operations none ended with %q", len(first), outcome)
		}
	}
}
