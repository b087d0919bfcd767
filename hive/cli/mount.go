package cli

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/statehive/statehive/hive"
	"github.com/statehive/statehive/hive/cell"
)

const socketFlag = "socket"

type contributions struct {
	cell.In

	Commands []Command       `group:"cli-commands"`
	Sections []StatusSection `group:"cli-status"`
}

// Mount adds the commands of the hive, `status` if there is a section, and the flag --socket, to root. It does not start the
// hive. It fails if a name is taken.
func Mount(root *cobra.Command, h *hive.Hive) error {
	if root.PersistentFlags().Lookup(socketFlag) != nil {
		return fmt.Errorf("command %q has a flag --%s already", root.Name(), socketFlag)
	}
	variable, _, _ := h.Env(socketFlag)
	root.PersistentFlags().String(socketFlag, "", fmt.Sprintf("unix socket of the agent (or %s)", variable))
	env := &Env{root: root, hive: h, flag: root.PersistentFlags().Lookup(socketFlag)}
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
