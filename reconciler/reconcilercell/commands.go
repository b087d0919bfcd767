package reconcilercell

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/statehive/statehive/hive/cli"
	"github.com/statehive/statehive/hive/inspect"
	"github.com/statehive/statehive/reconciler"
)

const (
	selectionHelp = ` The words of a key need no quotes: they are joined by
a space, as 'get' prints them.`
	tableHelp = `
TABLE is a table with one reconciler, or the name of a reconciler.`
)

func explainCommand() cli.CommandOut {
	return cli.NewCommand(func(env *cli.Env) *cobra.Command {
		var format cli.Format
		cmd := &cobra.Command{
			Use:   "explain TABLE KEY...",
			Short: "Explain the state of a row: who wrote it, what it waits for, what failed",
			Long: `Explain the state of a row, or of one that is still to be deleted: who wrote it, why it is queued,
what it waits for, the last attempts, and when it is tried again.` + selectionHelp + tableHelp,
			Example: "  explain routes inet main 10.0.0.0/24 0\n  explain links eth0 -o json",
			Args:    cobra.MinimumNArgs(2),
			RunE: func(cmd *cobra.Command, args []string) error {
				path, err := pathOf(cmd.Context(), env.Client(), args[0], "explain")
				if err != nil {
					return err
				}
				var e reconciler.Explanation
				query := url.Values{paramKey: {strings.Join(args[1:], " ")}}
				if err := env.Client().Get(cmd.Context(), path, query, &e); err != nil {
					return err
				}
				return printAs(cmd.OutOrStdout(), format, e, e.String())
			},
		}
		format.AddFlag(cmd.Flags())
		return cmd
	})
}

func printAs(w io.Writer, format cli.Format, v any, text string) error {
	if format == cli.FormatJSON {
		return format.Print(w, v, nil, nil)
	}
	_, err := io.WriteString(w, cli.Printable(text))
	return err
}

// actor describes a command that acts on a reconciler.
type actor struct {
	use, short, long, example string
	action                    string // the name of the endpoint
	params                    []string
	flags                     func(*cobra.Command)
	selects                   bool // the command acts on selected rows
}

func (a actor) command() cli.CommandOut {
	return cli.NewCommand(func(env *cli.Env) *cobra.Command {
		var format cli.Format
		cmd := &cobra.Command{
			Use: a.use, Short: a.short, Long: a.long + tableHelp, Example: a.example,
			Args: cobra.MinimumNArgs(1),
			RunE: func(cmd *cobra.Command, args []string) error {
				query, err := a.query(cmd, args[1:])
				if err != nil {
					return err
				}
				acted, err := send(cmd.Context(), env.Client(), args[0], a.action, query)
				if err != nil {
					return err
				}
				return printAs(cmd.OutOrStdout(), format, acted, acted.String()+"\n")
			},
		}
		format.AddFlag(cmd.Flags())
		if a.selects {
			cmd.Flags().Bool(paramAll, false, "all rows")
			cmd.Flags().String(paramWhere, "", "rows with a key of an index, as INDEX=KEY")
			cmd.Flags().String(paramStatus, "", "rows with a status: pending, done or error")
		}
		if a.flags != nil {
			a.flags(cmd)
		}
		return cmd
	})
}

func send(ctx context.Context, client *inspect.Client, name, action string, query url.Values) (acted Acted, err error) {
	path, err := pathOf(ctx, client, name, action)
	if err == nil {
		err = client.Send(ctx, http.MethodPost, path, query, nil, &acted)
	}
	return acted, err
}

// pathOf returns the path of an endpoint of a reconciler. A name that would change the
// path is refused; no reconciler has such a name.
func pathOf(ctx context.Context, client *inspect.Client, name, action string) (string, error) {
	if name == url.PathEscape(name) && strings.Trim(name, ".") != "" {
		return path + "/" + name + "/" + action, nil
	}
	var all []Status
	if err := client.Get(ctx, path, nil, &all); err != nil {
		return "", err
	}
	names := make([]string, len(all))
	for i, s := range all {
		names[i] = s.Name
	}
	return "", unknownName(name, names)
}

// query returns the key and the flags as given. The agent validates them.
func (a actor) query(cmd *cobra.Command, key []string) (url.Values, error) {
	query := url.Values{}
	if len(key) > 0 {
		query.Set(paramKey, strings.Join(key, " "))
	}
	for _, param := range a.params {
		if f := cmd.Flags().Lookup(param); f != nil && f.Changed {
			query.Set(param, f.Value.String())
		}
	}
	if query.Get(paramAll) == "false" {
		query.Del(paramAll)
	}
	if a.selects && !query.Has(paramKey) && !query.Has(paramWhere) && !query.Has(paramStatus) && !query.Has(paramAll) {
		return nil, fmt.Errorf("which rows? Give a KEY, --%s INDEX=KEY, --%s STATUS or --%s", paramWhere, paramStatus, paramAll)
	}
	return query, nil
}

