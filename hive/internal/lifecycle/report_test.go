package lifecycle_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/internal/lifecycle"
)

func TestHookHasADeadlineOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRecorder()
		release := make(chan struct{})
		r.module.Append(r.hook("a", nil, nil))
		r.module.Append(cell.Hook{Name: "stuck", Timeout: 10 * time.Second, OnStart: stuck(release)})
		began := time.Now()
		err := r.Start(t.Context())
		wantError(t, err, "start hook stuck", "overdue", "start deadline of 10s of the hook")
		if !errors.Is(err, cell.ErrOverdue) || time.Since(began) > 12*time.Second {
			t.Errorf("after %v: %#v", time.Since(began), err)
		}
		if err := r.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		close(release)
	})
}

func TestDeadlineOfAHookDoesNotEndTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRecorder()
		r.module.Append(r.hook("a", nil, nil))
		r.module.Append(cell.Hook{Name: "slow", Timeout: time.Second, OnStop: func(ctx context.Context) error { <-ctx.Done(); return nil }})
		if err := errors.Join(r.Start(t.Context()), r.Stop(t.Context())); err != nil {
			t.Fatal(err)
		}
		r.want(t, "start a", "stop a")
	})
}

func TestTimesOfStartAndStopAreReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRecorder()
		began := time.Now()
		r.module.Append(cell.Hook{
			Name:    "slow",
			OnStart: func(context.Context) error { <-time.After(3 * time.Second); return nil },
			OnStop:  func(context.Context) error { <-time.After(time.Second); return errBroken },
		})
		r.module.Append(cell.Hook{Name: "half", OnStart: func(context.Context) error {
			if got := r.Reports()[1].Start; got.State != lifecycle.Running || got.Duration != 0 {
				t.Errorf("while it is running: %+v", got)
			}
			return nil
		}})
		if err := r.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := r.Stop(t.Context()); !errors.Is(err, errBroken) {
			t.Fatal(err)
		}
		got := r.Reports()
		for i := range got {
			got[i].Location = ""
		}
		want := []lifecycle.Report{
			{
				Name: "slow", Module: "agent.route",
				Start: lifecycle.Action{State: lifecycle.Ran, Started: began, Duration: 3 * time.Second},
				Stop:  lifecycle.Action{State: lifecycle.Ran, Started: began.Add(3 * time.Second), Duration: time.Second, Error: "broken"},
			},
			{Name: "half", Module: "agent.route", Start: lifecycle.Action{State: lifecycle.Ran, Started: began.Add(3 * time.Second)}},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}

func TestErrorOfAHookAfterItsTimeoutNamesTheTimeout(t *testing.T) {
	for name, tt := range map[string]struct {
		timeout time.Duration
		fails   func(context.Context) error
		want    string
	}{
		"its context":        {20 * time.Millisecond, context.Context.Err, ": context deadline exceeded (hook timeout of 20ms)"},
		"the cause":          {20 * time.Millisecond, context.Cause, ": start deadline of 20ms of the hook: context deadline exceeded"},
		"another error":      {20 * time.Millisecond, func(context.Context) error { return errors.New("broken") }, ": broken"},
		"the whole deadline": {time.Hour, context.Context.Err, ": context deadline exceeded"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRecorder()
				r.module.Append(cell.Hook{Timeout: tt.timeout, OnStart: func(ctx context.Context) error { <-ctx.Done(); return tt.fails(ctx) }})
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				if err := r.Start(ctx); err == nil || !strings.HasSuffix(err.Error(), tt.want) {
					t.Errorf("got %v, want %s", err, tt.want)
				}
			})
		})
	}
}
