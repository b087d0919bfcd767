package dbcell

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/statehive/statehive/hive/cli"
)

const getExample = `  get routes
  get addresses eth0 192.0.2.1/24
  get routes --status error --limit 10
  get links --prefix eth
  get links eth0 -o json
  get routes --watch`

// getter holds the flags of `get`.
type getter struct {
	env    *cli.Env
	format cli.Format
}

func newGetCommand(env *cli.Env) *cobra.Command {
	get := &getter{env: env, format: cli.FormatTable}
	cmd := &cobra.Command{
		Use:               "get TABLE [KEY...]",
		Short:             "Print the rows of a table, or the row with a key",
		Long:              "Print the rows of a table, or the row with a key. The words of a key need no quotes: they are joined by a space.\n\n" + watchLong,
		Example:           getExample,
		Args:              needTable,
		RunE:              get.run,
		ValidArgsFunction: completeTable(env),
	}
	flags := cmd.Flags()
	get.format.AddFlag(flags)
	flags.String(paramStatus, "", "only rows with this status: "+strings.Join(statuses(), ", "))
	flags.String(paramIndex, "", "look up --value, --prefix or --from in this index (default: the primary index)")
	flags.String(paramValue, "", "only rows with this key in --index")
	flags.String(paramPrefix, "", "only rows whose key begins with this text")
	flags.String(paramFrom, "", "only rows whose key is not less than this key")
	flags.String(paramTo, "", "with --from: only rows whose key is less than this key")
	flags.Bool(paramReverse, false, "print the last row first")
	flags.Bool(paramWatch, false, "keep running and print rows as they change")
	flags.Int(paramLimit, 0, "maximum number of rows")
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
	path, err := pathOf(cmd.Context(), client, tablePath, args[0])
	if err != nil {
		return err
	}
	q := flagQuery(cmd, rowParams()...)
	if key := args[1:]; len(key) > 0 {
		q.Set(paramKey, joinKey(key))
	}
	if q.Get(paramWatch) == "true" {
		return follow(cmd.Context(), client, path, q, printer(cmd.OutOrStdout(), g.format))
	}
	var rows received
	if err := client.Get(cmd.Context(), path, q, &rows); err != nil {
		return err
	}
	return g.format.Print(cmd.OutOrStdout(), rows.objects(), rows.headings(), rows.cells())
}
