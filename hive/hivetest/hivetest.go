// Package hivetest helps to test cells and whole hives.
//
// Its functions belong to one test: they fail it, log to it, and end with it. A hive that Start has started is stopped before
// the test ends, and an error of its stop fails the test. Scripts are tests that are written as what people type.
// Jobs is a group of jobs for what needs no more than that.
package hivetest

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/statehive/statehive/hive"
	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/cli"
	"github.com/statehive/statehive/hive/internal/lifecycle"
)

// Logger writes to the log of the test.
func Logger(t testing.TB) *slog.Logger {
	t.Helper()
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// New makes a hive named "test" with the logger of the test, whose environment is vars alone: TEST_SOCKET is --socket.
func New(t testing.TB, vars map[string]string, cells ...cell.Cell) *hive.Hive {
	t.Helper()
	h, err := hive.New(hive.Options{
		Name: "test", Logger: Logger(t),
		LookupEnv: func(name string) (string, bool) { v, ok := vars[name]; return v, ok },
		Environ:   func() []string { return slices.Collect(maps.Keys(vars)) },
	}, cells...)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// Validate fails the test for all that is wrong with how the cells fit together, its commands and flags included. Nothing is started.
func Validate(t testing.TB, cells ...cell.Cell) {
	t.Helper()
	h := New(t, nil, cells...)
	flags := h.RegisterFlags(pflag.NewFlagSet("agent", pflag.ContinueOnError))
	commands := cli.Mount(&cobra.Command{Use: "test"}, h)
	if fault := (*cell.GraphError)(nil); errors.As(commands, &fault) {
		commands = nil // Validate returns it as well
	}
	if err := errors.Join(flags, commands, h.Validate()); err != nil {
		t.Error(err)
	}
}

// Start starts the hive and stops it when the test ends.
func Start(t testing.TB, h *hive.Hive) {
	t.Helper()
	if err := h.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
}

// readyLimit is how long a hive of a test may take to become ready.
const readyLimit = 30 * time.Second

// WaitReady waits until the hive, which has been started, is ready. The test fails at once if it stops, or if it is not ready after
// 30 s: with what is waited for.
func WaitReady(t testing.TB, h *hive.Hive) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), readyLimit)
	defer cancel()
	err := h.Invoke(func(r *hive.Readiness) error {
		if _, waits := r.Ready(); slices.Contains(waits, "start of the hive") {
			return hive.ErrNotStarted
		}
		return r.WaitReady(ctx)
	})
	switch {
	case errors.Is(err, hive.ErrNotStarted), errors.Is(err, cell.ErrNotConfigured):
		t.Fatal("the hive is not started: call hivetest.Start first")
	case err != nil:
		t.Fatal(err)
	}
}

// Lifecycle is what constructors append hooks to. The returned function starts them, and has them stopped when the test ends.
func Lifecycle(t testing.TB) (l cell.Lifecycle, start func()) {
	t.Helper()
	all := lifecycle.New(Logger(t))
	return all.For("test"), func() {
		t.Helper()
		t.Cleanup(func() {
			if err := all.Stop(context.WithoutCancel(t.Context())); err != nil {
				t.Error(err)
			}
		})
		if err := all.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// Run runs one command of the hive's command line and returns the exit code and what it wrote.
func Run(t testing.TB, h *hive.Hive, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	r := runLine(t.Context(), h, args)
	if r.err != nil {
		t.Fatal(r.err)
	}
	return r.code, r.stdout, r.stderr
}
