package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// ExitError ends the process with a code. Without Err the command has said all that there is to say.
type ExitError struct {
	Code int
	Err  error
}

func (e *ExitError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Err.Error()
}

// Unwrap returns Err.
func (e *ExitError) Unwrap() error { return e.Err }

// usageError is a command line that cannot be understood.
type usageError struct {
	command string
	err     error
}

func (e *usageError) Error() string { return fmt.Sprintf("%v; see '%s --help'", e.err, e.command) }

func (e *usageError) Unwrap() error { return e.err }

// Execute runs root with the arguments of the process, or those of root.SetArgs, and returns the exit code: that of an
// *ExitError, else 1 for an error, else 0. Errors go to root's standard error, without a page of usage.
func Execute(ctx context.Context, root *cobra.Command) int {
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return &usageError{command: c.CommandPath(), err: err}
	})
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	var exit *ExitError
	if !errors.As(err, &exit) {
		exit = &ExitError{Code: 1, Err: err}
	}
	if exit.Err != nil {
		root.PrintErrf("%s: %s\n", root.Name(), Printable(strings.TrimSpace(exit.Err.Error())))
	}
	return exit.Code
}
