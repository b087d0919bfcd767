package hivetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/internal/guard"
	"github.com/statehive/statehive/statedb"
)

// Command is what scripts can do with a hive that is started, as `agent NAME ARG...`: more than people can, who only have its
// command line. See NewCommand.
type Command struct {
	Name  string
	Usage string // the arguments, such as "TABLE FILE"; empty if there are none
	// Run does it. An error fails the script, unless the command is negated or tried again by `within`. It should not go on
	// when ctx is done, which is when the test ends. A panic is an error, and so is runtime.Goexit.
	Run func(ctx context.Context, call *Call) error
}

// Call is a call of a Command.
type Call struct {
	Args   []string
	Stdout io.Writer // the standard output of the script's last command

	abs func(string) string
}

// ReadFile reads a file of the script.
func (c *Call) ReadFile(name string) ([]byte, error) { return os.ReadFile(c.abs(name)) }

// CommandOut contributes a command to scripts.
type CommandOut struct {
	cell.Out
	Command Command `group:"script-commands"`
}

// NewCommand makes the contribution of a command. A constructor that returns it belongs in a cell of the test, among
// Scripts.Cells, and may need whatever the hive has.
func NewCommand(name, usage string, run func(ctx context.Context, call *Call) error) CommandOut {
	return CommandOut{Command: Command{Name: name, Usage: usage, Run: run}}
}

// commandsIn is what scripts work on in a hive.
type commandsIn struct {
	cell.In

	DB       *statedb.DB
	Commands []Command `group:"script-commands"`
}

// collect has the world know the commands of the hive once it is built.
func (w *world) collect(in commandsIn) error {
	all := append(tableCommands(in.DB), in.Commands...)
	w.commands = make(map[string]Command, len(all))
	for _, c := range all {
		if _, twice := w.commands[c.Name]; twice || c.Name == "start" || c.Name == "stop" {
			return fmt.Errorf("hivetest: there are two commands of scripts with the name %q", c.Name)
		}
		w.commands[c.Name] = c
	}
	return nil
}

// call runs a command of the hive that is started.
func (w *world) call(args []string) result {
	if w.hive == nil {
		return result{err: fmt.Errorf("agent %s: the hive is not started; usage: %s", args[0], agentUsage)}
	}
	c, ok := w.commands[args[0]]
	if !ok {
		return result{err: fmt.Errorf("unknown command: agent %s; there are:\n%s", args[0], w.usage())}
	}
	var stdout bytes.Buffer
	err := <-guard.Go(func() error { return c.Run(w.ctx, &Call{Args: args[1:], Stdout: &stdout, abs: w.abs}) })
	if errors.Is(err, errUsage) {
		return result{err: fmt.Errorf("usage: agent %s %s", c.Name, c.Usage)}
	}
	r := result{stdout: stdout.String()}
	if err != nil {
		r.code, r.stderr = 1, fmt.Sprintln(err)
	}
	return r
}

// errUsage is the error of a command that is given other arguments than its usage says.
var errUsage = errors.New("wrong arguments")

func (w *world) usage() string {
	lines := []string{"agent start [FLAG...]", "agent stop"}
	for _, c := range w.commands {
		lines = append(lines, strings.TrimSpace("agent "+c.Name+" "+c.Usage))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}
