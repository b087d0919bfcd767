package cli

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/statehive/statehive/hive"
	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/internal/settings"
)

const (
	socketFlag = "socket"
	configFlag = "config"
)

type contributions struct {
	cell.In

	Commands []Command       `group:"cli-commands"`
	Sections []StatusSection `group:"cli-status"`
}

// Mount adds the commands of the hive, `status` if there is a section, and the flags --socket and --config, to root. It does not
// start the hive. It fails if a name is taken.
func Mount(root *cobra.Command, h *hive.Hive) error {
	socket, err := addFlags(root, h)
	if err != nil {
		return err
	}
	env := &Env{root: root, hive: h, flag: socket}
	return h.Invoke(func(c contributions) error {
		commands := make([]*cobra.Command, 0, len(c.Commands)+1)
		for _, contributed := range c.Commands {
			commands = append(commands, contributed.New(env))
		}
		if len(c.Sections) > 0 {
			commands = append(commands, statusCommand(env, c.Sections))
		}
		slices.SortFunc(commands, func(a, b *cobra.Command) int { return cmp.Compare(a.Name(), b.Name()) })
		return add(root, commands)
	})
}

// addFlags adds what says where the agent is, and returns the flag of its socket.
func addFlags(root *cobra.Command, h *hive.Hive) (socket *pflag.Flag, err error) {
	flags := root.PersistentFlags()
	for _, name := range []string{socketFlag, configFlag} {
		if flags.Lookup(name) != nil {
			return nil, fmt.Errorf("command %q has a flag --%s already", root.Name(), name)
		}
	}
	if err := h.RegisterConfigFlag(flags); err != nil {
		return nil, err
	}
	variable, _, _ := h.Env(configFlag)
	config := flags.Lookup(configFlag)
	config.Value = settingsFile{config.Value}
	config.Usage = fmt.Sprintf("YAML file of settings that the agent was started with (or %s)", variable)
	variable, _, _ = h.Env(socketFlag)
	flags.String(socketFlag, "", fmt.Sprintf("unix socket of the agent (or %s)", variable))
	return flags.Lookup(socketFlag), nil
}

// settingsFile is --config of those who only ask the agent. They look no further into the file than for its socket; so that a file
// which cannot be read at all does not lead them to another agent, it is refused.
type settingsFile struct{ pflag.Value }

// Set implements pflag.Value.
func (f settingsFile) Set(path string) error {
	if path != "" {
		if entries, err := settings.ReadFile(path); err != nil && entries == nil {
			return err
		}
	}
	return f.Value.Set(path)
}

func add(root *cobra.Command, commands []*cobra.Command) error {
	for _, c := range commands {
		for _, other := range root.Commands() {
			if other.Name() == c.Name() {
				return fmt.Errorf("command %q has two commands named %q", root.Name(), c.Name())
			}
		}
		root.AddCommand(c)
	}
	return nil
}
