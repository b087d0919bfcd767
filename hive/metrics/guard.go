package metrics

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/internal/guard"
)

// registerer turns a panic of a collector into an error of its registration, or, like a collector that hangs, into one beside the other
// metrics that are gathered.
type registerer struct{ registry *prometheus.Registry }

// Register implements prometheus.Registerer.
func (r registerer) Register(c prometheus.Collector) error {
	err := r.registry.Register(&guarded{Collector: c})
	var already prometheus.AlreadyRegisteredError
	if errors.As(err, &already) {
		if g, ok := already.ExistingCollector.(*guarded); ok {
			already.ExistingCollector = g.Collector
		}
		already.NewCollector = c
		return already
	}
	return err
}

// MustRegister implements prometheus.Registerer.
func (r registerer) MustRegister(cs ...prometheus.Collector) {
	for _, c := range cs {
		if err := r.Register(c); err != nil {
			panic(err)
		}
	}
}

// Unregister implements prometheus.Registerer.
func (r registerer) Unregister(c prometheus.Collector) bool {
	return r.registry.Unregister(&guarded{Collector: c})
}

// gatherer joins errors so that errors.Is finds each of them, which prometheus.MultiError does not allow.
type gatherer struct{ prometheus.Gatherer }

// Gather implements prometheus.Gatherer.
func (g gatherer) Gather() ([]*dto.MetricFamily, error) {
	families, err := g.Gatherer.Gather()
	var several prometheus.MultiError
	if errors.As(err, &several) {
		err = errors.Join(several...)
	}
	return families, err
}

// limit is how long a collector may take. Scrapers usually wait for 10 seconds.
const limit = 5 * time.Second

// guarded is a collector that may panic, end its goroutine or hang.
type guarded struct {
	prometheus.Collector

	overdue atomic.Bool // a call was left behind and has not returned
}

// Describe implements prometheus.Collector.
func (g *guarded) Describe(ch chan<- *prometheus.Desc) {
	if err := <-guard.Go(func() error { g.Collector.Describe(ch); return nil }); err != nil {
		ch <- prometheus.NewInvalidDesc(err)
	}
}

// Collect implements prometheus.Collector.
func (g *guarded) Collect(ch chan<- prometheus.Metric) {
	if m, ok := g.Collector.(prometheus.Metric); ok { // one that collects itself, such as a function
		ch <- guardedMetric{m, g}
		return
	}
	metrics := make(chan prometheus.Metric)
	err := g.call(func() { g.Collector.Collect(metrics) }, metrics, ch)
	if err != nil {
		ch <- prometheus.NewInvalidMetric(prometheus.NewInvalidDesc(err), err)
	}
}

// call calls fn for a limited time and passes on its metrics. A call that is overdue is left behind, and there is no other until it
// has returned.
func (g *guarded) call(fn func(), metrics <-chan prometheus.Metric, to chan<- prometheus.Metric) error {
	if g.overdue.Load() {
		return fmt.Errorf("collector %T: not called: its last call has not returned: %w", g.Collector, cell.ErrOverdue)
	}
	done := guard.Go(func() error { fn(); return nil })
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		select {
		case m := <-metrics:
			to <- m
		case err := <-done:
			return err
		case <-timer.C:
			g.overdue.Store(true)
			go g.discard(metrics, done)
			return fmt.Errorf("collector %T: %w", g.Collector, cell.ErrOverdue)
		}
	}
}

// discard waits for an overdue call, whose metrics nobody wants.
func (g *guarded) discard(metrics <-chan prometheus.Metric, done <-chan error) {
	for {
		select {
		case <-metrics:
		case <-done: //nolint:errcheck // reported as overdue
			g.overdue.Store(false)
			return
		}
	}
}

type guardedMetric struct {
	prometheus.Metric

	guarded *guarded
}

// Write implements prometheus.Metric.
func (m guardedMetric) Write(to *dto.Metric) error {
	var w dto.Metric
	var failed error
	if err := m.guarded.call(func() { failed = m.Metric.Write(&w) }, nil, nil); err != nil {
		return err
	}
	to.Label, to.TimestampMs = w.Label, w.TimestampMs
	to.Gauge, to.Counter, to.Untyped, to.Summary, to.Histogram = w.Gauge, w.Counter, w.Untyped, w.Summary, w.Histogram
	return failed
}
