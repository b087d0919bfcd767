// Package cli makes cobra commands of what the cells of a hive contribute. They ask the running hive over its socket.
package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/statehive/statehive/hive"
	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/inspect"
)

// Env is what a command can use.
type Env struct{}

// Client returns a client for the socket that was chosen. Call it when the command runs, not when it is made.
func (e *Env) Client() *inspect.Client { return nil }

// Socket returns the socket that was chosen: --socket, else the environment, else the default.
func (e *Env) Socket() string { return "" }

// Command is a contributed command.
type Command struct {
	New func(*Env) *cobra.Command
}

// CommandOut contributes a command. Its constructor must not need configuration: it is called before flags are parsed.
type CommandOut struct {
	cell.Out
	Command Command `group:"cli-commands"`
}

// NewCommand makes the contribution of a command.
func NewCommand(make func(*Env) *cobra.Command) CommandOut {
	return CommandOut{Command: Command{New: make}}
}

// StatusSection is a part of what `status` prints.
type StatusSection struct {
	Name  string
	Order int // ascending
	// Show writes the section and says whether all is well.
	Show func(ctx context.Context, c *inspect.Client, w io.Writer) (healthy bool, err error)
}

// StatusSectionOut contributes a section. The same holds as for CommandOut.
type StatusSectionOut struct {
	cell.Out
	Section StatusSection `group:"cli-status"`
}

// ExitError ends the process with a code; Execute prints nothing for it if Err is nil.
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

func (e *ExitError) Unwrap() error { return e.Err }

// Mount adds the commands of the hive, and `status`, to root. It does not start the hive.
func Mount(root *cobra.Command, h *hive.Hive) error { return nil }

// Execute runs root and returns the exit code of the process. Errors go to root's standard error, one line each.
func Execute(ctx context.Context, root *cobra.Command) int { return 0 }

// Format is how a command prints: FormatTable or FormatJSON. It is a pflag.Value.
type Format string

// The formats.
const (
	FormatTable Format = "table"
	FormatJSON  Format = "json"
)

// AddFlag adds -o, --output.
func (f *Format) AddFlag(fs *pflag.FlagSet) {}

// Print writes v as JSON, or the header and rows as a table.
func (f Format) Print(w io.Writer, v any, header []string, rows [][]string) error { return nil }

// WriteTable writes rows below a header in aligned columns.
func WriteTable(w io.Writer, header []string, rows [][]string) error { return nil }
