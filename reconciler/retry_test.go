package reconciler_test

import (
	"context"
	"errors"
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/statehive/statehive/reconciler"
)

// gaps returns the times between the operations on a key.
func gaps(calls []call, id string) []time.Duration {
	var gaps []time.Duration
	var last time.Time
	for _, c := range calls {
		if c.id != id {
			continue
		}
		if !last.IsZero() {
			gaps = append(gaps, c.at.Sub(last))
		}
		last = c.at
	}
	return gaps
}

// wantGaps checks times between operations, ±20 %.
func (w *world) wantGaps(id string, want ...time.Duration) {
	w.t.Helper()
	got := gaps(w.target.took(), id)
	if len(got) < len(want) {
		w.t.Fatalf("%d operations after the first, want %d: %v", len(got), len(want), got)
	}
	for i, d := range want {
		if got[i] < d*8/10 || got[i] > d*12/10 {
			w.t.Errorf("gap %d is %v, want %v ±20 %%", i, got[i], d)
		}
	}
}

func TestFailingRowIsRetriedWithDoublingBackoffUpToTheCap(t *testing.T) {
	running(t, func(_ *testing.T, w *world) {
		w.target.will(failing("a"))
		w.put(row{ID: "a", Want: 1})
		w.pass(20 * time.Minute)
		w.wantStatus("a", "error: boom")
		ms := time.Millisecond
		w.wantGaps("a", 100*ms, 200*ms, 400*ms, 800*ms, 1600*ms, 3200*ms, 6400*ms, 12800*ms, 25600*ms, 51200*ms,
			time.Minute, time.Minute, time.Minute, time.Minute)
	})
}

func TestBackoffHasJitter(t *testing.T) {
	running(t, func(t *testing.T, w *world) {
		w.target.will(func(context.Context, call) (reconciler.Result, error) { return reconciler.Result{}, errBoom })
		for i := range 50 {
			w.write(row{ID: strconv.Itoa(i)})
		}
		w.pass(time.Second)
		firsts := map[time.Duration]bool{}
		calls := w.target.took()
		for i := range 50 {
			firsts[gaps(calls, strconv.Itoa(i))[0]] = true
		}
		if len(firsts) < 40 {
			t.Errorf("50 rows wait for only %d different times", len(firsts))
		}
	})
}

func TestNewSpecResetsTheBackoff(t *testing.T) {
	running(t, func(_ *testing.T, w *world) {
		w.target.will(failing("a"))
		w.put(row{ID: "a", Want: 1})
		w.pass(5 * time.Minute) // the backoff is a minute
		w.target.log()
		w.put(row{ID: "a", Want: 2}) // does not wait for it
		w.wantLog("update a=2")
		w.pass(time.Second)
		ms := time.Millisecond
		w.wantGaps("a", 200*ms, 400*ms)
	})
}

func TestNewSpecWhileFailingResetsTheBackoff(t *testing.T) {
	running(t, func(_ *testing.T, w *world) {
		w.target.will(failing("a"))
		w.put(row{ID: "a", Want: 1})
		w.pass(5 * time.Minute)
		w.target.will(func(context.Context, call) (reconciler.Result, error) {
			take(10 * time.Second)
			return reconciler.Result{}, errBoom
		})
		for w.pass(time.Second); !w.target.inFlight("a"); {
			w.pass(time.Second)
		}
		w.put(row{ID: "a", Want: 2})
		w.pass(10 * time.Second)
		w.target.took()
		w.pass(time.Minute)
		s := 10 * time.Second
		w.wantGaps("a", s+200*time.Millisecond, s+400*time.Millisecond, s+800*time.Millisecond)
	})
}

func TestBackoffIsNotInflatedByEvents(t *testing.T) {
	running(t, func(_ *testing.T, w *world) {
		w.target.will(failing("a"))
		w.put(row{ID: "a", Want: 1})
		for i := range 300 {
			w.amend("a", otherStatus(i))
			w.put(row{ID: "a", Want: 1})
			w.pass(10 * time.Millisecond)
		}
		ms := time.Millisecond
		w.wantGaps("a", 100*ms, 200*ms, 400*ms, 800*ms)
	})
}

func TestRetriedRowSucceeds(t *testing.T) {
	running(t, func(_ *testing.T, w *world) {
		w.target.will(failing("a"))
		w.put(row{ID: "a", Want: 1}, row{ID: "b", Want: 1})
		w.equal("errors", 1, w.metrics().errorsCurrent)
		w.wantStatus("a", "error: boom")
		w.wantStatus("b", "done")
		w.target.will(nil)
		w.pass(2 * time.Second)
		w.wantConverged()
		w.equal("errors", 0, w.metrics().errorsCurrent)
		w.equal("failed operations", 1, w.metrics().incrementalErrors)
	})
}

func TestErrorIsWhatTheTargetReturned(t *testing.T) {
	running(t, func(t *testing.T, w *world) {
		field := &reconciler.FieldError{Field: "mtu", Err: errBoom}
		w.target.will(func(context.Context, call) (reconciler.Result, error) {
			return reconciler.Result{}, reconciler.Terminal(field)
		})
		w.put(row{ID: "a"})
		err := w.status("a").Err()
		var got *reconciler.FieldError
		if !errors.As(err, &got) || got != field || !errors.Is(err, errBoom) {
			t.Errorf("%v is not %v", err, field)
		}
	})
}

