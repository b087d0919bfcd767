package dbcell

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/statehive/statehive/hive/cli"
	"github.com/statehive/statehive/hive/inspect"
	"github.com/statehive/statehive/statedb"
)

const getExample = `  get routes
  get addresses eth0 192.0.2.1/24
  get routes --status error
  get links eth0 -o json`

// getter holds the flags of `get`.
type getter struct {
	env    *cli.Env
	format cli.Format
	status string
	index  string
	value  string
}

func newGetCommand(env *cli.Env) *cobra.Command {
	get := &getter{env: env, format: cli.FormatTable}
	cmd := &cobra.Command{
		Use:               "get TABLE [KEY...]",
		Short:             "Print the rows of a table, or the one with a key",
		Long:              "Print the rows of a table, or the one with a key. The words of a key need no quotes: they are joined by a space.",
		Example:           getExample,
		Args:              needTable,
		RunE:              get.run,
		ValidArgsFunction: get.completeTable,
	}
	flags := cmd.Flags()
	get.format.AddFlag(flags)
	flags.StringVar(&get.status, "status", "", "only rows with this status: "+strings.Join(statuses(), ", "))
	flags.StringVar(&get.index, "index", "", "only rows that have --value as a key of this index")
	flags.StringVar(&get.value, "value", "", "the key that is looked up in --index")
	return cmd
}

func needTable(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("expected the name of a table; '%s tables' lists them", cmd.Parent().CommandPath())
	}
	return nil
}

func (g *getter) run(cmd *cobra.Command, args []string) error {
	client := g.env.Client()
	path, err := rowsOf(cmd.Context(), client, args[0])
	if err != nil {
		return err
	}
	var rows received
	if err := client.Get(cmd.Context(), path, g.query(cmd, args[1:]), &rows); err != nil {
		return err
	}
	return g.format.Print(cmd.OutOrStdout(), rows.objects(), rows.headings(), rows.cells())
}

// rowsOf is the path of a table's rows. A text that would change the path cannot be sent; it is no table's name anyway.
func rowsOf(ctx context.Context, client *inspect.Client, table string) (string, error) {
	if table == url.PathEscape(table) && strings.Trim(table, ".") != "" {
		return tablesPath + "/" + table, nil
	}
	list, err := getTables(ctx, client)
	if err != nil {
		return "", err
	}
	return "", &statedb.UnknownNameError{Name: table, Known: list.names(), Err: statedb.ErrUnknownTable}
}

// query asks for what was given, as it was given: the agent says what is wrong with it.
func (g *getter) query(cmd *cobra.Command, key []string) url.Values {
	q := url.Values{}
	if len(key) > 0 {
		q.Set(paramKey, strings.Join(key, " "))
	}
	for param, value := range map[string]string{paramStatus: g.status, paramIndex: g.index, paramValue: g.value} {
		if cmd.Flags().Changed(param) {
			q.Set(param, value)
		}
	}
	return q
}
