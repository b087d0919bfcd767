package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/statehive/statehive/hive"
	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/inspect"
)

// Command is a contributed command.
type Command struct {
	// New makes the command. It must not ask the hive yet: the Env is complete when the command runs.
	New func(*Env) *cobra.Command
	// Below is the name of the contributed command that this one is a part of. If there is none of that name, one is made that
	// only has such parts. Empty: none.
	Below string
	// Flag is the name of a flag with which the contributed command of the same name does something else: what this one does.
	// If there is no other of that name, this is the command. Empty: it is a command by itself.
	Flag string
}

// CommandOut contributes a command. Its constructor must need nothing that is configured or costly: it is called for every
// invocation of the binary, before flags are parsed.
type CommandOut struct {
	cell.Out
	Command Command `group:"cli-commands"`
}

// NewCommand makes the contribution of a command.
func NewCommand(newCommand func(*Env) *cobra.Command) CommandOut {
	return CommandOut{Command: Command{New: newCommand}}
}

// NewCommandBelow makes the contribution of a command that is a part of another one, so that `approve documents` and
// `approve TABLE PLAN` can come from packages that do not know each other. The words of a part win over arguments.
func NewCommandBelow(parent string, newCommand func(*Env) *cobra.Command) CommandOut {
	return CommandOut{Command: Command{New: newCommand, Below: parent}}
}

// NewCommandWithFlag makes the contribution of what another command does when it is given a flag, so that `plan TABLE` and
// `plan --file DIR` can come from packages that do not know each other. newCommand makes a command of the same name with that
// flag: it gets the arguments, and the flags that both have. Its other flags need that one.
func NewCommandWithFlag(flag string, newCommand func(*Env) *cobra.Command) CommandOut {
	return CommandOut{Command: Command{New: newCommand, Flag: flag}}
}

// StatusSection is a part of what `status` prints.
type StatusSection struct {
	// Name says in errors which section it is.
	Name string
	// Order is the place among the sections, ascending.
	Order int
	// Show writes the section and reports whether all is well. A section that writes nothing is not seen.
	Show func(ctx context.Context, c *inspect.Client, w io.Writer) (healthy bool, err error)
}

// StatusSectionOut contributes a section. The same holds as for CommandOut.
type StatusSectionOut struct {
	cell.Out
	Section StatusSection `group:"cli-status"`
}

// NewStatusSection makes the contribution of a section.
func NewStatusSection(s StatusSection) StatusSectionOut { return StatusSectionOut{Section: s} }

// Env is what a command can use. Its methods are for running commands, not for making them.
type Env struct {
	root *cobra.Command
	hive *hive.Hive
	flag *pflag.Flag // --socket
}

// Socket returns the socket that was chosen: --socket, else the environment, else the settings file that --config or the
// environment names. If none of them says so, or what it says is empty, it is the default of the hive's name, as it is for the hive itself.
// So that no other agent is asked than the one that is meant, it fails, without --socket, if that file cannot be read or the socket
// in the settings cannot be used.
func (e *Env) Socket() (string, error) {
	socket := e.flag.Value.String()
	if !e.flag.Changed {
		var err error
		if socket, err = e.setting(); err != nil {
			return "", fmt.Errorf("cannot tell, without --%s, which agent to ask: %w", socketFlag, err)
		}
	}
	return cmp.Or(socket, inspect.DefaultSocket(e.hive.Info().Name)), nil
}

// setting is the socket in the settings.
func (e *Env) setting() (string, error) {
	_, socket, _ := e.hive.Env(socketFlag)
	all, _ := e.hive.Settings() // what is wrong with other settings does not matter to those who only ask the hive
	for _, s := range all {
		if s.Err != nil && (s.Name == configFlag || s.Name == socketFlag) {
			return "", s.Err
		}
		if s.Name == socketFlag {
			socket = s.Value
		}
	}
	return socket, nil
}

// Client returns a client for the socket that was chosen. If Socket fails, so do the client's requests, with the same error.
func (e *Env) Client() *inspect.Client {
	socket, err := e.Socket()
	if err != nil {
		return inspect.NewBrokenClient(err)
	}
	variable, _, _ := e.hive.Env(socketFlag)
	hint := fmt.Sprintf("%s, or name its socket with --%s or %s, or its settings with --%s", e.howToStart(), socketFlag, variable, configFlag)
	return inspect.NewClient(socket).WithHint(hint)
}

// Hive returns the hive whose commands they are, which has not been started.
func (e *Env) Hive() *hive.Hive { return e.hive }

// howToStart names the command `agent`, if the binary has one.
func (e *Env) howToStart() string {
	for _, c := range e.root.Commands() {
		if c.Name() == agentCommand {
			return fmt.Sprintf("start it with '%s'", c.CommandPath())
		}
	}
	return "start it"
}
