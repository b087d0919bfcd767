package metrics_test

import (
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/metrics"
)

// collector is what a user writes.
type collector struct{ describe, collect func() }

func (c collector) Describe(chan<- *prometheus.Desc) { c.describe() }
func (c collector) Collect(chan<- prometheus.Metric) { c.collect() }

func TestPanicOfACollectorIsAnErrorBesideOtherMetrics(t *testing.T) {
	fine, broken := func() {}, func() { panic("on purpose") }
	gauge := prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "mine", Help: "breaks"}, func() float64 { panic("on purpose") })
	for name, test := range map[string]struct {
		collector prometheus.Collector
		want      error
	}{
		"collect":  {collector{fine, broken}, cell.ErrPanic},
		"function": {gauge, cell.ErrPanic},
		"goexit":   {collector{fine, runtime.Goexit}, cell.ErrGoexit},
	} {
		t.Run(name, func(t *testing.T) {
			var gatherer prometheus.Gatherer
			h := newHive(t, "", metrics.Cell(""), cell.Invoke(func(r prometheus.Registerer, g prometheus.Gatherer) error {
				gatherer = g
				return r.Register(test.collector)
			}))
			start(t, h)
			families, err := gatherer.Gather()
			if !errors.Is(err, test.want) || len(families) == 0 {
				t.Errorf("%d families, error %v", len(families), err)
			}
		})
	}
	t.Run("describe", func(t *testing.T) {
		h := newHive(t, "", metrics.Cell(""), cell.Invoke(func(r prometheus.Registerer) error {
			return r.Register(collector{broken, fine})
		}))
		if err := h.Start(t.Context()); !errors.Is(err, cell.ErrPanic) {
			t.Errorf("registered: %v", err)
		}
	})
}

func TestCollectorThatIsThereAlreadyIsReturnedAsItWas(t *testing.T) {
	h := newHive(t, "", metrics.Cell(""), cell.Invoke(func(r prometheus.Registerer) {
		first := prometheus.NewCounter(prometheus.CounterOpts{Name: "mine", Help: "counts"})
		second := prometheus.NewCounter(prometheus.CounterOpts{Name: "mine", Help: "counts"})
		r.MustRegister(first)
		var already prometheus.AlreadyRegisteredError
		if err := r.Register(second); !errors.As(err, &already) || already.ExistingCollector != prometheus.Collector(first) {
			t.Errorf("registered: %v", err)
		}
		if !r.Unregister(second) || r.Unregister(first) {
			t.Error("not unregistered once")
		}
	}))
	start(t, h)
}

func TestErrorsOfSeveralCollectorsAreAllFound(t *testing.T) {
	var gatherer prometheus.Gatherer
	h := newHive(t, "", metrics.Cell(""), cell.Invoke(func(r prometheus.Registerer, g prometheus.Gatherer) error {
		gatherer = g
		fine := func() {}
		return errors.Join(r.Register(&collector{fine, func() { panic("on purpose") }}), r.Register(&collector{fine, runtime.Goexit}))
	}))
	start(t, h)
	families, err := gatherer.Gather()
	if !errors.Is(err, cell.ErrPanic) || !errors.Is(err, cell.ErrGoexit) || len(families) == 0 {
		t.Errorf("%d families, error %v", len(families), err)
	}
}

// Nothing gets around the guard.
func TestTheRegistryItselfIsNotOffered(t *testing.T) {
	h := newHive(t, "", metrics.Cell(""), cell.Invoke(func(*prometheus.Registry) {}))
	if err := h.Validate(); err == nil || !strings.Contains(err.Error(), "*prometheus.Registry") {
		t.Errorf("got %v", err)
	}
}
