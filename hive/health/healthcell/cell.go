// Package healthcell shows the table of health: the endpoint GET /v1/health, the command `health` and the last section of
// `status`.
package healthcell

import (
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
	return cell.Provide(endpoint, command, section)
}

// endpoint answers with all statuses, ordered by id.
func endpoint(db *statedb.DB, table statedb.Table[health.Status]) inspect.EndpointOut {
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
			Short: "Show the health of every part of the agent; exit code 1 if one is degraded",
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
	rows := make([][]string, len(all))
	for i, s := range all {
		rows[i] = []string{s.ID, s.Level.String(), cli.Age(time.Since(s.Since)), message(s)}
	}
	if err := format.Print(cmd.OutOrStdout(), all, []string{"PART", "LEVEL", "SINCE", "MESSAGE"}, rows); err != nil {
		return err
	}
	if slices.ContainsFunc(all, func(s health.Status) bool { return s.Level == health.Degraded }) {
		return &cli.ExitError{Code: 1}
	}
	return nil
}

func message(s health.Status) string {
	if s.Error == "" {
		return s.Message
	}
	return s.Message + ": " + s.Error
}
