package lifecycle_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/internal/lifecycle"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errBroken = errors.New("broken")

// recorder makes hooks that note when they are called.
type recorder struct {
	mu    sync.Mutex
	calls []string
	log   bytes.Buffer
	*lifecycle.Lifecycle
	module cell.Lifecycle
}

func newRecorder() *recorder {
	r := &recorder{}
	r.Lifecycle = lifecycle.New(slog.New(slog.NewTextHandler(r, nil)))
	r.module = r.For("agent.route")
	return r
}

// Write is for the log, to which hooks that are left behind may write at any time.
func (r *recorder) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.log.Write(b)
}

func (r *recorder) logged() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.log.String()
}

func (r *recorder) note(call string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, call)
}

func (r *recorder) hook(name string, start, stop error) cell.Hook {
	return cell.Hook{
		Name:    name,
		OnStart: func(context.Context) error { r.note("start " + name); return start },
		OnStop:  func(context.Context) error { r.note("stop " + name); return stop },
	}
}

func (r *recorder) want(t *testing.T, calls ...string) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if diff := cmp.Diff(calls, r.calls); diff != "" {
		t.Error(diff)
	}
}

func wantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one with %q", parts)
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("error %q does not contain %q", err, p)
		}
	}
}

// stuck ignores its context until release is closed.
func stuck(release <-chan struct{}) func(context.Context) error {
	return func(context.Context) error { <-release; return nil }
}

func TestStopsInReverseOrderOfStart(t *testing.T) {
	r := newRecorder()
	r.module.Append(r.hook("a", nil, nil))
	r.For("other").Append(r.hook("b", nil, nil))
	r.module.Append(cell.Hook{})
	if err := errors.Join(r.Start(t.Context()), r.Stop(t.Context())); err != nil {
		t.Fatal(err)
	}
	r.want(t, "start a", "start b", "stop b", "stop a")
}

func TestFailedStartStopsWhatHadStartedAndCleansUpTheFailedHook(t *testing.T) {
	r := newRecorder()
	for _, h := range []cell.Hook{r.hook("a", nil, nil), r.hook("b", errBroken, nil), r.hook("c", nil, nil)} {
		r.module.Append(h)
	}
	err := r.Start(t.Context())
	wantError(t, err, `start hook b of module "agent.route" (lifecycle/lifecycle_test.go:`, "broken")
	if err := r.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.want(t, "start a", "start b", "stop b", "stop a")
	if err := r.Start(t.Context()); !errors.Is(err, lifecycle.ErrStarted) {
		t.Errorf("a start after a failed one: %v", err)
	}
}

func TestStartTwiceAndStopWithoutStartAreErrors(t *testing.T) {
	r := newRecorder()
	if err := r.Stop(t.Context()); !errors.Is(err, lifecycle.ErrNotStarted) {
		t.Errorf("stop before start: %v", err)
	}
	if err := r.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := r.Start(t.Context()); !errors.Is(err, lifecycle.ErrStarted) {
		t.Errorf("second start: %v", err)
	}
	if err := r.Stop(t.Context()); err != nil {
		t.Errorf("stop: %v", err)
	}
	if err := r.Stop(t.Context()); !errors.Is(err, lifecycle.ErrNotStarted) {
		t.Errorf("second stop: %v", err)
	}
}

func TestAllErrorsOfAStopAreReturned(t *testing.T) {
	r := newRecorder()
	r.module.Append(r.hook("a", nil, errors.New("first")))
	r.module.Append(r.hook("b", nil, nil))
	r.module.Append(r.hook("c", nil, errors.New("second")))
	if err := r.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantError(t, r.Stop(t.Context()), "stop hook a", "first", "stop hook c", "second")
	r.want(t, "start a", "start b", "start c", "stop c", "stop b", "stop a")
}

