package dryruncell

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/cli"
	"github.com/statehive/statehive/hive/inspect"
	"github.com/statehive/statehive/reconciler/source/file"
	"github.com/statehive/statehive/reconciler/target/dryrun"
)

const long = `With --file: show what would be created, changed and deleted if documents were applied, in the order in which it would
be done. Each PATH is a file, or a directory of files *.yaml and *.yml; together they are all that is wanted. Nothing is written.

If an agent answers at the socket, it compares the documents with the system and says what it has in force of each
row, and why it does nothing about it now. Otherwise, and with --without-agent, the command looks itself.

The exit code is 0 if there is nothing to do, 2 if there is, and 1 if a document is not valid, or a row would be in error.`

// planCommand is what `plan` does with --file.
func planCommand(settings []string) cli.CommandOut {
	return cli.NewCommandWithFlag("file", func(env *cli.Env) *cobra.Command {
		var format cli.Format
		var paths []string
		var alone bool
		cmd := &cobra.Command{
			Use:     "plan -f PATH...",
			Short:   "Show what documents would change",
			Long:    long,
			Example: "  plan -f documents\n  plan -f documents --without-agent -o json",
			RunE: func(cmd *cobra.Command, args []string) error {
				answer, err := planOf(cmd.Context(), env, append(paths, args...), alone)
				if err != nil {
					return err
				}
				return answer.print(cmd.OutOrStdout(), format)
			},
		}
		cmd.Flags().StringArrayVarP(&paths, "file", "f", nil, "compare the documents of a file or a directory with the system")
		cmd.Flags().BoolVar(&alone, "without-agent", false, "with --file: do not ask a running agent")
		for _, name := range settings {
			if err := env.Hive().RegisterFlag(cmd.Flags(), name); err != nil {
				cmd.RunE = func(*cobra.Command, []string) error { return err }
			}
		}
		format.AddFlag(cmd.Flags())
		return cmd
	})
}

// planOf asks the agent for a plan, or makes one.
func planOf(ctx context.Context, env *cli.Env, paths []string, alone bool) (answer Answer, err error) {
	files, err := file.Load(paths...)
	if err != nil {
		return answer, err
	}
	if !alone {
		answer, err = ask(ctx, env.Client(), files)
		if nobody := errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED); !nobody {
			return answer, err
		}
	}
	return look(ctx, env, files)
}

func ask(ctx context.Context, client *inspect.Client, files []file.File) (answer Answer, err error) {
	// It is asked first who it is: nobody is there in most cases, and then nothing is encoded.
	if err := client.Get(ctx, "/v1/agent", nil, new(inspect.Agent)); err != nil {
		return answer, err
	}
	body, err := json.Marshal(request{append([]file.File{}, files...)}) // none is an empty list, and not null
	if err == nil {
		err = client.WithTimeout(timeout).Send(ctx, http.MethodPost, path, nil, body, &answer)
	}
	return answer, err
}

// local is what a process needs to compare documents itself.
type local struct {
	cell.In
	Comparer

	Mirrors []Mirror `group:"dry-run-mirrors"`
}

// look compares files with the system in this process.
func look(ctx context.Context, env *cli.Env, files []file.File) (answer Answer, err error) {
	if err := env.Hive().Invoke(func(m *Mode) { m.readOnly.Store(true) }); err != nil {
		return answer, err
	}
	// What is wrong with settings matters if something that is needed has them.
	_, misconfigured := env.Hive().Settings()
	err = env.Hive().Invoke(func(l local) (err error) {
		ctx, cancel := context.WithCancel(ctx)
		var mirrors []<-chan error
		for _, m := range l.Mirrors {
			ended := make(chan error, 1)
			go func() { ended <- m.Run(ctx, silent{}) }()
			mirrors = append(mirrors, ended)
		}
		var contents file.Contents
		if contents, err = file.Read(l.Documents, files); err == nil {
			// Targets may look into the tables, as templates of files do.
			err = file.Store(ctx, l.DB, l.Documents, contents.Rows)
		}
		if err == nil {
			answer, err = l.plan(ctx, contents, nil)
		}
		cancel()
		for _, ended := range mirrors {
			err = errors.Join(err, <-ended)
		}
		return err
	})
	if errors.Is(err, cell.ErrNotConfigured) {
		return answer, misconfigured
	}
	var construction *cell.BuildError
	if errors.As(err, &construction) {
		return answer, construction.Err // where it is built does not matter to who asks for a plan
	}
	return answer, err
}

