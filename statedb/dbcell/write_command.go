package dbcell

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/statehive/statehive/hive/cli"
)

const (
	putLong = `Write rows, given as JSON: an object, or an array of objects, which are written together or not at all. A row replaces the row
with the same key; fields that are left out have their zero value. Only tables that are declared to be writable by name can be written:
'tables -o json' shows them as "writable".`
	putExample = `  echo '{"name": "color", "value": "red"}' | put settings
  put settings -f settings.json`
	deleteLong = `Delete a row. The words of a key need no quotes: they are joined by a space, as 'get' prints them. Only tables that
are declared to be writable by name can be written.`
	revisionUsage = "only if the row has not changed after this revision, which 'get -o json' shows"
	stdin         = "-"
)

func newPutCommand(env *cli.Env) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:               "put TABLE [-f FILE]",
		Short:             "Write rows of a table that may be written by name",
		Long:              putLong,
		Example:           putExample,
		Args:              cobra.MatchAll(needTable, cobra.MaximumNArgs(1)),
		ValidArgsFunction: completeTable(env),
		RunE: func(cmd *cobra.Command, args []string) error {
			rows, err := readInput(cmd, file)
			if err != nil {
				return err
			}
			q := flagQuery(cmd, paramRevision)
			return changeTable(cmd, env, "written", tableChange{method: http.MethodPut, table: args[0], query: q, body: rows})
		},
	}
	cmd.Flags().StringVarP(&file, "file", "f", stdin, "file with the rows; - is the standard input")
	addRevisionFlag(cmd)
	return cmd
}

func newDeleteCommand(env *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:               "delete TABLE KEY...",
		Short:             "Delete a row of a table that may be written by name",
		Long:              deleteLong,
		Args:              needTableAndKey,
		ValidArgsFunction: completeTable(env),
		RunE: func(cmd *cobra.Command, args []string) error {
			q := flagQuery(cmd, paramRevision)
			q.Set(paramKey, joinKey(args[1:]))
			return changeTable(cmd, env, "deleted", tableChange{method: http.MethodDelete, table: args[0], query: q})
		},
	}
	addRevisionFlag(cmd)
	return cmd
}

func addRevisionFlag(cmd *cobra.Command) {
	cmd.Flags().Uint64(paramRevision, 0, revisionUsage)
}

func needTableAndKey(cmd *cobra.Command, args []string) error {
	if err := needTable(cmd, args); err != nil {
		return err
	}
	if len(args) < 2 {
		return fmt.Errorf("expected the key of a row; '%s get %s' lists them", cmd.Parent().CommandPath(), args[0])
	}
	return nil
}

// tableChange is a request for a change.
type tableChange struct {
	method string
	table  string
	query  url.Values
	body   []byte
}

// changeTable sends a change and prints the rows that it has changed.
func changeTable(cmd *cobra.Command, env *cli.Env, done string, c tableChange) error {
	client := env.Client()
	path, err := pathOf(cmd.Context(), client, rowsPath, c.table)
	if err != nil {
		return err
	}
	var answer written
	if err := client.Send(cmd.Context(), c.method, path, c.query, c.body, &answer); err != nil {
		return err
	}
	rows := make([][]string, len(answer.Rows))
	for i, row := range answer.Rows {
		rows[i] = []string{row.Key, strconv.FormatUint(uint64(row.Revision), 10), done}
	}
	return cli.WriteTable(cmd.OutOrStdout(), []string{"KEY", "REVISION", "RESULT"}, rows)
}

// readInput reads the rows from a file. More than one request may have is an error.
func readInput(cmd *cobra.Command, file string) ([]byte, error) {
	in := cmd.InOrStdin()
	if file != stdin {
		f, err := os.Open(file)
		if err != nil {
			return nil, err
		}
		defer func() { _ = f.Close() }() // nothing was written
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, maxBody+1))
	if err == nil && len(text) > maxBody {
		err = fmt.Errorf("rows are more than %d bytes, which is the most that one request may have", maxBody)
	}
	return text, err
}
