package hivetest_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

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
