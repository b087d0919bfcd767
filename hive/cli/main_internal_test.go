package cli

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/spf13/cobra"

	"github.com/statehive/statehive/hive"
	"github.com/statehive/statehive/hive/cell"
)

// application is a hive that runs what it is given at its start, and is asked to stop by signals.
func application(t *testing.T, signals chan os.Signal, start func(context.Context) error, cells ...cell.Cell) *hive.Hive {
	t.Helper()
	type config struct {
		Word string `flag:"word"`
	}
	h, err := hive.New(hive.Options{
		Name: "app", Signals: signals, Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
		LookupEnv: func(string) (string, bool) { return "", false },
	}, append(cells, cell.Config(config{}), cell.Invoke(func(c config, l cell.Lifecycle) error {
		if c.Word != "please" {
			return errors.New("the magic word is missing")
		}
		l.Append(cell.Hook{OnStart: start})
		return nil
	}))...)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestAgentCommandRunsTheHiveWithItsFlagsUntilASignal(t *testing.T) {
	signals := make(chan os.Signal, 1)
	started := false
	h := application(t, signals, func(context.Context) error {
		started = true
		signals <- syscall.SIGTERM
		return nil
	})
	if code := run(t.Context(), h, "an application", []string{"agent", "--word=please"}); code != 0 || !started {
		t.Errorf("got %d, started %v", code, started)
	}
}

func TestAgentThatFailsToStartIsExitCode1(t *testing.T) {
	if code := run(t.Context(), application(t, nil, nil), "", []string{"agent"}); code != 1 {
		t.Errorf("got %d", code)
	}
}

func TestAbortedAgentHasTheExitCodeOfASignal(t *testing.T) {
	// The bubble lasts until what the abort has left running, and logs to the test, has ended.
	synctest.Test(t, func(t *testing.T) {
		signals, release := make(chan os.Signal, 2), make(chan struct{})
		h := application(t, signals, func(context.Context) error {
			signals <- syscall.SIGTERM
			signals <- syscall.SIGINT
			<-release
			return nil
		})
		if code := run(t.Context(), h, "", []string{"agent", "--word=please"}); code != 128+int(syscall.SIGINT) {
			t.Errorf("got %d", code)
		}
		close(release)
	})
}

func TestSecondCommandNamedAgentIsRefused(t *testing.T) {
	other := cell.Provide(func() CommandOut {
		return NewCommand(func(*Env) *cobra.Command { return &cobra.Command{Use: "agent"} })
	})
	if code := run(t.Context(), application(t, nil, nil, other), "", []string{"agent", "--word=please"}); code != 1 {
		t.Errorf("got %d", code)
	}
}