// outcomes makes updates of a come out as they are listed, the last for ever.
func outcomes(results ...any) behavior {
	return func(_ context.Context, c call) (result reconciler.Result, err error) {
		if c.id != "a" {
			return result, nil
		}
		next := results[0]
		if len(results) > 1 {
			results = results[1:]
		}
		switch next := next.(type) {
		case reconciler.Result:
			result = next
		case error:
			err = next
		}
		return result, err
	}
}

func TestOutcomesDecideWhenARowRunsAgain(t *testing.T) {
	const hour = time.Hour
	for name, test := range map[string]struct {
		outcomes []any
		want     []time.Duration // ±20 %, within a day
		status   string
	}{
		"done":  {[]any{nil}, nil, "done"},
		"again": {[]any{reconciler.Result{Again: hour}, reconciler.Result{Again: 2 * hour}, nil}, []time.Duration{hour, 2 * hour}, "done"},
		"retry": {[]any{errBoom, errBoom, nil}, []time.Duration{100 * time.Millisecond, 200 * time.Millisecond}, "done"},
		"retry after": {
			[]any{reconciler.RetryAfter(hour, errBoom), reconciler.RetryAfter(2*hour, errBoom), errBoom, nil},
			[]time.Duration{hour, 2 * hour, 400 * time.Millisecond},
			"done",
		},
		"terminal": {[]any{reconciler.Terminal(errBoom)}, nil, "error: boom"},
		"again after an error": {
			[]any{errBoom, reconciler.Result{Again: hour}, errBoom, nil},
			[]time.Duration{100 * time.Millisecond, hour, 100 * time.Millisecond},
			"done",
		},
		"never again":         {[]any{reconciler.RetryAfter(math.MaxInt64, errBoom)}, nil, "error: boom"},
		"retry after no time": {[]any{reconciler.RetryAfter(-1, errBoom), nil}, []time.Duration{100 * time.Millisecond}, "done"},
		"again in the past":   {[]any{reconciler.Result{Again: -hour}}, nil, "done"},
	} {
		t.Run(name, func(t *testing.T) {
			running(t, func(t *testing.T, w *world) {
				w.target.will(outcomes(test.outcomes...))
				w.put(row{ID: "a", Want: 1})
				w.pass(24 * hour)
				w.wantStatus("a", test.status)
				if calls := w.target.took(); len(gaps(calls, "a")) != len(test.want) {
					t.Errorf("ran again after %v, want %v", gaps(calls, "a"), test.want)
				} else {
					w.target.calls = calls
					w.wantGaps("a", test.want...)
				}
			})
		})
	}
}

func TestTerminalErrorEndsWithANewSpecOrAFullPass(t *testing.T) {
	running(t, func(_ *testing.T, w *world) {
		w.target.will(outcomes(reconciler.Terminal(errBoom), reconciler.Terminal(errBoom), nil))
		w.put(row{ID: "a", Want: 1})
		w.put(row{ID: "a", Want: 2})
		w.wantStatus("a", "error: boom")
		w.fullPass()
		w.pass(time.Second)
		w.wantConverged()
	})
}

func TestChangeDuringALongBackoffRunsNow(t *testing.T) {
	running(t, func(_ *testing.T, w *world) {
		w.target.will(outcomes(reconciler.RetryAfter(time.Hour, errBoom), nil))
		w.put(row{ID: "a", Want: 1})
		w.target.log()
		w.put(row{ID: "a", Want: 2})
		w.wantLog("update a=2")
		w.pass(2 * time.Hour)
		w.wantLog() // the old retry is gone
		w.wantConverged()
	})
}

func TestPanicIsAnErrorOfTheRow(t *testing.T) {
	running(t, func(t *testing.T, w *world) {
		w.put(row{ID: "b", Want: 1})
		w.target.will(func(_ context.Context, c call) (reconciler.Result, error) {
			if c.id != "c" {
				panic(errBoom)
			}
			return reconciler.Result{}, nil
		})
		w.delete("b")
		w.put(row{ID: "a", Want: 1}, row{ID: "c", Want: 1})
		w.wantStatus("c", "done")
		w.wantStatus("a", "error: panic: boom")
		var panicked *reconciler.PanicError
		if err := w.status("a").Err(); !errors.As(err, &panicked) || !errors.Is(err, errBoom) || len(panicked.Stack) == 0 {
			t.Errorf("%v is no PanicError with a stack", err)
		}
		w.equal("deleting", 1, w.deleting())
		w.target.will(nil)
		w.pass(2 * time.Second)
		w.wantConverged()
	})
}

func TestOperationsHaveADeadline(t *testing.T) {
	prepared(t, func(w *world) { w.config.OperationTimeout = 3 * time.Second }, func(t *testing.T, w *world) {
		w.target.will(func(ctx context.Context, c call) (reconciler.Result, error) {
			if c.id == "a" {
				<-ctx.Done()
				return reconciler.Result{}, ctx.Err()
			}
			return reconciler.Result{}, nil
		})
		w.put(row{ID: "a", Want: 1}, row{ID: "b", Want: 1})
		w.pass(3 * time.Second)
		w.wantStatus("b", "done")
		w.wantStatus("a", "error: took longer than 3s: context deadline exceeded")
		if err := w.status("a").Err(); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v is not DeadlineExceeded", err)
		}
		if took := w.r.Stats().Incremental.Sum; took != 3*time.Second {
			t.Errorf("took %v", took)
		}
		w.target.will(nil)
		w.pass(time.Minute)
		w.wantConverged()
	})
}
