package reconcilercell_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/metrics"
	"github.com/statehive/statehive/reconciler/reconcilercell"
)

// scrape returns what Prometheus would get of the reconcilers' metrics, but for
// buckets and times, which differ from run to run.
func scrape(t *testing.T, r prometheus.Gatherer) string {
	t.Helper()
	var b strings.Builder
	for line := range strings.Lines(scrapeAll(t, r)) {
		switch {
		case !strings.Contains(line, "acme_reconciler_") || strings.Contains(line, "_bucket{"):
		case varies.MatchString(line):
			b.WriteString(varies.ReplaceAllString(line, "$1 …"))
		default:
			b.WriteString(line)
		}
	}
	return b.String()
}

// varies matches series of times that are not 0.
var varies = regexp.MustCompile(`^(\w+_seconds(?:_sum)?\{.*\}) \S*[1-9]\S*`)

func scrapeAll(t *testing.T, r prometheus.Gatherer) string {
	t.Helper()
	response := httptest.NewRecorder()
	promhttp.HandlerFor(r, promhttp.HandlerOpts{}).ServeHTTP(response, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if response.Code != http.StatusOK {
		t.Fatalf("%d: %s", response.Code, response.Body)
	}
	return response.Body.String()
}

// eventuallyScraped waits until a line is in the metrics.
func eventuallyScraped(t *testing.T, r prometheus.Gatherer, lines ...string) string {
	t.Helper()
	var text string
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); <-time.After(10 * time.Millisecond) {
		text = scrape(t, r)
		if !slices.ContainsFunc(lines, func(line string) bool { return !strings.Contains(text, line+"\n") }) {
			return text
		}
	}
	t.Fatalf("not all of %q in\n%s", lines, text)
	return ""
}

const of = `{module_id="things",reconciler="things"}`

func TestTheScrapeIsGolden(t *testing.T) {
	r := start(t, "acme")
	eventuallyScraped(t, r.registry, "acme_reconciler_full_total"+of+" 1")
	r.insert(t, "a", "b", "c", "bad", "stays")
	eventuallyScraped(t, r.registry, "acme_reconciler_incremental_total"+of+" 5")
	r.delete(t, "stays")
	// Its retries go on: they are counted until the comparison, which leaves them out.
	text := eventuallyScraped(t, r.registry, "acme_reconciler_deleting_rows"+of+" 1", "acme_reconciler_delayed_rows"+of+" 1",
		"acme_reconciler_incremental_errors_current"+of+" 2", "acme_reconciler_healthy"+of+" 0", "acme_reconciler_active_workers"+of+" 0")
	retried := regexp.MustCompile(`(?m)^(acme_reconciler_(?:incremental_total|incremental_errors_total|retries_total|incremental_duration_seconds_count)\{.*\}) \d+$`)
	golden, err := os.ReadFile("testdata/scrape.prom")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(golden), retried.ReplaceAllString(text, "$1 …")); diff != "" {
		t.Errorf("testdata/scrape.prom (-want +got):\n%s", diff)
	}
}

func TestEveryMetricExistsBeforeAnythingHappensAndIsLintClean(t *testing.T) {
	r := start(t, "acme")
	families, err := r.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]int{}
	for _, f := range families {
		found[f.GetName()] = len(f.GetMetric())
	}
	for name, series := range map[string]int{
		"full_duration_seconds": 1, "full_total": 1, "full_errors_total": 1, "full_out_of_sync_total": 1,
		"incremental_duration_seconds": 1, "incremental_total": 1, "incremental_errors_total": 1, "incremental_errors_current": 1,
		"prune_duration_seconds": 1, "prune_errors_total": 1, "pruned_total": 1, "retries_total": 1,
		"queue_depth": 4, "queue_oldest_age_seconds": 4, "held_rows": 5, "drift_total": 1, "drifted_rows": 1, "delayed_rows": 1, "deleting_rows": 1,
		"workers": 1, "active_workers": 1, "stuck_operations": 1, "longest_running_seconds": 1,
		"last_success_timestamp_seconds": 1, "healthy": 1,
	} {
		if found["acme_reconciler_"+name] != series {
			t.Errorf("metric acme_reconciler_%s has %d series, want %d", name, found["acme_reconciler_"+name], series)
		}
	}
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("promlint: %v %v", problems, err)
	}
}

// Keys, errors and the like must not become labels: there would be no end of series.
func TestRowsMakeNoSeries(t *testing.T) {
	r := start(t, "acme")
	count := func() int {
		n, err := testutil.GatherAndCount(r.registry)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	eventuallyScraped(t, r.registry, "acme_reconciler_full_total"+of+" 1")
	before := count()
	r.insert(t, "a", "b", "bad", "stays")
	r.delete(t, "stays")
	eventuallyScraped(t, r.registry, "acme_reconciler_incremental_errors_current"+of+" 2")
	if after := count(); after != before {
		t.Errorf("%d series, %d before there were rows", after, before)
	}
}

func TestHealthyFollowsHealth(t *testing.T) {
	r := start(t, "acme")
	eventuallyScraped(t, r.registry, "acme_reconciler_healthy"+of+" 1")
	r.insert(t, "bad")
	eventuallyScraped(t, r.registry, "acme_reconciler_healthy"+of+" 0")
	r.delete(t, "bad")
	eventuallyScraped(t, r.registry, "acme_reconciler_healthy"+of+" 1")
}

func TestAReconcilerThatHasStoppedIsNotHealthy(t *testing.T) {
	registry := prometheus.NewRegistry()
	h := newHive(t, reconcilercell.Cell(), things(fed[thing]()), cell.Provide(
		func() metrics.Prefix { return "acme" }, func() prometheus.Registerer { return registry },
	))
	if err := h.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := h.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventuallyScraped(t, registry, "acme_reconciler_healthy"+of+" 0")
}
