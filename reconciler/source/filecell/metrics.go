package filecell

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/metrics"
	"github.com/statehive/statehive/reconciler/source/file"
	"github.com/statehive/statehive/statedb"
)

type metricsParams struct {
	cell.In

	DB         *statedb.DB
	Documents  *statedb.Table[file.Document]
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
	return p.Registerer.Register(newCollector(p.DB, p.Documents, string(p.Prefix)))
}

// collector counts the files of a snapshot for each scrape. It is safe for concurrent use.
type collector struct {
	db        *statedb.DB
	documents *statedb.Table[file.Document]

	files, rows, writing, refused *prometheus.Desc
}

func newCollector(db *statedb.DB, documents *statedb.Table[file.Document], prefix string) *collector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(prometheus.BuildFQName(prefix, "documents", name), help, labels, nil)
	}
	return &collector{
		db: db, documents: documents,
		files:   desc("files", "Files in the directory of documents."),
		rows:    desc("rows", "Rows in force that documents declare."),
		writing: desc("writing_files", "Files that have been open for writing or changing for long, and are not read meanwhile."),
		refused: desc("refused_files", "Files whose newest version is not in force, including the directory itself, by reason.", "reason"),
	}
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(descs chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.files, c.rows, c.writing, c.refused} {
		descs <- d
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	var n tally
	reasons := map[string]int{reasonInvalid: 0, reasonUnreadable: 0, reasonDuplicate: 0, reasonDirectory: 0}
	for d := range c.documents.All(c.db.ReadTxn()) {
		n.add(d)
		if refused(d) {
			reasons[reasonOf(d)]++
		}
	}
	gauge := func(d *prometheus.Desc, value int, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(value), labels...)
	}
	gauge(c.files, n.files)
	gauge(c.rows, n.rows)
	gauge(c.writing, n.writing)
	for reason, files := range reasons {
		gauge(c.refused, files, reason)
	}
}

// The reasons why the newest version of a file is not in force.
const (
	reasonInvalid    = "invalid"    // a document in it is invalid
	reasonUnreadable = "unreadable" // it cannot be read, or is not trusted
	reasonDuplicate  = "duplicate"  // another file has a document with the same key
	reasonDirectory  = "directory"  // it is the directory itself, which is gone, on another device, empty or cannot be listed
)

func reasonOf(d file.Document) string {
	switch {
	case isDirectory(d):
		return reasonDirectory
	case d.State == file.Duplicate:
		return reasonDuplicate
	case d.SHA256 == "":
		return reasonUnreadable
	}
	return reasonInvalid
}