// silent is the health of mirrors that nobody watches: what they lack, targets ask the
// system for.
type silent struct{}

func (silent) OK(string)              {}
func (silent) Degraded(string, error) {}
func (silent) Stopped(string)         {}

// print writes the plan, and returns its exit code.
func (a Answer) print(w io.Writer, format cli.Format) error {
	var err error
	if format == cli.FormatJSON {
		err = format.Print(w, a, nil, nil)
	} else {
		_, err = io.WriteString(w, cli.Printable(a.text()))
	}
	switch {
	case err != nil:
		return err
	case len(a.Problems)+a.Errors > 0:
		return &cli.ExitError{Code: 1}
	case len(a.Operations) > 0:
		return &cli.ExitError{Code: 2}
	}
	return nil
}

func (a Answer) text() string {
	var b strings.Builder
	if len(a.Problems) > 0 {
		for _, p := range a.Problems {
			b.WriteString(p.String() + "\n")
		}
		b.WriteString("No plan: the documents are not valid.\n")
		return b.String()
	}
	for _, op := range a.Operations {
		writeOperation(&b, op)
	}
	if len(a.Operations) > 0 {
		b.WriteByte('\n')
	}
	b.WriteString(a.summary() + "\n")
	return b.String()
}

var signs = map[dryrun.Action]string{dryrun.Create: "+", dryrun.Change: "~", dryrun.Delete: "-", dryrun.Fail: "!"}

func writeOperation(b *strings.Builder, op dryrun.Operation) {
	fmt.Fprintf(b, "%s %s %s", signs[op.Action], op.Kind, op.Key)
	if len(op.After) > 0 {
		fmt.Fprintf(b, " (after %s)", strings.Join(op.After, ", "))
	}
	b.WriteByte('\n')
	for _, c := range op.Changes {
		if op.Action == dryrun.Create {
			fmt.Fprintf(b, "    %s: %s\n", c.Field, c.Want)
		} else {
			fmt.Fprintf(b, "    %s: %s → %s\n", c.Field, orNone(c.Is), orNone(c.Want))
		}
	}
	if op.Error != "" {
		fmt.Fprintf(b, "    error: %s\n", strings.ReplaceAll(op.Error, "\n", "\n    "))
	}
	if note := agentNote(op); note != "" {
		fmt.Fprintf(b, "    agent: %s\n", note)
	}
}

func orNone(value string) string {
	if value == "" {
		return "none"
	}
	return value
}

// agentNote is what the agent has to say about an operation.
func agentNote(op dryrun.Operation) string {
	switch {
	case op.Agent == nil:
		return ""
	case op.Agent.State != "":
		return op.Agent.State
	case op.Action == dryrun.Delete && op.Agent.InForce == "":
		return "in no document of the agent either: its next full pass removes it"
	case op.Action != dryrun.Delete && op.Agent.InForce == "same":
		return "in force as declared, and not yet so in the system"
	}
	return ""
}

func (a Answer) summary() string {
	if len(a.Operations) == 0 {
		if a.Unchanged == 1 {
			return "Plan: nothing to do, 1 row is as it should be."
		}
		return fmt.Sprintf("Plan: nothing to do, %d rows are as they should be.", a.Unchanged)
	}
	text := fmt.Sprintf("Plan: %d to create, %d to change, %d to delete", a.Create, a.Change, a.Plan.Delete)
	if a.Errors > 0 {
		text += fmt.Sprintf(", %d in error", a.Errors)
	}
	return text + "."
}
