package metrics

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/statehive/statehive/hive/internal/guard"
)

// registerer turns a panic of a collector into an error of its registration, or into one beside the other metrics that are gathered.
type registerer struct{ registry *prometheus.Registry }

// Register implements prometheus.Registerer.
func (r registerer) Register(c prometheus.Collector) error {
	err := r.registry.Register(guarded{c})
	var already prometheus.AlreadyRegisteredError
	if errors.As(err, &already) {
		if g, ok := already.ExistingCollector.(guarded); ok {
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
func (r registerer) Unregister(c prometheus.Collector) bool { return r.registry.Unregister(guarded{c}) }

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

type guarded struct{ prometheus.Collector }

// Describe implements prometheus.Collector.
func (g guarded) Describe(ch chan<- *prometheus.Desc) {
	if err := <-guard.Go(func() error { g.Collector.Describe(ch); return nil }); err != nil {
		ch <- prometheus.NewInvalidDesc(err)
	}
}

// Collect implements prometheus.Collector.
func (g guarded) Collect(ch chan<- prometheus.Metric) {
	if m, ok := g.Collector.(prometheus.Metric); ok { // one that collects itself, such as a function
		ch <- guardedMetric{m}
		return
	}
	if err := <-guard.Go(func() error { g.Collector.Collect(ch); return nil }); err != nil {
		ch <- prometheus.NewInvalidMetric(prometheus.NewInvalidDesc(err), err)
	}
}

type guardedMetric struct{ prometheus.Metric }

// Write implements prometheus.Metric.
func (m guardedMetric) Write(to *dto.Metric) error {
	return <-guard.Go(func() error { return m.Metric.Write(to) })
}
