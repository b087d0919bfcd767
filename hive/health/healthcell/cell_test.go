package healthcell_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/goleak"

	"github.com/statehive/statehive/hive"
	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/cli"
	"github.com/statehive/statehive/hive/health"
	"github.com/statehive/statehive/hive/health/healthcell"
	"github.com/statehive/statehive/hive/inspect"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type fixture struct {
	t     *testing.T
	hive  *hive.Hive
	route health.Health
	waits func() []string // what it is not ready for
}

// start runs a hive with a module whose health the test decides.
func start(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{t: t, waits: func() []string { return nil }}
	socket := filepath.Join(t.TempDir(), "x.sock")
	var err error
	f.hive, err = hive.New(hive.Options{
		Name:      "test",
		Logger:    slog.New(slog.NewTextHandler(t.Output(), nil)),
		LookupEnv: func(name string) (string, bool) { return socket, name == "TEST_SOCKET" },
	},
		inspect.Cell(), healthcell.Cell(),
		cell.Provide(func() hive.ConditionOut { return hive.NewCondition("tables", func() []string { return f.waits() }) }),
		cell.Module("route", "", cell.Invoke(func(h health.Health) { f.route = h })),
	)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.hive.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.hive.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return f
}

func (f *fixture) health(args ...string) (code int, out string) {
	f.t.Helper()
	return f.command("health", args...)
}

// commandThatShows repeats a command until it shows a text: the parts of package inspect are starting.
func (f *fixture) commandThatShows(text, name string) (code int, out string) {
	f.t.Helper()
	code, out = f.command(name)
	for deadline := time.Now().Add(time.Minute); !strings.Contains(out, text) && time.Now().Before(deadline); {
		code, out = f.command(name)
	}
	return code, out
}

func (f *fixture) command(name string, args ...string) (code int, out string) {
	f.t.Helper()
	root := &cobra.Command{Use: "test"}
	if err := cli.Mount(root, f.hive); err != nil {
		f.t.Fatal(err)
	}
	var stdout bytes.Buffer
	root.SetOut(&stdout)
	root.SetArgs(append([]string{name}, args...))
	code = cli.Execute(f.t.Context(), root)
	return code, stdout.String()
}

func TestHealthCommandShowsEveryPartAndItsExitCodeSaysWhetherAllIsWell(t *testing.T) {
	f := start(t)
	f.route.OK("3 rows done")
	code, out := f.commandThatShows("3 OK", "health")
	if code != 0 || !strings.Contains(out, "PART") || !strings.Contains(out, "3 rows done") || !strings.Contains(out, "├─ inspect") || !strings.Contains(out, "│  ├─ serve") || !strings.Contains(out, "3 OK, 0 degraded") {
		t.Errorf("got %d\n%s", code, out)
	}
	f.route.Degraded("1 row failed", errors.New("network is unreachable"))
	if code, out := f.health(); code != 1 || !strings.Contains(out, "1 row failed: network is unreachable") {
		t.Errorf("got %d\n%s", code, out)
	}
	f.route.Stopped("off")
	if code, _ := f.health(); code != 0 {
		t.Errorf("a stopped part: got %d", code)
	}
}

func TestHealthCommandWritesJSON(t *testing.T) {
	f := start(t)
	f.route.Degraded("bad", errors.New("why"))
	code, out := f.health("-o", "json")
	var all []health.Status
	if err := json.Unmarshal([]byte(out), &all); err != nil {
		t.Fatal(err)
	}
	last := all[len(all)-1]
	if code != 1 || last.ID != "route" || last.Level != health.Degraded || last.Error != "why" || last.Since.IsZero() {
		t.Errorf("got %d %+v", code, last)
	}
}

func TestStatusEndsWithTheDegradedParts(t *testing.T) {
	f := start(t)
	f.route.OK("3 rows done")
	if code, out := f.commandThatShows("all 3 parts", "status"); code != 0 || !strings.Contains(out, "health: OK, all 3 parts") {
		t.Errorf("got %d\n%s", code, out)
	}
	f.route.Degraded("1 row failed", nil)
	if code, out := f.command("status"); code != 1 || !strings.Contains(out, "health: degraded, 1 of 3 parts\n  route, for ") {
		t.Errorf("got %d\n%s", code, out)
	}
}

func TestStatusSaysWhatTheHiveIsNotReadyFor(t *testing.T) {
	f := start(t)
	f.waits = func() []string { return []string{"rows", "columns"} }
	if code, out := f.command("status"); code != 0 || !strings.HasSuffix(out, "\nnot ready, waiting for:\n  tables: rows\n  tables: columns\n") {
		t.Errorf("got %d\n%s", code, out)
	}
	f.waits = func() []string { return nil }
	if code, out := f.command("status"); code != 0 || strings.Contains(out, "ready") {
		t.Errorf("got %d\n%s", code, out)
	}
}
