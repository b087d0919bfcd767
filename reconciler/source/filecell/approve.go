package filecell

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/statehive/statehive/hive/cli"
	"github.com/statehive/statehive/hive/inspect"
	"github.com/statehive/statehive/reconciler/source/file"
)

const (
	approvePath = path + "/approve"

	// approveTimeout is how long a request waits for the source.
	approveTimeout = 10 * time.Second
)

func approveEndpoint(s *file.Source) inspect.EndpointOut {
	out := inspect.NewEndpoint("POST "+approvePath, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), approveTimeout)
		defer cancel()
		approved, err := s.Approve(ctx)
		if err != nil {
			inspect.WriteError(w, httpStatus(err), err)
			return
		}
		inspect.WriteJSON(w, approved)
	}))
	out.Endpoint.NoBody = true
	return out
}

func httpStatus(err error) int {
	if errors.Is(err, context.DeadlineExceeded) {
		return http.StatusServiceUnavailable
	}
	return http.StatusConflict
}

func approveCommand() cli.CommandOut {
	return cli.NewCommandBelow("approve", func(env *cli.Env) *cobra.Command {
		var format cli.Format
		cmd := &cobra.Command{
			Use:   "documents",
			Short: "Accept the directory of documents as the desired state, although it is gone, replaced or without documents",
			Long: `Accept the directory of documents as the desired state, exactly as it is now. This is needed when the directory no longer
exists, is on another device than before, or no longer has any documents while rows of its documents are in force, and when
a file is gone whose documents may be in another one that is refused or being written, as 'status' and 'get documents' show. Until then nothing is removed. After the approval, the rows that no document declares
are removed from their tables and deleted within the limits for all deletes.`,
			Example: "  approve documents",
			Args:    cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				var approved file.Approved
				if err := env.Client().Send(cmd.Context(), http.MethodPost, approvePath, nil, nil, &approved); err != nil {
					return err
				}
				return printApproved(cmd.OutOrStdout(), format, approved)
			},
		}
		format.AddFlag(cmd.Flags())
		return cmd
	})
}

func printApproved(w io.Writer, format cli.Format, a file.Approved) error {
	if format == cli.FormatJSON {
		return format.Print(w, a, nil, nil)
	}
	text := fmt.Sprintf("documents: %s approved as it is: %s in force, %d withdrawn\n", a.Dir, count(a.Rows, "row"), a.Withdrawn)
	_, err := io.WriteString(w, cli.Printable(text))
	return err
}
