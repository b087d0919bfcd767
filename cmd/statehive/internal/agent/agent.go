package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/statehive/statehive/cmd/statehive/internal/sandbox"
	"github.com/statehive/statehive/hive"
	"github.com/statehive/statehive/hive/cli"
	"github.com/statehive/statehive/hive/inspect"
	"github.com/statehive/statehive/internal/stderrlog"
)

const name = "statehive"

// Main runs the command line of the process and returns its exit code.
func Main(ctx context.Context) int {
	cli.TakeHangup(os.Args[1:])
	logger := stderrlog.New(os.Stderr)
	root, err := newRoot(logger, os.Args[1:])
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		return 1
	}
	return cli.Execute(ctx, root)
}

// newRoot builds the commands. args are the arguments of this process, which are passed on to
// a process in the sandbox.
func newRoot(logger *slog.Logger, args []string) (*cobra.Command, error) {
	around := &surroundings{}
	h, err := hive.New(hive.Options{Name: name, Logger: logger}, cells(around)...)
	if err != nil {
		return nil, err
	}
	around.settings = h.Settings
	root := &cobra.Command{
		Use:   name,
		Short: "Keeps a machine in the state that documents declare",
	}
	if err := cli.Mount(root, h); err != nil {
		return nil, err
	}
	run, err := agentCommand(h, around, logger, args)
	if err != nil {
		return nil, err
	}
	root.AddCommand(run)
	return root, nil
}

func agentCommand(h *hive.Hive, around *surroundings, logger *slog.Logger, args []string) (*cobra.Command, error) {
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "Run the agent: apply the documents of a directory and keep them applied",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runAgent(cmd, h, around, logger, args)
		},
	}
	return cmd, h.RegisterFlags(cmd.Flags())
}

func runAgent(cmd *cobra.Command, h *hive.Hive, around *surroundings, logger *slog.Logger, args []string) error {
	if err := around.enter(logger); err != nil {
		return err
	}
	if !around.sandboxed {
		o, err := readOutside(h)
		if err != nil {
			return err
		}
		if err := closeInherited(o.own); err != nil {
			return err
		}
		if o.sandbox {
			return launch(cmd, args, o, logger)
		}
		around.own = o.own
		warnIfPowerless(logger)
	} else if err := around.hint(cmd.ErrOrStderr(), os.Args[0]); err != nil {
		return err
	}
	if err := around.confine(logger); err != nil {
		return err
	}
	return runAlone(cmd.Context(), h, logger)
}

// runAlone runs the hive unless another agent runs in this network namespace. It checks that
// before the state directory, documents or netlink sockets are opened.
func runAlone(ctx context.Context, h *hive.Hive, logger *slog.Logger) error {
	lock, err := lockNamespace(lockName, logger)
	if err != nil {
		return err
	}
	err = exitCode(h.Run(ctx))
	return errors.Join(err, lock.Close())
}

// exitCode gives an aborted stop the code that shells use for a signal.
func exitCode(err error) error {
	var abort *hive.AbortError
	if errors.As(err, &abort) {
		if s, ok := abort.Signal.(syscall.Signal); ok {
			return &cli.ExitError{Code: 128 + int(s), Err: err}
		}
	}
	return err
}

// pidCommand prints the process id of the running agent, for nsenter and the like.
func pidCommand() cli.CommandOut {
	return cli.NewCommand(func(env *cli.Env) *cobra.Command {
		return &cobra.Command{
			Use:   "pid",
			Short: "Print the process id of the agent",
			Args:  cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				var agent inspect.Agent
				ctx, cancel := context.WithTimeout(cmd.Context(), 10*time.Second)
				defer cancel()
				if err := env.Client().Get(ctx, "/v1/agent", nil, &agent); err != nil {
					return err
				}
				_, err := fmt.Fprintln(cmd.OutOrStdout(), agent.PID)
				return err
			},
		}
	})
}

func isNoListener(err error) bool { return errors.Is(err, sandbox.ErrNoListener) }
