package dbcell

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/metrics"
	"github.com/statehive/statehive/statedb"
)

type metricsParams struct {
	cell.In

	DB         *statedb.DB
	Registerer prometheus.Registerer `optional:"true"`
	Prefix     metrics.Prefix        `optional:"true"`
}

func registerMetrics(p metricsParams) error {
	if p.Registerer == nil {
		return nil
	}
	if p.Prefix == "" {
		p.Prefix = metrics.DefaultPrefix
	}
	return p.Registerer.Register(newCollector(p.DB, string(p.Prefix)))
}

// collector measures all tables of one snapshot for each scrape.
type collector struct {
	db          *statedb.DB
	gauges      []gauge
	waits, hold *prometheus.Desc

	initialized, incomplete *prometheus.Desc // of sources
}

type gauge struct {
	desc  *prometheus.Desc
	value func(statedb.TableStats) float64
}

func newCollector(db *statedb.DB, prefix string) *collector {
	desc := func(name, help string, more ...string) *prometheus.Desc {
		return prometheus.NewDesc(prometheus.BuildFQName(prefix, "table", name), help, append([]string{"table"}, more...), nil)
	}
	return &collector{
		db: db,
		gauges: []gauge{
			{desc("rows", "Rows in the table."), func(s statedb.TableStats) float64 { return float64(s.Rows) }},
			{
				desc("revision", "Revision of the newest change, which is the number of changes so far."),
				func(s statedb.TableStats) float64 { return float64(s.Revision) },
			},
			{
				desc("kept_changes", "Newest changes that are kept for cursors."),
				func(s statedb.TableStats) float64 { return float64(s.Changes) },
			},
			{
				desc("kept_deletes", "Deleted rows that are kept for cursors."),
				func(s statedb.TableStats) float64 { return float64(s.Deletes) },
			},
			{desc("cursors", "Open cursors."), func(s statedb.TableStats) float64 { return float64(s.Cursors) }},
			{
				desc("cursor_lag_revisions", "Changes that the slowest cursor has not seen."),
				func(s statedb.TableStats) float64 { return float64(s.Lag) },
			},
			{
				desc("cursor_lag_seconds", "Age of the oldest change that some cursor has not seen."),
				func(s statedb.TableStats) float64 { return s.LagTime.Seconds() },
			},
		},
		waits: desc("lock_wait_seconds", "How long write transactions waited for the table's lock."),
		hold:  desc("lock_hold_seconds", "How long write transactions held the table's lock."),

		initialized: desc("source_initialized", "1 if the source of the table has delivered its first listing, else 0.", "source"),
		incomplete:  desc("source_incomplete", "1 if rows that the source should deliver may be missing from the table, else 0.", "source"),
	}
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(descs chan<- *prometheus.Desc) {
	for _, g := range c.gauges {
		descs <- g.desc
	}
	descs <- c.waits
	descs <- c.hold
	descs <- c.initialized
	descs <- c.incomplete
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	txn := c.db.ReadTxn()
	for _, t := range c.db.Tables(txn) {
		stats := t.Stats(txn)
		for _, g := range c.gauges {
			out <- prometheus.MustNewConstMetric(g.desc, prometheus.GaugeValue, g.value(stats), t.Name())
		}
		out <- histogramOf(c.waits, stats.Waits, t.Name())
		out <- histogramOf(c.hold, stats.Holds, t.Name())
		for _, s := range t.Sources(txn) {
			out <- flag(c.initialized, s.Initialized, t.Name(), s.Name)
			out <- flag(c.incomplete, s.Incomplete != "", t.Name(), s.Name)
		}
	}
}

// flag returns a gauge that is 1 if so is true, and 0 otherwise.
func flag(desc *prometheus.Desc, so bool, labels ...string) prometheus.Metric {
	value := 0.0
	if so {
		value = 1
	}
	return prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
}

func histogramOf(desc *prometheus.Desc, d statedb.Durations, table string) prometheus.Metric {
	buckets := make(map[float64]uint64, len(d.Within))
	for bound, count := range d.Within {
		buckets[float64(bound)/float64(time.Second)] = count
	}
	return prometheus.MustNewConstHistogram(desc, d.Count, d.Sum.Seconds(), buckets, table)
}
