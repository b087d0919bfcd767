package cli

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/statehive/statehive/hive"
	"github.com/statehive/statehive/hive/cell"
)

const (
	socketFlag = "socket"
	configFlag = "config"

	agentCommand = "agent" // the command that runs the hive
)

type contributions struct {
	cell.In

	Commands []Command       `group:"cli-commands"`
	Sections []StatusSection `group:"cli-status"`
}

// Mount adds the commands of the hive, `status` if there is a section, and the flags --socket and --config, to root. It does not
// start the hive. It fails if a name is taken: of a command, or of a flag, by root or by a command of the hive other than `agent`.
func Mount(root *cobra.Command, h *hive.Hive) error {
	socket, err := addFlags(root, h)
	if err != nil {
		return err
	}
	env := &Env{root: root, hive: h, flag: socket}
	return h.Invoke(func(c contributions) error {
		commands, err := contributed(env, c.Commands)
		if err != nil {
			return err
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
	if name := taken(root); name != "" {
		return nil, fmt.Errorf("command %q has a flag --%s already", root.Name(), name)
	}
	if err := h.RegisterFlag(flags, configFlag); err != nil {
		return nil, err
	}
	variable, _, _ := h.Env(configFlag)
	flags.Lookup(configFlag).Usage = fmt.Sprintf("YAML file of settings that the agent was started with (or %s)", variable)
	variable, _, _ = h.Env(socketFlag)
	flags.String(socketFlag, "", fmt.Sprintf("unix socket of the agent (or %s)", variable))
	return flags.Lookup(socketFlag), nil
}

func contributed(env *Env, from []Command) ([]*cobra.Command, error) {
	var commands []*cobra.Command
	var modes []mode
	parts := map[string][]*cobra.Command{}
	for _, f := range from {
		c := f.New(env)
		if f.Below != "" || c.Name() != agentCommand {
			if err := refuseFlags(c); err != nil {
				return nil, err
			}
		}
		switch {
		case f.Below != "":
			parts[f.Below] = append(parts[f.Below], c)
		case f.Flag != "":
			modes = append(modes, mode{c, f.Flag})
		default:
			commands = append(commands, c)
		}
	}
	commands, err := addModes(commands, modes)
	if err != nil {
		return nil, err
	}
	return addParts(commands, parts)
}

// addParts adds parts to the commands that they are below, by name.
func addParts(commands []*cobra.Command, parts map[string][]*cobra.Command) ([]*cobra.Command, error) {
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		i := slices.IndexFunc(commands, func(c *cobra.Command) bool { return c.Name() == name })
		if i < 0 {
			i = len(commands)
			commands = append(commands, &cobra.Command{Use: name, Short: fmt.Sprintf("See '%s --help' for what it is followed by", name)})
		}
		if err := add(commands[i], parts[name]); err != nil {
			return nil, err
		}
	}
	return commands, nil
}

// refuseFlags fails if a contributed command, or one below it, has a flag of its own by which it would not be told where the agent
// is. The agent has the same flags for itself.
func refuseFlags(c *cobra.Command) error {
	if name := taken(c); name != "" {
		return fmt.Errorf("command %q has a flag --%s of its own: that name says for all commands where the agent is", c.CommandPath(), name)
	}
	for _, below := range c.Commands() {
		if err := refuseFlags(below); err != nil {
			return err
		}
	}
	return nil
}

// taken is the first name of what addFlags adds that c has a flag of, for itself or for those below it.
func taken(c *cobra.Command) string {
	for _, name := range []string{socketFlag, configFlag} {
		if c.Flags().Lookup(name) != nil || c.PersistentFlags().Lookup(name) != nil {
			return name
		}
	}
	return ""
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
