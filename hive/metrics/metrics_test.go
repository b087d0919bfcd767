package metrics_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"

	"github.com/statehive/statehive/hive"
	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/health"
	"github.com/statehive/statehive/hive/job"
	"github.com/statehive/statehive/hive/metrics"
	"github.com/statehive/statehive/statedb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newHive(t *testing.T, address string, cells ...cell.Cell) *hive.Hive {
	t.Helper()
	h, err := hive.New(hive.Options{
		Name:      "test",
		Logger:    slog.New(slog.NewTextHandler(t.Output(), nil)),
		LookupEnv: func(name string) (string, bool) { return address, name == "TEST_METRICS_ADDRESS" },
	}, cells...)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func start(t *testing.T, h *hive.Hive) {
	t.Helper()
	if err := h.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func get(t *testing.T, l net.Listener, path string) (int, string) {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get("http://" + l.Addr().String() + path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func inherited(l net.Listener) cell.Cell {
	return cell.Provide(func() metrics.Listener { return metrics.Listener{Listener: l} })
}

func TestMetricsOfCellsAndOfTheProcessAreServed(t *testing.T) {
	l := listen(t)
	register := func(r prometheus.Registerer, prefix metrics.Prefix) error {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: string(prefix) + "_rows_total", Help: "Rows."})
		c.Add(3)
		return r.Register(c)
	}
	var gatherer prometheus.Gatherer
	start(t, newHive(t, "", metrics.Cell("mine"), inherited(l), cell.Invoke(register, func(g prometheus.Gatherer) { gatherer = g })))
	status, body := get(t, l, "/metrics")
	for _, want := range []string{"mine_rows_total 3", "go_goroutines", "process_cpu_seconds_total", "promhttp_metric_handler_errors_total"} {
		if status != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("status %d, no %q in the answer", status, want)
		}
	}
	problems, err := testutil.GatherAndLint(gatherer)
	if err != nil || len(problems) > 0 {
		t.Errorf("lint: %v, %v", problems, err)
	}
}

func TestHealthzAnswersAlsoWhenACollectorFails(t *testing.T) {
	l := listen(t)
	start(t, newHive(t, "", metrics.Cell(""), inherited(l), cell.Invoke(func(r prometheus.Registerer) error {
		return r.Register(failing{})
	})))
	if status, body := get(t, l, "/healthz"); status != http.StatusOK || body != "ok\n" {
		t.Errorf("healthz: %d %q", status, body)
	}
	if status, body := get(t, l, "/metrics"); status != http.StatusOK || !strings.Contains(body, "go_goroutines") {
		t.Errorf("metrics: %d, without those that can be collected", status)
	}
}

type failing struct{}

func (failing) Describe(c chan<- *prometheus.Desc) {
	c <- prometheus.NewDesc("failing", "Fails.", nil, nil)
}

func (f failing) Collect(c chan<- prometheus.Metric) {
	c <- prometheus.NewInvalidMetric(prometheus.NewDesc("failing", "Fails.", nil, nil), errors.New("broken"))
}

func TestHivesHaveRegistriesOfTheirOwn(t *testing.T) {
	var one, two prometheus.Registerer
	for _, r := range []*prometheus.Registerer{&one, &two} {
		start(t, newHive(t, "", metrics.Cell(""), cell.Invoke(func(own prometheus.Registerer, prefix metrics.Prefix) {
			*r = own
			if prefix != metrics.DefaultPrefix {
				t.Errorf("prefix %q", prefix)
			}
		})))
	}
	if one == nil || one == two {
		t.Error("a registry is shared")
	}
}

func TestEmptyAddressIsOff(t *testing.T) {
	start(t, newHive(t, "", metrics.Cell("")))
}

// Any user of the machine can listen there first.
func TestAddressThatIsTakenIsWaitedForAndNamedWithTheFlag(t *testing.T) {
	l := listen(t)
	var registry *health.Registry
	var db *statedb.DB
	start(t, newHive(t, l.Addr().String(), metrics.Cell(""), cell.Invoke(func(r *health.Registry, d *statedb.DB) { registry, db = r, d })))
	want := "cannot serve metrics on " + l.Addr().String() + ": bind: address already in use; choose another address with --metrics-address"
	eventually(t, func() bool {
		for row := range registry.Table().All(db.ReadTxn()) {
			if row.Level == health.Degraded && strings.Contains(row.Error, want) {
				return true
			}
		}
		return false
	})
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool {
		conn, err := net.Dial("tcp", l.Addr().String())
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
	if status, body := get(t, l, "/healthz"); status != http.StatusOK || body != "ok\n" {
		t.Errorf("got %d %q", status, body)
	}
	eventually(t, func() bool {
		for row := range registry.Table().All(db.ReadTxn()) {
			if row.Level == health.Degraded {
				return false
			}
		}
		return true
	})
}

func eventually(t *testing.T, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !holds(); <-time.After(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("not within 30s")
		}
	}
}

func TestBadAddressIsRefusedBeforeTheStart(t *testing.T) {
	err := newHive(t, "9464", metrics.Cell("")).Start(t.Context())
	var config *cell.ConfigError
	if !errors.As(err, &config) || !strings.Contains(err.Error(), `--metrics-address="9464": expected host:port`) {
		t.Errorf("got %v", err)
	}
}

