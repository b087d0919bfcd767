package reconcilercell

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/statehive/statehive/hive/cli"
	"github.com/statehive/statehive/hive/health"
	"github.com/statehive/statehive/hive/inspect"
)

const path = "/v1/reconcilers"

// section prints a line for each reconciler and, below, its problems.
func section() cli.StatusSectionOut {
	return cli.NewStatusSection(cli.StatusSection{Name: "reconcilers", Order: 10, Show: show})
}

func show(ctx context.Context, c *inspect.Client, w io.Writer) (healthy bool, err error) {
	var statuses []Status
	if err := c.Get(ctx, path, nil, &statuses); err != nil || len(statuses) == 0 {
		return err == nil, err
	}
	header := []string{"RECONCILER", "ROWS", "DONE", "PENDING", "ERROR", "DELETING", "PAUSED", "DRIFTED", "LAST-SUCCESS", "HEALTH"}
	if err := cli.WriteTable(w, header, lines(statuses, time.Now())); err != nil {
		return false, err
	}
	healthy = true
	for _, s := range statuses {
		healthy = healthy && s.Health == health.OK
		for _, problem := range s.problems() {
			if _, err := fmt.Fprintf(w, "%s: %s\n", s.Name, problem); err != nil {
				return false, err
			}
		}
	}
	return healthy, nil
}

func lines(statuses []Status, now time.Time) [][]string {
	rows := make([][]string, len(statuses))
	for i, s := range statuses {
		last := "never"
		if !s.LastSuccess.IsZero() {
			last = cli.Age(now.Sub(s.LastSuccess)) + " ago"
		}
		rows[i] = []string{
			s.Name, strconv.Itoa(s.Rows), strconv.Itoa(s.Done), strconv.Itoa(s.Pending),
			strconv.Itoa(s.Error), strconv.Itoa(s.Deleting), strconv.Itoa(s.Paused), strconv.Itoa(s.Drifted), last, s.Health.String(),
		}
	}
	return rows
}

// problems describes the reconciler's problems, a line for each.
func (s Status) problems() []string {
	var all []string
	if s.Health != health.OK {
		cause, _, _ := strings.Cut(s.Cause, "\n")
		all = append(all, strings.TrimSuffix(s.Message+": "+cause, ": "))
	}
	for _, source := range slices.Sorted(maps.Keys(s.Incomplete)) {
		all = append(all, "removal of orphans is held: "+source+": "+s.Incomplete[source])
	}
	return all
}
