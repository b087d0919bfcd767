package hive_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/statehive/statehive/hive"
	"github.com/statehive/statehive/hive/cell"
)

func TestReadinessEndsWhenTheStopBegins(t *testing.T) {
	var h *hive.Hive
	var readiness *hive.Readiness
	expect := func(when string, want bool, waits ...string) {
		if ready, got := readiness.Ready(); ready != want || !slices.Equal(got, waits) {
			t.Errorf("%s: ready is %v, waits for %q", when, ready, got)
		}
	}
	h = newHive(t, hive.Options{}, cell.Invoke(func(r *hive.Readiness, l cell.Lifecycle) {
		readiness = r
		l.Append(cell.Hook{OnStop: func(context.Context) error {
			expect("while stopping", false, "nothing: the hive is stopping")
			if err := r.WaitReady(t.Context()); !errors.Is(err, hive.ErrStopping) {
				t.Errorf("got %v", err)
			}
			return nil
		}})
	}))
	if err := h.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	expect("started", true)
	if err := h.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	expect("stopped", false, "nothing: the hive is stopping")
}

func TestHiveThatFailedToStartIsNotReady(t *testing.T) {
	var readiness *hive.Readiness
	h := newHive(t, hive.Options{}, cell.Invoke(func(r *hive.Readiness) error { readiness = r; return errBroken }))
	if err := h.Start(t.Context()); !errors.Is(err, errBroken) {
		t.Fatal(err)
	}
	if err := readiness.WaitReady(t.Context()); !errors.Is(err, hive.ErrStopping) {
		t.Errorf("got %v", err)
	}
}

func TestWaitReadyWaitsForAllConditionsAndNamesThoseThatDoNotHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		waits := func() []string {
			if time.Since(began) < time.Minute {
				return []string{"routes"}
			}
			return nil
		}
		var readiness *hive.Readiness
		h := newHive(t, hive.Options{}, cell.Provide(func() hive.ConditionOut { return hive.NewCondition("tables", waits) }),
			cell.Invoke(func(r *hive.Readiness) { readiness = r }))
		if err := h.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := readiness.WaitReady(ctx)
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "not ready, waiting for tables: routes") {
			t.Errorf("got %v", err)
		}
		if err := readiness.WaitReady(t.Context()); err != nil || time.Since(began) < time.Minute {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		if err := h.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestConditionThatPanicsDoesNotHold(t *testing.T) {
	for want, fn := range map[string]func(){"panic: ouch": func() { panic("ouch") }, "ended its goroutine": runtime.Goexit} {
		var readiness *hive.Readiness
		h := newHive(t, hive.Options{}, cell.Provide(func() hive.ConditionOut {
			return hive.NewCondition("tables", func() []string { fn(); return nil })
		}), cell.Invoke(func(r *hive.Readiness) { readiness = r }))
		if err := h.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if ready, waits := readiness.Ready(); ready || len(waits) != 1 || !strings.Contains(waits[0], "tables: ") || !strings.Contains(waits[0], want) {
			t.Errorf("ready is %v, waits for %q", ready, waits)
		}
		if err := h.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
