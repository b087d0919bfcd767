package reconcilercell

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/statehive/statehive/hive/cli"
	"github.com/statehive/statehive/hive/inspect"
	"github.com/statehive/statehive/reconciler"
)

const paramPlan = "plan"

func planEndpoint(a *api) inspect.EndpointOut {
	return a.endpoint(http.MethodGet, "plan", nil, func(ctx context.Context, r request) (any, error) {
		return r.Plan(ctx)
	})
}

func approveEndpoint(a *api) inspect.EndpointOut {
	return a.endpoint(http.MethodPost, "approve", []string{paramPlan}, func(ctx context.Context, r request) (any, error) {
		id, err := r.one(paramPlan)
		if err != nil {
			return nil, err
		}
		acted := r.acted("approved", 0)
		acted.Plan = id
		return acted, r.Approve(ctx, id)
	})
}

func planCommand() cli.CommandOut {
	return cli.NewCommand(func(env *cli.Env) *cobra.Command {
		var format cli.Format
		cmd := &cobra.Command{
			Use:   "plan TABLE",
			Short: "Show the changes that are held because they exceed a limit",
			Long: `Show the changes that are held because too many were made at once, with the fields that each would change. None
is made before 'approve' is run with the plan's id.` + tableHelp,
			Example: "  plan routes\n  plan routes -o json",
			Args:    cobra.ExactArgs(1),
			RunE: func(cmd *cobra.Command, args []string) error {
				path, err := pathOf(cmd.Context(), env.Client(), args[0], "plan")
				if err != nil {
					return err
				}
				var plan reconciler.Plan
				if err := env.Client().Get(cmd.Context(), path, nil, &plan); err != nil {
					return err
				}
				return printPlan(cmd, format, plan)
			},
		}
		format.AddFlag(cmd.Flags())
		return cmd
	})
}

func printPlan(cmd *cobra.Command, format cli.Format, plan reconciler.Plan) error {
	w := cmd.OutOrStdout()
	if format == cli.FormatJSON || plan.ID == "" {
		return printAs(w, format, plan, "nothing is held\n")
	}
	rows := make([][]string, len(plan.Operations))
	for i, op := range plan.Operations {
		rows[i] = []string{op.Key, op.Operation, detailsOf(op)}
	}
	text := fmt.Sprintf("plan %s, held since %s: %d deletes and %d updates of %d rows\n",
		plan.ID, plan.Since.Local().Format(time.DateTime), plan.Deletes, plan.Updates, plan.Rows)
	if err := printAs(w, format, nil, text); err != nil {
		return err
	}
	if err := cli.WriteTable(w, []string{"KEY", "OPERATION", "CHANGES"}, rows); err != nil {
		return err
	}
	if more := plan.Deletes + plan.Updates - len(rows); more > 0 {
		return printAs(w, format, nil, fmt.Sprintf("and %d more\n", more))
	}
	return nil
}

// detailsOf describes what an operation would do.
func detailsOf(op reconciler.Planned) string {
	var parts []string
	if op.Orphan {
		parts = append(parts, "orphan")
	}
	for _, c := range op.Changes {
		parts = append(parts, fmt.Sprintf("%s: %q to %q", c.Field, c.Is, c.Want))
	}
	if op.Error != "" {
		parts = append(parts, "unknown: "+op.Error)
	}
	return strings.Join(parts, ", ")
}

func approveCommand() cli.CommandOut {
	return cli.NewCommand(func(env *cli.Env) *cobra.Command {
		var format cli.Format
		cmd := &cobra.Command{
			Use:   "approve TABLE PLAN",
			Short: "Allow the changes of a plan, once",
			Long: `Allow the changes of the plan with this id, which 'plan' shows. The id of an outdated plan is refused: more changes have
been held since.` + tableHelp,
			Example: "  approve routes mi8dzvk0-1",
			Args:    tableAndPlan,
			RunE: func(cmd *cobra.Command, args []string) error {
				acted, err := send(cmd.Context(), env.Client(), args[0], "approve", url.Values{paramPlan: {args[1]}})
				if err != nil {
					return err
				}
				return printAs(cmd.OutOrStdout(), format, acted, acted.String()+"\n")
			},
		}
		format.AddFlag(cmd.Flags())
		return cmd
	})
}

// tableAndPlan returns an error that names the missing arguments. Other modules may have added commands below approve.
func tableAndPlan(cmd *cobra.Command, args []string) error {
	if len(args) == 2 {
		return nil
	}
	text := "expected a TABLE and the id of the PLAN to approve, which 'plan TABLE' shows"
	for _, below := range cmd.Commands() {
		text += fmt.Sprintf("; or '%s %s': %s", cmd.Name(), below.Name(), below.Short)
	}
	return errors.New(text)
}
