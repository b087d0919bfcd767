package dbcell

import (
	"context"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/statehive/statehive/hive/cli"
	"github.com/statehive/statehive/hive/inspect"
	"github.com/statehive/statehive/statedb"
)

// pathOf returns a path of the API for a table. A name that would change the path is refused; no table has such a name.
func pathOf(ctx context.Context, client *inspect.Client, pattern, table string) (string, error) {
	if table == url.PathEscape(table) && strings.Trim(table, ".") != "" {
		return strings.Replace(pattern, "{name}", table, 1), nil
	}
	list, err := getTables(ctx, client, nil)
	if err != nil {
		return "", err
	}
	return "", &statedb.UnknownNameError{Name: table, Known: list.names(), Err: statedb.ErrUnknownTable}
}

// joinKey joins words to a key, so that keys need no quotes on the command line.
func joinKey(words []string) string { return strings.Join(words, " ") }

// flagQuery returns the parameters that were given as flags, unchanged. The agent validates them.
func flagQuery(cmd *cobra.Command, params ...string) url.Values {
	q := url.Values{}
	for _, param := range params {
		if flag := cmd.Flags().Lookup(param); flag != nil && flag.Changed {
			q.Set(param, flag.Value.String())
		}
	}
	return q
}

// completeTable completes the name of a table with the names of the running agent's tables. Without an agent there are none.
func completeTable(env *cli.Env) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		list, err := getTables(cmd.Context(), env.Client(), nil)
		if err != nil {
			cobra.CompErrorln(err.Error())
			return nil, cobra.ShellCompDirectiveError | cobra.ShellCompDirectiveNoFileComp
		}
		return list.names(), cobra.ShellCompDirectiveNoFileComp
	}
}
