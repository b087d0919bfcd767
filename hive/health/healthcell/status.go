package healthcell

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/statehive/statehive/hive/cli"
	"github.com/statehive/statehive/hive/health"
	"github.com/statehive/statehive/hive/inspect"
)

// section returns the section of `status` that lists the degraded parts.
func section() cli.StatusSectionOut {
	return cli.NewStatusSection(cli.StatusSection{Name: "health", Order: 90, Show: showDegraded})
}

// readiness returns the section of a hive that is not ready. That is not unhealthy: it may soon be ready.
func readiness() cli.StatusSectionOut {
	return cli.NewStatusSection(cli.StatusSection{Name: "readiness", Order: 95, Show: showWaits})
}

func showWaits(ctx context.Context, c *inspect.Client, w io.Writer) (healthy bool, err error) {
	var agent inspect.Agent
	if err := c.Get(ctx, "/v1/agent", nil, &agent); err != nil || agent.Ready {
		return err == nil, err
	}
	_, err = fmt.Fprintf(w, "not ready, waiting for:\n  %s\n", strings.Join(agent.Pending, "\n  "))
	return err == nil, err
}

func showDegraded(ctx context.Context, c *inspect.Client, w io.Writer) (healthy bool, err error) {
	var all []health.Status
	if err := c.Get(ctx, path, nil, &all); err != nil {
		return false, err
	}
	var degraded []health.Status
	for _, s := range all {
		if s.Level == health.Degraded {
			degraded = append(degraded, s)
		}
	}
	if len(degraded) == 0 {
		_, err = fmt.Fprintf(w, "health: OK, all %d parts\n", len(all))
		return err == nil, err
	}
	if _, err = fmt.Fprintf(w, "health: degraded, %d of %d parts\n", len(degraded), len(all)); err != nil {
		return false, err
	}
	for _, s := range degraded {
		if _, err = fmt.Fprintf(w, "  %s, for %s\n", s.ID, cli.Age(time.Since(s.Since))); err != nil {
			return false, err
		}
	}
	return false, nil
}