func TestPrefixThatWouldNeedQuotesIsRefused(t *testing.T) {
	for prefix, good := range map[metrics.Prefix]bool{"acme": true, "acme_node2": true, "acme-node": false, "2acme": false, "acme node": false} {
		h := newHive(t, "", metrics.Cell(prefix))
		if err := h.Start(t.Context()); good != (err == nil) || !good && !strings.Contains(err.Error(), string(prefix)) {
			t.Errorf("%q: got %v", prefix, err)
		}
		if good {
			if err := h.Stop(t.Context()); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestReadinessIsKnownToProbesAndDoesNotGoBack(t *testing.T) {
	l := listen(t)
	var waits atomic.Pointer[[]string]
	waits.Store(&[]string{"row a", "row b"})
	condition := func() hive.ConditionOut {
		return hive.NewCondition("routes", func() []string { return *waits.Load() })
	}
	during := make(chan string, 1)
	h := newHive(t, "", inherited(l), metrics.Cell(""), cell.Provide(condition), cell.Invoke(func(lc cell.Lifecycle) {
		lc.Append(cell.Hook{OnStart: func(context.Context) error { _, body := get(t, l, "/readyz"); during <- body; return nil }})
	}))
	start(t, h)
	if got, want := <-during, "not ready, waiting for:\nstart of the hive\nroutes: row a\nroutes: row b\n"; got != want {
		t.Errorf("while it starts: got %q", got)
	}
	if status, body := get(t, l, "/readyz"); status != http.StatusServiceUnavailable || body != "not ready, waiting for:\nroutes: row a\nroutes: row b\n" {
		t.Errorf("got %d %q", status, body)
	}
	for _, now := range [][]string{nil, {"row c"}} {
		waits.Store(&now)
		if status, body := get(t, l, "/readyz"); status != http.StatusOK || body != "ok\n" {
			t.Errorf("got %d %q", status, body)
		}
	}
}

func TestHealthzIsNotAboutHealth(t *testing.T) {
	l := listen(t)
	start(t, newHive(t, "", inherited(l), metrics.Cell(""), cell.Invoke(func(h health.Health) { h.Degraded("all is lost", nil) })))
	if status, body := get(t, l, "/healthz"); status != http.StatusOK || body != "ok\n" {
		t.Errorf("got %d %q", status, body)
	}
}

func TestJobsAndHealthAreMetrics(t *testing.T) {
	l := listen(t)
	var gatherer prometheus.Gatherer
	ran := make(chan struct{})
	start(t, newHive(t, "", inherited(l), metrics.Cell(""), cell.Invoke(func(g prometheus.Gatherer) { gatherer = g }),
		cell.Module("m", "", cell.Invoke(func(g job.Group) error {
			return g.Add(job.OneShot("fails", func(context.Context, health.Health) error { return errors.New("no") },
				job.WithOnFailure(func(error) { close(ran) })))
		}))))
	<-ran
	problems, err := testutil.GatherAndLint(gatherer)
	if err != nil || len(problems) > 0 {
		t.Errorf("got %v %v", problems, err)
	}
	_, body := get(t, l, "/metrics")
	for _, want := range []string{
		`statehive_job_runs_total{job="fails",module_id="m"} 1`, `statehive_job_failures_total{job="fails",module_id="m"} 1`,
		`statehive_job_running{job="serve",module_id="metrics"} 1`, `statehive_health_parts{level="Degraded"} 1`,
	} {
		if !strings.Contains(body, want+"\n") {
			t.Errorf("no %s", want)
		}
	}
}

func TestRequestsMustNameThisMachine(t *testing.T) {
	name, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for hosts, want := range map[string]map[string]int{
		"": {
			"evil.example": 403, "evil.example:9464": 403, "127.0.0.1.evil.example": 403, "localhost.evil.example": 403,
			"localhost..": 403, "localhost,evil.example": 403, "loc%61lhost": 403, "127.1": 403, "2130706433": 403, "127.0.0.1:80:80": 403, "[[::1]]": 403,
			"localhost": 200, "LOCALHOST:9464": 200, "localhost.": 200, "127.0.0.1:9464": 200, "[::1]:9464": 200, "[::1]": 200, "192.0.2.1": 200,
			name: 200, strings.ToUpper(name) + ":9464": 200, name + ".example": 403,
		},
		"node1.example,Node2": {"node1.example": 200, "node2:9464": 200, "evil.example": 403, "localhost": 200},
		"*":                   {"evil.example": 200},
	} {
		l := listen(t)
		h, err := hive.New(hive.Options{
			Name: "test", Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
			LookupEnv: func(name string) (string, bool) { return hosts, name == "TEST_METRICS_HOSTS" && hosts != "" },
		}, metrics.Cell(""), cell.Supply(metrics.Listener{Listener: l}))
		if err != nil {
			t.Fatal(err)
		}
		start(t, h)
		for host, status := range want {
			for _, path := range []string{"/metrics", "/healthz"} {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+l.Addr().String()+path, nil)
				if err != nil {
					t.Fatal(err)
				}
				req.Host = host
				client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
				resp, err := client.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				_ = resp.Body.Close()
				if resp.StatusCode != status {
					t.Errorf("hosts %q, %s of %q: status %d, expected %d", hosts, path, host, resp.StatusCode, status)
				}
			}
		}
	}
}
