package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/statehive/statehive/hive/inspect"
)

func statusCommand(env *Env, sections []StatusSection) *cobra.Command {
	sections = slices.SortedFunc(slices.Values(sections), func(a, b StatusSection) int {
		return cmp.Or(cmp.Compare(a.Order, b.Order), cmp.Compare(a.Name, b.Name))
	})
	return &cobra.Command{
		Use:   "status",
		Short: "Say whether all is as it should be; exit code 1 if not",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, err := env.Socket(); err != nil {
				return err // once, and not for each section
			}
			return showStatus(cmd.Context(), env.Client(), cmd.OutOrStdout(), sections)
		},
	}
}

// showStatus writes all sections, even if one fails, separated by blank lines.
func showStatus(ctx context.Context, c *inspect.Client, w io.Writer, sections []StatusSection) error {
	allHealthy, separator := true, ""
	var errs []error
	for _, s := range sections {
		var text bytes.Buffer
		healthy, err := s.Show(ctx, c, &text)
		var unreachable *inspect.UnreachableError
		if errors.As(err, &unreachable) {
			return err
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", s.Name, err))
		}
		allHealthy = allHealthy && healthy
		if text.Len() == 0 {
			continue
		}
		if _, err := io.WriteString(w, separator+Printable(text.String())); err != nil {
			return err
		}
		separator = "\n"
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if !allHealthy {
		return &ExitError{Code: 1}
	}
	return nil
}
