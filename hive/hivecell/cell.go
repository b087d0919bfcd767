// Package hivecell shows what a hive is made of: the command `hive` with `hive dot`, `hive check` and `hive config`, and the
// endpoints GET /v1/hive and GET /v1/settings that they ask.
//
// The commands ask the running hive; with --offline they tell of the binary, without starting anything.
package hivecell

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/statehive/statehive/hive"
	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/cli"
	"github.com/statehive/statehive/hive/inspect"
)

const (
	hivePath     = "/v1/hive"
	settingsPath = "/v1/settings"
)

// Cell contributes the endpoints and the command.
func Cell() cell.Cell {
	return cell.Provide(describeEndpoint, settingsEndpoint, command)
}

func describeEndpoint(i hive.Inspector) inspect.EndpointOut {
	return inspect.NewEndpoint("GET "+hivePath, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		inspect.WriteJSON(w, i.Describe())
	}))
}

func settingsEndpoint(i hive.Inspector) inspect.EndpointOut {
	return inspect.NewEndpoint("GET "+settingsPath, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		inspect.WriteJSON(w, i.Settings())
	}))
}

// asker gets what there is to show.
type asker struct {
	env     *cli.Env
	offline bool
}

func (a *asker) description(cmd *cobra.Command) (hive.Description, error) {
	if a.offline {
		return a.env.Hive().Describe(), nil
	}
	var d hive.Description
	return d, a.ask(cmd, hivePath, &d)
}

func (a *asker) settings(cmd *cobra.Command) ([]cell.Setting, error) {
	if a.offline {
		return a.env.Hive().Settings()
	}
	var all []cell.Setting
	return all, a.ask(cmd, settingsPath, &all)
}

// ask asks the agent. Who has none may not know that it can do without.
func (a *asker) ask(cmd *cobra.Command, path string, into any) error {
	err := a.env.Client().Get(cmd.Context(), path, nil, into)
	var unreachable *inspect.UnreachableError
	if errors.As(err, &unreachable) {
		return fmt.Errorf("%w; with --offline this binary tells of itself", err)
	}
	return err
}

func command() cli.CommandOut {
	return cli.NewCommand(func(env *cli.Env) *cobra.Command {
		a := &asker{env: env}
		c := &cobra.Command{
			Use:   "hive",
			Short: "Show the modules, what each provides and needs, and how they started",
			Args:  cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				d, err := a.description(cmd)
				if err != nil {
					return err
				}
				return writeModules(cmd.OutOrStdout(), d)
			},
		}
		c.PersistentFlags().BoolVar(&a.offline, "offline", false, "tell of this binary, without asking the agent")
		c.AddCommand(dotCommand(a), checkCommand(a), configCommand(a))
		return c
	})
}

func dotCommand(a *asker) *cobra.Command {
	return &cobra.Command{
		Use:   "dot",
		Short: "Write the graph for Graphviz",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			d, err := a.description(cmd)
			if err != nil {
				return err
			}
			return writeDot(cmd.OutOrStdout(), d)
		},
	}
}

func checkCommand(a *asker) *cobra.Command {
	return &cobra.Command{
		Use:   "check",
		Short: "Find what is missing, or provided or configured and never used; exit code 1 if there is any",
		Long: `Find what is provided or configured and never used. With --offline also what the start would fail at: missing
types and cycles, each with the path of who needs what, and contributions to groups that nobody asks for. The
exit code is 1 if there is any.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			d, err := a.description(cmd)
			if err != nil {
				return err
			}
			var faults error
			if a.offline {
				faults = a.env.Hive().Validate()
			}
			found, err := writeFound(cmd.OutOrStdout(), d, faults)
			if err == nil && found {
				err = &cli.ExitError{Code: 1}
			}
			return err
		},
	}
}

func configCommand(a *asker) *cobra.Command {
	var format cli.Format
	c := &cobra.Command{
		Use:   "config",
		Short: "Show the settings in effect and where each comes from",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			all, err := a.settings(cmd)
			rows := make([][]string, len(all))
			for i, s := range all {
				rows[i] = []string{s.Name, s.Value, s.Origin, string(s.Module)}
			}
			header := []string{"SETTING", "VALUE", "ORIGIN", "MODULE"}
			return errors.Join(err, format.Print(cmd.OutOrStdout(), all, header, rows))
		},
	}
	format.AddFlag(c.Flags())
	return c
}
