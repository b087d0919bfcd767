package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/statehive/statehive/hive/health"
	"github.com/statehive/statehive/hive/job"
	"github.com/statehive/statehive/statedb"
)

// partsCollector counts the rows of the tables of jobs and of health when it is scraped.
type partsCollector struct {
	db     *statedb.DB
	jobs   *statedb.Table[job.Status]
	health *statedb.Table[health.Status]

	runs, failures, took, running, parts *prometheus.Desc
}

func newPartsCollector(prefix Prefix, db *statedb.DB, jobs *statedb.Table[job.Status], table *statedb.Table[health.Status]) *partsCollector {
	labels := []string{"module_id", "job"}
	name := func(s string) string { return string(prefix) + "_" + s }
	return &partsCollector{
		db: db, jobs: jobs, health: table,
		runs:     prometheus.NewDesc(name("job_runs_total"), "Runs of a job that have ended.", labels, nil),
		failures: prometheus.NewDesc(name("job_failures_total"), "Runs of a job that have ended in an error.", labels, nil),
		took:     prometheus.NewDesc(name("job_last_run_duration_seconds"), "How long the last run of a job took.", labels, nil),
		running:  prometheus.NewDesc(name("job_running"), "Whether a job is running now.", labels, nil),
		parts:    prometheus.NewDesc(name("health_parts"), "Parts by their level of health.", []string{"level"}, nil),
	}
}

func (c *partsCollector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.runs, c.failures, c.took, c.running, c.parts} {
		to <- d
	}
}

func (c *partsCollector) Collect(to chan<- prometheus.Metric) {
	txn := c.db.ReadTxn()
	for s := range c.jobs.All(txn) {
		value := func(d *prometheus.Desc, kind prometheus.ValueType, v float64) {
			to <- prometheus.MustNewConstMetric(d, kind, v, string(s.Module), s.Name)
		}
		running := 0.0
		if s.State == job.Running {
			running = 1
		}
		value(c.runs, prometheus.CounterValue, float64(s.Runs))
		value(c.failures, prometheus.CounterValue, float64(s.Failures))
		value(c.took, prometheus.GaugeValue, s.Duration.Seconds())
		value(c.running, prometheus.GaugeValue, running)
	}
	levels := map[health.Level]int{health.OK: 0, health.Degraded: 0, health.Stopped: 0}
	for s := range c.health.All(txn) {
		levels[s.Level]++
	}
	for level, n := range levels {
		to <- prometheus.MustNewConstMetric(c.parts, prometheus.GaugeValue, float64(n), level.String())
	}
}

func registerParts(r prometheus.Registerer, p Prefix, db *statedb.DB, jobs *statedb.Table[job.Status], table *statedb.Table[health.Status]) error {
	return r.Register(newPartsCollector(p, db, jobs, table))
}
