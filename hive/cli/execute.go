package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/statehive/statehive/hive/internal/graph"
	"github.com/statehive/statehive/hive/internal/guard"
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

// hinted adds to the error of an unknown flag the flag that may have been meant.
func hinted(c *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) || unknown.GetSpecifiedShortnames() != "" {
		return err
	}
	var known []string
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			known = append(known, f.Name)
		}
	})
	name := unknown.GetSpecifiedName()
	if best, ok := graph.Meant(name, known, min(2, len(name)/3)); ok {
		return fmt.Errorf("%w: there is --%s", err, best)
	}
	return err
}

// Execute runs root with the arguments of the process, or those of root.SetArgs, and returns the exit code: that of an
// *ExitError, else 1 for an error, else 0. All errors go to root's standard error, whatever the code, without a page of usage. A command
// that panics or ends its goroutine has failed.
func Execute(ctx context.Context, root *cobra.Command) int {
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return &usageError{command: c.CommandPath(), err: hinted(c, err)}
	})
	err := <-guard.Go(func() error { return root.ExecuteContext(ctx) })
	if err == nil {
		return 0
	}
	if text := strings.TrimSpace(said(err)); text != "" {
		root.PrintErrf("%s: %s\n", root.Name(), Printable(text))
	}
	var exit *ExitError
	if errors.As(err, &exit) {
		return exit.Code
	}
	return 1
}

// said is what is left to be said of an error: nothing of an *ExitError without Err, but all that is joined with it.
func said(err error) string {
	var exit *ExitError
	if exit, ok := err.(*ExitError); ok && exit.Err != nil { //nolint:errorlint // one that is wrapped is in the text
		return said(exit.Err)
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok || errors.Join(joined.Unwrap()...).Error() != err.Error() {
		if errors.As(err, &exit) && exit.Err == nil {
			return ""
		}
		return err.Error()
	}
	var all []string
	for _, err := range joined.Unwrap() {
		if text := said(err); text != "" {
			all = append(all, text)
		}
	}
	return strings.Join(all, "\n")
}
