package noop

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics is what a reconciler of ours costs in counters.
type metrics struct {
	operations, errors prometheus.Counter
	took               prometheus.Histogram
}

func newMetrics() metrics {
	return metrics{
		operations: prometheus.NewCounter(prometheus.CounterOpts{Name: "operations_total"}),
		errors:     prometheus.NewCounter(prometheus.CounterOpts{Name: "errors_total"}),
		took:       prometheus.NewHistogram(prometheus.HistogramOpts{Name: "duration_seconds"}),
	}
}

func (m metrics) Incremental(took time.Duration, err error) {
	m.operations.Inc()
	m.took.Observe(took.Seconds())
	if err != nil {
		m.errors.Inc()
	}
}

func (metrics) FullPass(time.Duration) {}
func (metrics) FullError()             {}
func (metrics) OutOfSync()             {}
func (metrics) ErrorsCurrent(int)      {}
