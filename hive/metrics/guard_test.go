package metrics_test

import (
	"errors"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

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

func TestCollectorThatHangsIsAnErrorBesideOtherMetrics(t *testing.T) {
	for _, kind := range []string{"collect", "function"} {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var calls atomic.Int32
				release := make(chan struct{})
				wait := func() { calls.Add(1); <-release }
				var c prometheus.Collector = collector{func() {}, wait}
				if kind == "function" {
					c = prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "mine", Help: "hangs"}, func() float64 { wait(); return 7 })
				}
				var gatherer prometheus.Gatherer
				h := newHive(t, "", metrics.Cell(""), cell.Invoke(func(r prometheus.Registerer, g prometheus.Gatherer) error {
					gatherer = g
					return r.Register(c)
				}))
				start(t, h)
				for range 3 {
					families, err := gatherer.Gather()
					if !errors.Is(err, cell.ErrOverdue) || len(families) == 0 || calls.Load() != 1 {
						t.Errorf("%d families, error %v, %d calls", len(families), err, calls.Load())
					}
				}
				close(release)
				synctest.Wait()
				if _, err := gatherer.Gather(); err != nil || calls.Load() != 2 {
					t.Errorf("after its call has returned: error %v, %d calls", err, calls.Load())
				}
			})
		})
	}
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