func triggerCommand() cli.CommandOut {
	return actor{
		use: "trigger TABLE [KEY...]", short: "Apply rows now, whatever their status",
		long: `Apply rows now, whatever their status, and try failed deletes again, also of rows that wait for their next
attempt. The delete of a row that is named by its key does not wait any more for other rows to be applied.` + selectionHelp,
		example: "  trigger routes --status error\n  trigger links eth0\n  trigger ports --where device=eth0",
		action:  "trigger", params: selectionParams(), selects: true,
	}.command()
}

func pauseCommand() cli.CommandOut {
	return actor{
		use: "pause TABLE [KEY...]", short: "Keep rows from being applied and deleted, for a time",
		long: `Keep rows from being applied and deleted until they are resumed, or for a time. Running operations go on. With --all
also rows that are added later. Changes made meanwhile are applied in one operation. A restart of the agent ends pauses.` + selectionHelp,
		example: "  pause routes --all --for 10m\n  pause links eth0",
		action:  "pause", params: append(selectionParams(), paramFor), selects: true,
		flags: func(cmd *cobra.Command) {
			cmd.Flags().Duration(paramFor, 0, "end by itself after this time, such as 10m")
		},
	}.command()
}

func resumeCommand() cli.CommandOut {
	return actor{
		use: "resume TABLE [KEY...]", short: "End pauses",
		long:    "End pauses of rows, or with --all the pause of all rows. While all rows are paused, one row cannot be resumed." + selectionHelp,
		example: "  resume routes --all\n  resume links eth0",
		action:  "resume", params: selectionParams(), selects: true,
	}.command()
}

func resyncCommand() cli.CommandOut {
	return actor{
		use: "resync TABLE", short: "Make a full pass: apply all rows again and remove orphans",
		long:    "Make a full pass as soon as possible: apply all rows again, repair drift, and remove orphans: objects in the target that no row declares.",
		example: "  resync routes",
		action:  "full",
	}.command()
}

func limitsCommand() cli.CommandOut {
	return actor{
		use: "limits TABLE", short: "Show or change how fast a reconciler may go",
		long:    "Show the limits of a reconciler, or change them until it is restarted.",
		example: "  limits routes\n  limits routes --rate 100 --burst 10\n  limits routes --rate 0",
		action:  "limits", params: []string{paramRound, paramRate, paramBurst},
		flags: func(cmd *cobra.Command) {
			cmd.Flags().Int(paramRound, 0, "changes taken at a time: 1 or more (1000 at start)")
			cmd.Flags().Float64(paramRate, 0, "operations per second; 0: no limit")
			cmd.Flags().Int(paramBurst, 0, "operations at once, within the rate: 1 or more")
		},
	}.command()
}

func forgetCommand() cli.CommandOut {
	return actor{
		use: "forget TABLE KEY...", short: "Give up the delete of a row that cannot be deleted",
		long: `Give up the delete of a row that is gone from its table: it is neither tried again nor shown. What is left of the
row in the target stays, unless a full pass finds it. The agent logs the request.` + selectionHelp,
		example: "  forget links eth0",
		action:  "forget",
	}.command()
}

// String describes what was done.
func (a Acted) String() string {
	switch {
	case a.Plan != "":
		return a.Reconciler + ": plan " + a.Plan + " " + a.Action
	case a.Limits != nil:
		return a.Reconciler + ": " + a.Limits.String()
	case a.Rows < 0:
		return a.Reconciler + ": " + a.Action + a.end()
	case a.Rows == 1:
		return a.Reconciler + ": 1 row " + a.Action + a.end()
	default:
		return a.Reconciler + ": " + strconv.Itoa(a.Rows) + " rows " + a.Action + a.end()
	}
}

func (a Acted) end() string {
	if a.Until.IsZero() {
		return ""
	}
	return " until " + a.Until.Local().Format(time.DateTime)
}

// String describes the limits.
func (l Limits) String() string {
	if l.Rate == 0 {
		return fmt.Sprintf("rounds of %d, operations not limited", l.RoundSize)
	}
	return fmt.Sprintf("rounds of %d, %v operations per second in bursts of %d", l.RoundSize, l.Rate, l.Burst)
}
