package reconcilercell

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/statehive/statehive/hive/cli"
	"github.com/statehive/statehive/hive/inspect"
	"github.com/statehive/statehive/reconciler"
)

func failuresEndpoint(a *api) inspect.EndpointOut {
	return a.endpoint(http.MethodGet, "failures", nil, func(_ context.Context, r request) (any, error) {
		return append([]reconciler.FailureGroup{}, r.FailureGroups()...), nil
	})
}

func failuresCommand() cli.CommandOut {
	return cli.NewCommand(func(env *cli.Env) *cobra.Command {
		var format cli.Format
		cmd := &cobra.Command{
			Use:   "failures TABLE",
			Short: "Show why rows fail: each error with the number of rows and some of their keys",
			Long: `Show why rows fail: each error with the number of rows that fail with it, and the first of their keys. In the text of an
error, <key> stands for the key of the row or a word of it. 'get not-done' has a line for each row.` + tableHelp,
			Example: "  failures routes\n  failures routes -o json",
			Args:    cobra.ExactArgs(1),
			RunE: func(cmd *cobra.Command, args []string) error {
				path, err := pathOf(cmd.Context(), env.Client(), args[0], "failures")
				if err != nil {
					return err
				}
				var groups []reconciler.FailureGroup
				if err := env.Client().Get(cmd.Context(), path, nil, &groups); err != nil {
					return err
				}
				return printFailures(cmd, format, groups)
			},
		}
		format.AddFlag(cmd.Flags())
		return cmd
	})
}

func printFailures(cmd *cobra.Command, format cli.Format, groups []reconciler.FailureGroup) error {
	w := cmd.OutOrStdout()
	if format == cli.FormatJSON || len(groups) == 0 {
		return printAs(w, format, groups, "nothing fails\n")
	}
	rows := make([][]string, len(groups))
	for i, g := range groups {
		examples := strings.Join(g.Examples, ", ")
		if g.Count > len(g.Examples) {
			examples += ", …"
		}
		rows[i] = []string{strconv.Itoa(g.Count), g.Operation, cli.Age(time.Since(g.Since)) + " ago", g.Error, examples}
	}
	return cli.WriteTable(w, []string{"ROWS", "OPERATION", "SINCE", "ERROR", "KEYS"}, rows)
}
