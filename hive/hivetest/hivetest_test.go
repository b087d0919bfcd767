package hivetest_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/statehive/statehive/hive"
	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/health/healthcell"
	"github.com/statehive/statehive/hive/hivetest"
	"github.com/statehive/statehive/hive/inspect"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestHiveStopsWithTheTest(t *testing.T) {
	stopped := false
	t.Run("inner", func(t *testing.T) {
		h := hivetest.New(t, nil, cell.Invoke(func(l cell.Lifecycle) {
			l.Append(cell.Hook{OnStop: func(context.Context) error { stopped = true; return nil }})
		}))
		hivetest.Start(t, h)
		if stopped {
			t.Error("stopped at once")
		}
	})
	if !stopped {
		t.Error("not stopped")
	}
}

func TestWaitForAHiveThatIsNotStartedFailsAtOnce(t *testing.T) {
	type config struct {
		Names []string `flag:"names"`
	}
	for name, c := range map[string]cell.Cell{
		"no cells": cell.Group(),
		"a condition with settings": cell.Group(cell.Config(config{}), cell.Provide(func(c config) hive.ConditionOut {
			return hive.NewCondition("names", func() []string { return c.Names })
		})),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				h := hivetest.New(t, nil, c)
				got := failureOf(t, func(f testing.TB) { hivetest.WaitReady(f, h) })
				if took := time.Since(began); got != "the hive is not started: call hivetest.Start first\n" || took > 0 {
					t.Errorf("after %v: %s", took, got)
				}
				hivetest.Start(t, h)
				hivetest.WaitReady(t, h)
			})
		})
	}
}

func TestLifecycleStopsWithTheTest(t *testing.T) {
	var calls []string
	t.Run("inner", func(t *testing.T) {
		l, start := hivetest.Lifecycle(t)
		l.Append(cell.Hook{
			OnStart: func(context.Context) error { calls = append(calls, "start"); return nil },
			OnStop:  func(context.Context) error { calls = append(calls, "stop"); return nil },
		})
		start()
	})
	if got := strings.Join(calls, " "); got != "start stop" {
		t.Errorf("got %q", got)
	}
}

func TestCommandsAreThoseOfTheCommandLine(t *testing.T) {
	vars := map[string]string{"TEST_SOCKET": filepath.Join(t.TempDir(), "x.sock")}
	h := hivetest.New(t, vars, inspect.Cell(), healthcell.Cell())
	if code, _, errs := hivetest.Run(t, h, "health"); code != 1 || !strings.Contains(errs, "cannot reach the agent") {
		t.Errorf("before the start: got %d %q", code, errs)
	}
	hivetest.Start(t, h)
	if code, out, errs := hivetest.Run(t, h, "health"); code != 0 || !strings.Contains(out, "inspect") {
		t.Errorf("got %d %q %q", code, out, errs)
	}
}
