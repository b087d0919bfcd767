package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/statehive/statehive/hive"
	"github.com/statehive/statehive/hive/cell"
)

// hooksCollector reports how long the hooks of each module took.
type hooksCollector struct {
	inspector hive.Inspector

	start, stop *prometheus.Desc
}

func registerHooks(r prometheus.Registerer, p Prefix, i hive.Inspector) error {
	labels := []string{"module_id"}
	return r.Register(&hooksCollector{
		inspector: i,
		start:     prometheus.NewDesc(string(p)+"_start_duration_seconds", "How long the start hooks of a module took, so far, with those of its sub-lifecycles when they were started last.", labels, nil),
		stop:      prometheus.NewDesc(string(p)+"_stop_duration_seconds", "How long the stop hooks of a module took, so far, with those of its sub-lifecycles since they were started last.", labels, nil),
	})
}

// Describe implements prometheus.Collector.
func (c *hooksCollector) Describe(to chan<- *prometheus.Desc) {
	to <- c.start
	to <- c.stop
}

// Collect implements prometheus.Collector.
func (c *hooksCollector) Collect(to chan<- prometheus.Metric) {
	start, stop := make(map[cell.FullModuleID]time.Duration), make(map[cell.FullModuleID]time.Duration)
	for _, h := range c.inspector.Hooks() {
		start[h.Module] += h.Start
		stop[h.Module] += h.Stop
	}
	for id := range start {
		to <- prometheus.MustNewConstMetric(c.start, prometheus.GaugeValue, start[id].Seconds(), string(id))
		to <- prometheus.MustNewConstMetric(c.stop, prometheus.GaugeValue, stop[id].Seconds(), string(id))
	}
}
