package reconcilercell

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/metrics"
	"github.com/statehive/statehive/reconciler"
)

// collectors are the metrics of all reconcilers of a hive.
type collectors struct {
	fullDuration, incrementalDuration *prometheus.HistogramVec
	full, fullErrors, fullOutOfSync   *prometheus.CounterVec
	incremental, incrementalErrors    *prometheus.CounterVec
	incrementalErrorsCurrent          *prometheus.GaugeVec
}

type metricsParams struct {
	cell.In

	Registerer prometheus.Registerer `optional:"true"`
	Prefix     metrics.Prefix        `optional:"true"`
}

// newCollectors registers the metrics; without a registry in the hive they
// count for nobody.
func newCollectors(p metricsParams) (*collectors, error) {
	if p.Prefix == "" {
		p.Prefix = metrics.DefaultPrefix
	}
	labels := []string{"module_id", "reconciler"}
	counter := func(name, help string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: string(p.Prefix), Subsystem: "reconciler", Name: name, Help: help,
		}, labels)
	}
	histogram := func(name, help string, buckets []float64) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: string(p.Prefix), Subsystem: "reconciler", Name: name, Help: help, Buckets: buckets,
		}, labels)
	}
	c := &collectors{
		fullDuration: histogram("full_duration_seconds", "Duration of full passes.",
			prometheus.ExponentialBuckets(0.001, 4, 10)), // to 262 s
		full:          counter("full_total", "Full passes that have ended."),
		fullErrors:    counter("full_errors_total", "Operations of full passes that failed."),
		fullOutOfSync: counter("full_out_of_sync_total", "Rows that a full pass found out of sync with the target, and surplus that it removed."),
		incrementalDuration: histogram("incremental_duration_seconds", "Duration of operations on rows that were not done.",
			prometheus.ExponentialBuckets(0.00001, 4, 12)), // 10 µs to 42 s
		incremental:       counter("incremental_total", "Operations on rows that were not done."),
		incrementalErrors: counter("incremental_errors_total", "Operations on rows that were not done, and failed."),
		incrementalErrorsCurrent: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: string(p.Prefix), Subsystem: "reconciler", Name: "incremental_errors_current",
			Help: "Rows in error, failed deletes included.",
		}, labels),
	}
	return c, c.register(p.Registerer)
}

func (c *collectors) register(registerer prometheus.Registerer) error {
	if registerer == nil {
		return nil
	}
	var errs []error
	for _, collector := range []prometheus.Collector{
		c.fullDuration, c.full, c.fullErrors, c.fullOutOfSync,
		c.incrementalDuration, c.incremental, c.incrementalErrors, c.incrementalErrorsCurrent,
	} {
		errs = append(errs, registerer.Register(collector))
	}
	return errors.Join(errs...)
}

// of returns the metrics of one reconciler. All its series exist from then on.
func (c *collectors) of(module cell.FullModuleID, name string) reconciler.Metrics {
	m, n := string(module), name
	return &reconcilerMetrics{
		fullDuration:             c.fullDuration.WithLabelValues(m, n),
		full:                     c.full.WithLabelValues(m, n),
		fullErrors:               c.fullErrors.WithLabelValues(m, n),
		fullOutOfSync:            c.fullOutOfSync.WithLabelValues(m, n),
		incrementalDuration:      c.incrementalDuration.WithLabelValues(m, n),
		incremental:              c.incremental.WithLabelValues(m, n),
		incrementalErrors:        c.incrementalErrors.WithLabelValues(m, n),
		incrementalErrorsCurrent: c.incrementalErrorsCurrent.WithLabelValues(m, n),
	}
}

type reconcilerMetrics struct {
	fullDuration, incrementalDuration prometheus.Observer
	full, fullErrors, fullOutOfSync   prometheus.Counter
	incremental, incrementalErrors    prometheus.Counter
	incrementalErrorsCurrent          prometheus.Gauge
}

func (m *reconcilerMetrics) Incremental(took time.Duration, err error) {
	m.incremental.Inc()
	m.incrementalDuration.Observe(took.Seconds())
	if err != nil {
		m.incrementalErrors.Inc()
	}
}

func (m *reconcilerMetrics) FullPass(took time.Duration) {
	m.full.Inc()
	m.fullDuration.Observe(took.Seconds())
}

func (m *reconcilerMetrics) FullError()          { m.fullErrors.Inc() }
func (m *reconcilerMetrics) OutOfSync()          { m.fullOutOfSync.Inc() }
func (m *reconcilerMetrics) ErrorsCurrent(n int) { m.incrementalErrorsCurrent.Set(float64(n)) }
