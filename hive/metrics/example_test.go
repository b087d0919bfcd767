package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/statehive/statehive/hive"
	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/metrics"
)

// newMeasured registers a counter. With metrics.Cell("dirsizes"), it is dirsizes_measured_files_total.
func newMeasured(r prometheus.Registerer, prefix metrics.Prefix) (prometheus.Counter, error) {
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: string(prefix) + "_measured_files_total", Help: "Files measured."})
	return c, r.Register(c)
}

func ExampleCell() {
	h, err := hive.New(hive.Options{
		Name: "dirsizes", Logger: slog.New(slog.DiscardHandler),
		LookupEnv: func(name string) (string, bool) { return "", name == "DIRSIZES_METRICS_ADDRESS" }, // no server
	},
		metrics.Cell("dirsizes"),
		cell.Module("scan", "sizes of directories",
			cell.ProvidePrivate(newMeasured),
			cell.Invoke(func(measured prometheus.Counter) { measured.Add(3) }),
		),
	)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	err = errors.Join(h.Start(ctx), h.Invoke(func(g prometheus.Gatherer) error {
		families, err := g.Gather()
		for _, f := range families {
			if f.GetName() == "dirsizes_measured_files_total" {
				fmt.Println(f.GetName(), f.GetMetric()[0].GetCounter().GetValue())
			}
		}
		return err
	}), h.Stop(ctx))
	if err != nil {
		fmt.Println(err)
	}
	// Output: dirsizes_measured_files_total 3
}
