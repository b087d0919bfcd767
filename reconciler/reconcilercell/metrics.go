package reconcilercell

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/health"
	"github.com/statehive/statehive/hive/metrics"
	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/statedb"
)

type metricsParams struct {
	cell.In

	All        *registry
	Registerer prometheus.Registerer `optional:"true"`
	Prefix     metrics.Prefix        `optional:"true"`
}

// registerMetrics registers the collector if the hive has a Prometheus registry.
func registerMetrics(p metricsParams) error {
	if p.Registerer == nil {
		return nil
	}
	if p.Prefix == "" {
		p.Prefix = metrics.DefaultPrefix
	}
	return p.Registerer.Register(newCollector(p.All, string(p.Prefix)))
}

// collector collects the stats of all reconcilers of a hive when it is scraped. It is
// safe for concurrent use.
type collector struct {
	all     *registry
	healthy *prometheus.Desc
	metrics []metric
}

// metric is a metric of reconcilers and the function that returns its series.
type metric struct {
	desc   *prometheus.Desc
	series func(desc *prometheus.Desc, s reconciler.Stats, labels []string) []prometheus.Metric
}

func newCollector(all *registry, prefix string) *collector {
	describe := func(name, help string, more ...string) *prometheus.Desc {
		labels := append([]string{"module_id", "reconciler"}, more...)
		return prometheus.NewDesc(prometheus.BuildFQName(prefix, "reconciler", name), help, labels, nil)
	}
	c := &collector{
		all:     all,
		healthy: describe("healthy", "1 if health is OK, and 0 if it is degraded or the reconciler has stopped."),
	}
	for _, family := range [][]declared{totals(), backlog(), operations()} {
		for _, d := range family {
			c.metrics = append(c.metrics, metric{describe(d.name, d.help, d.labels...), d.series})
		}
	}
	return c
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(descs chan<- *prometheus.Desc) {
	descs <- c.healthy
	for _, m := range c.metrics {
		descs <- m.desc
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	for _, i := range c.all.instances() {
		stats, labels := i.Stats(), []string{string(i.module), i.Name()}
		healthy := 0.0
		if i.health.get().level == health.OK {
			healthy = 1
		}
		out <- prometheus.MustNewConstMetric(c.healthy, prometheus.GaugeValue, healthy, labels...)
		for _, m := range c.metrics {
			for _, series := range m.series(m.desc, stats, labels) {
				out <- series
			}
		}
	}
}

// declared is a metric without its prefix.
type declared struct {
	name, help string
	labels     []string // in addition to the common ones
	series     func(desc *prometheus.Desc, s reconciler.Stats, labels []string) []prometheus.Metric
}

func totals() []declared {
	return []declared{
		histogram("incremental_duration_seconds", "Duration of operations on rows that were not done.",
			func(s reconciler.Stats) statedb.Durations { return s.Incremental }),
		counter("incremental_total", "Operations on rows that were not done.",
			func(s reconciler.Stats) uint64 { return s.Incremental.Count }),
		counter("incremental_errors_total", "Failed operations on rows that were not done.",
			func(s reconciler.Stats) uint64 { return s.IncrementalErrors }),
		counter("retries_total", "Operations that repeated a failed one.",
			func(s reconciler.Stats) uint64 { return s.Retries }),
		histogram("full_duration_seconds", "Duration of full passes.",
			func(s reconciler.Stats) statedb.Durations { return s.Full }),
		counter("full_total", "Full passes that have ended.",
			func(s reconciler.Stats) uint64 { return s.Full.Count }),
		counter("full_errors_total", "Failed operations of full passes, including searches for orphans.",
			func(s reconciler.Stats) uint64 { return s.FullErrors }),
		counter("full_out_of_sync_total", "Rows that a full pass found out of sync with the target, and orphans that it removed.",
			func(s reconciler.Stats) uint64 { return s.OutOfSync }),
		counter("drift_total", "Rows that were repaired or reported because they differed from the observed state.",
			func(s reconciler.Stats) uint64 { return s.Drift }),
		histogram("prune_duration_seconds", "Duration of the target's listings for the search for orphans, or of its own pruning.",
			func(s reconciler.Stats) statedb.Durations { return s.Prune }),
		counter("prune_errors_total", "Searches for orphans that failed.",
			func(s reconciler.Stats) uint64 { return s.PruneErrors }),
		counter("pruned_total", "Orphans that were removed from the target.",
			func(s reconciler.Stats) uint64 { return s.Pruned }),
	}
}

func backlog() []declared {
	return []declared{
		gauge("incremental_errors_current", "Rows in error, including failed deletes.",
			func(s reconciler.Stats) float64 { return float64(s.Errors) }),
		gauge("failure_reasons", "Different errors of the rows in error.",
			func(s reconciler.Stats) float64 { return float64(s.Reasons) }),
		gauge("deleting_rows", "Rows that are deleted from the table, but not yet from the target.",
			func(s reconciler.Stats) float64 { return float64(s.Deleting) }),
		gauge("drifted_rows", "Rows that are known to differ from the observed state.",
			func(s reconciler.Stats) float64 { return float64(s.Drifted) }),
		gauge("delayed_rows", "Rows that are not due yet, such as rows that wait for their next try.",
			func(s reconciler.Stats) float64 { return float64(s.Delayed) }),
		gauges("held_rows", "Rows that are held back, by reason.", "reason",
			func(s reconciler.Stats, value func(string, float64)) {
				for reason, rows := range s.Held {
					value(reason, float64(rows))
				}
			}),
		gauges("queue_depth", "Upper bound of the rows in the queue, by priority class.", "class",
			func(s reconciler.Stats, value func(string, float64)) {
				for _, class := range s.Queue {
					value(class.Class, float64(class.Depth))
				}
			}),
		gauges("queue_oldest_age_seconds", "How long the first row in the queue has been pending, by priority class.", "class",
			func(s reconciler.Stats, value func(string, float64)) {
				for _, class := range s.Queue {
					value(class.Class, class.Oldest.Seconds())
				}
			}),
	}
}

func operations() []declared {
	return []declared{
		gauge("workers", "Operations that may run concurrently.",
			func(s reconciler.Stats) float64 { return float64(s.Workers) }),
		gauge("active_workers", "Running operations, including stuck ones.",
			func(s reconciler.Stats) float64 { return float64(s.Running) }),
		gauge("stuck_operations", "Operations that have not returned long after their deadline.",
			func(s reconciler.Stats) float64 { return float64(s.Stuck) }),
		gauge("longest_running_seconds", "How long the oldest running operation has been running.",
			func(s reconciler.Stats) float64 { return s.LongestRunning.Seconds() }),
		gauge("last_success_timestamp_seconds", "When an operation last succeeded, as Unix time; 0 for never.",
			func(s reconciler.Stats) float64 {
				if s.LastSuccess.IsZero() {
					return 0
				}
				return float64(s.LastSuccess.UnixMilli()) / 1000
			}),
	}
}

func counter(name, help string, value func(reconciler.Stats) uint64) declared {
	return declared{name, help, nil, func(desc *prometheus.Desc, s reconciler.Stats, labels []string) []prometheus.Metric {
		return []prometheus.Metric{prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(value(s)), labels...)}
	}}
}

func gauge(name, help string, value func(reconciler.Stats) float64) declared {
	return declared{name, help, nil, func(desc *prometheus.Desc, s reconciler.Stats, labels []string) []prometheus.Metric {
		return []prometheus.Metric{prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value(s), labels...)}
	}}
}

// gauges is a metric with a series for each value of a label.
func gauges(name, help, label string, values func(s reconciler.Stats, value func(of string, v float64))) declared {
	return declared{name, help, []string{label}, func(desc *prometheus.Desc, s reconciler.Stats, labels []string) (all []prometheus.Metric) {
		values(s, func(of string, v float64) {
			all = append(all, prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, v, labels[0], labels[1], of))
		})
		return all
	}}
}

func histogram(name, help string, value func(reconciler.Stats) statedb.Durations) declared {
	return declared{name, help, nil, func(desc *prometheus.Desc, s reconciler.Stats, labels []string) []prometheus.Metric {
		d := value(s)
		buckets := make(map[float64]uint64, len(d.Within))
		for bound, count := range d.Within {
			buckets[float64(bound)/float64(time.Second)] = count
		}
		return []prometheus.Metric{prometheus.MustNewConstHistogram(desc, d.Count, d.Sum.Seconds(), buckets, labels...)}
	}}
}
