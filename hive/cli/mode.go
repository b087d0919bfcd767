package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// mode is what a command does when it is given a flag.
type mode struct {
	*cobra.Command

	flag string
}

// addModes adds modes to the commands of the same name; one without such a command becomes one.
func addModes(commands []*cobra.Command, modes []mode) ([]*cobra.Command, error) {
	for _, m := range modes {
		if m.Flags().Lookup(m.flag) == nil {
			return nil, fmt.Errorf("command %q has no flag --%s, with which it is to be run", m.Name(), m.flag)
		}
		i := slices.IndexFunc(commands, func(c *cobra.Command) bool { return c.Name() == m.Name() })
		if i < 0 {
			commands = append(commands, m.Command)
		} else if err := m.addTo(commands[i]); err != nil {
			return nil, err
		}
	}
	return commands, nil
}

// addTo has a command run the mode when it is given its flag.
func (m mode) addTo(c *cobra.Command) error {
	if c.Flags().Lookup(m.flag) != nil {
		return fmt.Errorf("command %q has a flag --%s already", c.Name(), m.flag)
	}
	var own, shared []string
	m.Flags().VisitAll(func(f *pflag.Flag) {
		if c.Flags().Lookup(f.Name) != nil {
			shared = append(shared, f.Name)
			return
		}
		own = append(own, f.Name)
		c.Flags().AddFlag(f)
	})
	args, run := c.Args, c.RunE
	c.Args = func(c *cobra.Command, given []string) error {
		if c.Flags().Changed(m.flag) {
			return accept(m.Args, c, given)
		}
		for _, name := range own {
			if c.Flags().Changed(name) {
				return fmt.Errorf("--%s needs --%s", name, m.flag)
			}
		}
		return accept(args, c, given)
	}
	c.RunE = func(c *cobra.Command, given []string) error {
		if !c.Flags().Changed(m.flag) {
			return run(c, given)
		}
		for _, name := range shared {
			if f := c.Flags().Lookup(name); f.Changed {
				if err := m.Flags().Set(name, f.Value.String()); err != nil {
					return fmt.Errorf("--%s: %w", name, err)
				}
			}
		}
		return m.RunE(c, given)
	}
	c.Use += " |" + strings.TrimPrefix(m.Use, m.Name())
	c.Short += fmt.Sprintf("; with --%s: %s", m.flag, strings.ToLower(m.Short[:1])+m.Short[1:])
	c.Long += "\n\n" + m.Long
	c.Example += "\n" + m.Example
	return nil
}

func accept(args cobra.PositionalArgs, c *cobra.Command, given []string) error {
	if args == nil {
		return nil
	}
	return args(c, given)
}
