package lifecycle_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/statehive/statehive/hive/cell"
)

// dynamic appends a dynamic hook of a module.
func (r *recorder) dynamic(module cell.FullModuleID, name string) {
	r.For(module).AppendDynamic(r.hook(name, nil, nil), func() { r.note("close " + name) })
}

func TestWhatGrowsStopsBeforeAllThatItsModuleDependsOn(t *testing.T) {
	r := newRecorder()
	r.dynamic("user", "jobs of user") // made before the connection that the same function needs
	r.For("conn").Append(r.hook("conn", nil, nil))
	r.Reached("conn")
	r.Reached("user")
	r.For("dependent").Append(r.hook("dependent", nil, nil))
	if err := errors.Join(r.Start(t.Context()), r.Stop(t.Context())); err != nil {
		t.Fatal(err)
	}
	r.want(t, "start jobs of user", "start conn", "start dependent",
		"close jobs of user", "stop dependent", "stop jobs of user", "stop conn")
}

func TestWhatGrowsStopsBeforeWhatAStartHookOfItsModuleAppends(t *testing.T) {
	r := newRecorder()
	r.dynamic("user", "jobs")
	r.For("user").Append(cell.Hook{OnStart: func(context.Context) error {
		r.For("user").Append(r.hook("conn", nil, nil))
		return nil
	}})
	if err := errors.Join(r.Start(t.Context()), r.Stop(t.Context())); err != nil {
		t.Fatal(err)
	}
	r.want(t, "start jobs", "start conn", "close jobs", "stop jobs", "stop conn")
}

func TestWhatGrowsCanBeAppendedUntilTheStop(t *testing.T) {
	r := newRecorder()
	r.module.Append(cell.Hook{OnStop: func(context.Context) error { r.dynamic("late", "while stopping"); return nil }})
	if err := r.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.dynamic("m", "late")
	if err := r.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.want(t, "start late", "close late", "stop late", "close while stopping")
}

func TestGraceAfterTheDeadlineIsOneForAllHooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRecorder()
		release := make(chan struct{})
		for range 20 {
			r.module.Append(cell.Hook{Name: "stuck", OnStop: stuck(release)})
			r.module.Append(r.hook("quick", nil, errBroken))
		}
		if err := r.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		err := r.Stop(ctx)
		if took := time.Since(began); took > time.Minute+1500*time.Millisecond {
			t.Errorf("took %v", took)
		}
		hooks, overdue := 0, 0
		for _, err := range err.(interface{ Unwrap() []error }).Unwrap() {
			if hooks++; errors.Is(err, cell.ErrOverdue) {
				overdue++
			}
		}
		if hooks != 40 || overdue != 20 {
			t.Errorf("%d errors, %d of hooks that are overdue", hooks, overdue)
		}
		close(release)
	})
}

func TestPanicsAndEndsOfGoroutinesOfHooksAreFoundByErrorsIs(t *testing.T) {
	r := newRecorder()
	r.module.Append(cell.Hook{OnStop: func(context.Context) error { panic(errBroken) }})
	r.module.Append(cell.Hook{OnStop: func(context.Context) error { runtime.Goexit(); return nil }})
	if err := r.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	err := r.Stop(t.Context())
	for _, want := range []error{cell.ErrPanic, errBroken, cell.ErrGoexit} {
		if !errors.Is(err, want) {
			t.Errorf("%v is not %v", err, want)
		}
	}
}
