// Package healthcell shows the health table: the endpoint GET /v1/health, the command `health` and the last sections of `status`,
// which name the degraded parts and what the hive waits for before it is ready.
package healthcell

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/cli"
	"github.com/statehive/statehive/hive/health"
	"github.com/statehive/statehive/hive/inspect"
	"github.com/statehive/statehive/statedb"
)

const path = "/v1/health"

// Cell contributes the endpoint, the command and the section.
func Cell() cell.Cell {
	return cell.Provide(endpoint, command, section, readiness)
}

// endpoint answers with all statuses, ordered by id.
func endpoint(db *statedb.DB, table *statedb.Table[health.Status]) inspect.EndpointOut {
	return inspect.NewEndpoint("GET "+path, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		all := []health.Status{}
		for s := range table.All(db.ReadTxn()) {
			all = append(all, s)
		}
		inspect.WriteJSON(w, all)
	}))
}

func command() cli.CommandOut {
	return cli.NewCommand(func(env *cli.Env) *cobra.Command {
		var format cli.Format
		c := &cobra.Command{
			Use:   "health",
			Short: "Show the health of every part of the agent as a tree; exit code 1 if one is degraded",
			Args:  cobra.NoArgs,
			RunE:  func(cmd *cobra.Command, _ []string) error { return show(cmd, env.Client(), &format) },
		}
		format.AddFlag(c.Flags())
		return c
	})
}

func show(cmd *cobra.Command, c *inspect.Client, format *cli.Format) error {
	var all []health.Status
	if err := c.Get(cmd.Context(), path, nil, &all); err != nil {
		return err
	}
	root := aggregate(all)
	rows := below([][]string{{"all", level(root), "", counts(root)}}, root, "")
	if err := format.Print(cmd.OutOrStdout(), all, []string{"PART", "LEVEL", "SINCE", "MESSAGE"}, rows); err != nil {
		return err
	}
	if slices.ContainsFunc(all, func(s health.Status) bool { return s.Level == health.Degraded }) {
		return &cli.ExitError{Code: 1}
	}
	return nil
}

// below adds the rows of the parts below a node, drawn as a tree.
func below(rows [][]string, n *node, indent string) [][]string {
	for i, c := range n.Below {
		branch, further := "├─ ", "│  "
		if i == len(n.Below)-1 {
			branch, further = "└─ ", "   "
		}
		row := []string{indent + branch + c.Name, level(c), "", ""}
		if c.Own != nil {
			row[2], row[3] = cli.Age(time.Since(c.Own.Since)), message(*c.Own)
		}
		rows = below(append(rows, row), c, indent+further)
	}
	return rows
}

func level(n *node) string {
	if n.Level == 0 {
		return ""
	}
	return n.Level.String()
}

func counts(n *node) string {
	return fmt.Sprintf("%d OK, %d degraded, %d stopped", n.Counts[health.OK], n.Counts[health.Degraded], n.Counts[health.Stopped])
}

func message(s health.Status) string {
	if s.Error == "" {
		return s.Message
	}
	return s.Message + ": " + s.Error
}