func TestHookAppendedByAStartHookRunsInTheSameStart(t *testing.T) {
	r := newRecorder()
	r.module.Append(cell.Hook{OnStart: func(context.Context) error {
		r.module.Append(r.hook("inner", nil, nil))
		return nil
	}})
	r.module.Append(r.hook("b", nil, nil))
	if err := errors.Join(r.Start(t.Context()), r.Stop(t.Context())); err != nil {
		t.Fatal(err)
	}
	r.want(t, "start b", "start inner", "stop inner", "stop b")
}

func TestHookAppendedAfterTheStartIsAnErrorOfTheStop(t *testing.T) {
	r := newRecorder()
	if err := r.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.module.Append(r.hook("late", nil, nil))
	wantError(t, r.Stop(t.Context()), `late of module "agent.route"`, "never run")
	r.want(t)
}

func TestPanicAndEndOfGoroutineAreErrors(t *testing.T) {
	for name, fn := range map[string]func(){"panic: ouch": func() { panic("ouch") }, "ended its goroutine": runtime.Goexit} {
		r := newRecorder()
		r.module.Append(cell.Hook{OnStart: func(context.Context) error { fn(); return nil }})
		wantError(t, r.Start(t.Context()), name, "lifecycle_test.TestPanic")
	}
}

func TestOverdueStartHookIsNamedAndLeftBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRecorder()
		release := make(chan struct{})
		r.module.Append(r.hook("a", nil, nil))
		r.module.Append(cell.Hook{Name: "stuck", OnStart: stuck(release), OnStop: func(context.Context) error {
			t.Error("stopped while its start is running")
			return nil
		}})
		r.module.Append(r.hook("c", nil, nil))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		err := r.Start(ctx)
		wantError(t, err, `start hook stuck of module "agent.route"`, "overdue", "deadline")
		if !errors.Is(err, cell.ErrOverdue) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %#v", err)
		}
		if took := time.Since(began); took > time.Minute+2*time.Second {
			t.Errorf("took %v", took)
		}
		if !strings.Contains(r.logged(), `msg="Still waiting for a hook" hook="stuck of module \"agent.route\"`) {
			t.Errorf("it is not named in the log while it hangs: %s", r.logged())
		}
		if err := r.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		r.want(t, "start a", "stop a")
		close(release)
	})
}

func TestOverdueStopHookDoesNotHideOtherErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRecorder()
		release := make(chan struct{})
		r.module.Append(r.hook("a", nil, errBroken))
		r.module.Append(cell.Hook{Name: "stuck", OnStop: stuck(release)})
		r.module.Append(r.hook("c", nil, errors.New("early")))
		if err := r.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		err := r.Stop(ctx)
		wantError(t, err, "stop hook c", "early", "stop hook stuck", "overdue", "stop hook a", "broken")
		if !errors.Is(err, errBroken) || !errors.Is(err, cell.ErrOverdue) {
			t.Errorf("got %#v", err)
		}
		close(release)
	})
}

func TestHookThatReturnsAtItsDeadlineIsNotOverdue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRecorder()
		r.module.Append(cell.Hook{Name: "slow", OnStart: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }})
		r.module.Append(r.hook("next", nil, nil))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := r.Start(ctx)
		wantError(t, err, "start hook slow", "deadline exceeded")
		if errors.Is(err, cell.ErrOverdue) {
			t.Error("it is called overdue")
		}
	})
}

func TestStartWithADoneContextNamesTheHookThatIsNotReached(t *testing.T) {
	r := newRecorder()
	r.module.Append(r.hook("a", nil, nil))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	wantError(t, r.Start(ctx), "start hook a", "not reached", "canceled")
	r.want(t)
}

func TestContextOfAHookEndsWithItsCall(t *testing.T) {
	r := newRecorder()
	var start, stop context.Context
	r.module.Append(cell.Hook{
		OnStart: func(ctx context.Context) error { start = ctx; return nil },
		OnStop:  func(ctx context.Context) error { stop = ctx; return nil },
	})
	if err := errors.Join(r.Start(t.Context()), r.Stop(t.Context())); err != nil {
		t.Fatal(err)
	}
	if start.Err() == nil || stop.Err() == nil {
		t.Errorf("after their calls: %v, %v", start.Err(), stop.Err())
	}
}
