package dbcell

import (
	"context"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/statehive/statehive/hive/cli"
	"github.com/statehive/statehive/hive/inspect"
)

const tablesLong = `List the tables and their sources. With --memory also estimate the memory that each table takes, for which the agent
reads every row. This takes some milliseconds for ten thousand rows.`

func newTablesCommand(env *cli.Env) *cobra.Command {
	format := cli.FormatTable
	cmd := &cobra.Command{
		Use:   "tables",
		Short: "List the tables and their sources",
		Long:  tablesLong,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			q := flagQuery(cmd, paramMemory)
			list, err := getTables(cmd.Context(), env.Client(), q)
			if err != nil {
				return err
			}
			header := []string{"NAME", "ROWS", "REVISION", "INDEXES", "SOURCES"}
			if q.Get(paramMemory) == "true" {
				header = slices.Insert(header, memoryColumn, "MEMORY")
			}
			return format.Print(cmd.OutOrStdout(), list.Tables, header, list.cells())
		},
	}
	format.AddFlag(cmd.Flags())
	cmd.Flags().Bool(paramMemory, false, "estimate the memory of each table, which reads every row")
	return cmd
}

func getTables(ctx context.Context, client *inspect.Client, query url.Values) (list tableList, err error) {
	err = client.Get(ctx, tablesPath, query, &list)
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
	cells := []string{
		t.Name,
		strconv.Itoa(t.Rows),
		strconv.FormatUint(uint64(t.Revision), 10),
		strings.Join(t.Indexes, ","),
		strings.Join(sources, ", "),
	}
	if t.Memory != nil {
		cells = slices.Insert(cells, memoryColumn, size(t.Memory.total()))
	}
	return cells
}

// memoryColumn is the position of the optional column.
const memoryColumn = 3

// size formats a number of bytes for people.
func size(bytes int) string {
	const kib = 1 << 10
	units, value := "KMGT", float64(bytes)
	if bytes < kib {
		return strconv.Itoa(bytes) + " B"
	}
	for value /= kib; value >= kib && len(units) > 1; value /= kib {
		units = units[1:]
	}
	return strconv.FormatFloat(value, 'f', 1, 64) + " " + units[:1] + "iB"
}
