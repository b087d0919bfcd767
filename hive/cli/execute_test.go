package cli_test

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/statehive/statehive/hive/cli"
)

// executeOne runs a command and returns its exit code and what it wrote to standard error.
func executeOne(t *testing.T, run func() error) (code int, stderr string) {
	t.Helper()
	root := &cobra.Command{Use: "app", RunE: func(*cobra.Command, []string) error { return run() }}
	var out bytes.Buffer
	root.SetErr(&out)
	root.SetArgs(nil)
	return cli.Execute(t.Context(), root), out.String()
}

func TestAllErrorsAreShownWhateverTheExitCode(t *testing.T) {
	stop := errors.New("stop hook x: broken")
	for want, err := range map[string]error{
		"3 app: stop hook x: broken\n":        errors.Join(&cli.ExitError{Code: 3}, stop),
		"4 app: no\nstop hook x: broken\n":    errors.Join(&cli.ExitError{Code: 4, Err: errors.New("no")}, stop),
		"5 ":                                  &cli.ExitError{Code: 5},
		"6 app: no\n":                         &cli.ExitError{Code: 6, Err: errors.New("no")},
		"1 app: stop hook x: broken\nagain\n": errors.Join(stop, errors.New("again")),
		"7 app: wrapped: no\n":                fmt.Errorf("wrapped: %w", &cli.ExitError{Code: 7, Err: errors.New("no")}),
		"8 app: no: a, b\n":                   &cli.ExitError{Code: 8, Err: fmt.Errorf("no: %w, %w", errors.New("a"), errors.New("b"))},
	} {
		code, stderr := executeOne(t, func() error { return err })
		if got := fmt.Sprintf("%d %s", code, stderr); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestCommandThatDoesNotReturnHasFailed(t *testing.T) {
	for want, fn := range map[string]func(){"panic: ouch": func() { panic("ouch") }, "ended its goroutine": runtime.Goexit} {
		code, stderr := executeOne(t, func() error { fn(); return nil })
		if code != 1 || !strings.Contains(stderr, want) {
			t.Errorf("exit code %d, %q", code, stderr)
		}
	}
}
