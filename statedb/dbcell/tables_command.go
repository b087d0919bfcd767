package dbcell

import (
	"context"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/statehive/statehive/hive/cli"
	"github.com/statehive/statehive/hive/inspect"
)

func newTablesCommand(env *cli.Env) *cobra.Command {
	format := cli.FormatTable
	cmd := &cobra.Command{
		Use:   "tables",
		Short: "List the tables and what feeds them",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			list, err := getTables(cmd.Context(), env.Client())
			if err != nil {
				return err
			}
			header := []string{"NAME", "ROWS", "REVISION", "INDEXES", "SOURCES"}
			return format.Print(cmd.OutOrStdout(), list.Tables, header, list.cells())
		},
	}
	format.AddFlag(cmd.Flags())
	return cmd
}

func getTables(ctx context.Context, client *inspect.Client) (list tableList, err error) {
	err = client.Get(ctx, tablesPath, nil, &list)
	return list, err
}

func (l tableList) names() []string {
	names := make([]string, len(l.Tables))
	for i, t := range l.Tables {
		names[i] = t.Name
	}
	return names
}

func (l tableList) cells() [][]string {
	rows := make([][]string, len(l.Tables))
	for i, t := range l.Tables {
		rows[i] = t.cells()
	}
	return rows
}

func (t tableInfo) cells() []string {
	sources := make([]string, len(t.Sources))
	for i, s := range t.Sources {
		sources[i] = s.String()
	}
	return []string{
		t.Name,
		strconv.Itoa(t.Rows),
		strconv.FormatUint(uint64(t.Revision), 10),
		strings.Join(t.Indexes, ","),
		strings.Join(sources, ", "),
	}
}
