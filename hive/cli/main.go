package cli

import (
	"context"
	"errors"
	"os"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/statehive/statehive/hive"
)

// Main is the whole of an application's main function: it runs the command line of the process and returns the exit code. The
// command `agent` runs the hive, with the flags of its cells; the others are those that cells contribute. Short says in a few
// words what the application does. The exit code of an agent that a second signal has aborted is 128 and the number of the signal.
func Main(ctx context.Context, h *hive.Hive, short string) int {
	TakeHangup(os.Args[1:])
	return run(ctx, h, short, os.Args[1:])
}

func run(ctx context.Context, h *hive.Hive, short string, args []string) int {
	root := &cobra.Command{Use: h.Info().Name, Short: short}
	agent := &cobra.Command{
		Use:   agentCommand,
		Short: "Run until a signal comes",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return aborted(h.Run(cmd.Context())) },
	}
	if err := errors.Join(h.RegisterFlags(agent.Flags()), Mount(root, h), add(root, []*cobra.Command{agent})); err != nil {
		root.PrintErrf("%s: %v\n", root.Name(), err)
		return 1
	}
	root.SetArgs(args)
	return Execute(ctx, root)
}

// aborted gives a stop that was aborted the exit code that shells have for a signal.
func aborted(err error) error {
	var abort *hive.AbortError
	if errors.As(err, &abort) {
		if s, ok := abort.Signal.(syscall.Signal); ok {
			return &ExitError{Code: 128 + int(s), Err: err}
		}
	}
	return err
}
