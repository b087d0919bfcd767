package e2e

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
)

// counter returns a metric of all reconcilers, by their names.
func (w *world) counter(ctx context.Context, name string) (map[string]float64, error) {
	r := w.scrape(ctx, "/metrics")
	if r.err != nil {
		return nil, r.failure()
	}
	line := regexp.MustCompile(`(?m)^statehive_reconciler_` + name + `{module_id="[^"]+",reconciler="([^"]+)"} (\S+)$`)
	values := map[string]float64{}
	for _, match := range line.FindAllStringSubmatch(r.stdout, -1) {
		value, err := strconv.ParseFloat(match[2], 64)
		if err != nil {
			return nil, err
		}
		values[match[1]] = value
	}
	if len(values) == 0 {
		return nil, fmt.Errorf("no metric %s in\n%s", name, r.stdout)
	}
	return values, nil
}

func lint(t *testing.T, metrics string) {
	t.Helper()
	problems, err := promlint.New(strings.NewReader(metrics)).Lint()
	must(t, err)
	for _, p := range problems {
		t.Errorf("promlint: %s: %s", p.Metric, p.Text)
	}
}
