package metrics_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/metrics"
)

func TestTimesOfStartAndStopAreMetricsOfTheModule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var registry *prometheus.Registry
		takes := func(d time.Duration) func(context.Context) error {
			return func(context.Context) error { time.Sleep(d); return nil }
		}
		h := newHive(t, "", metrics.Cell(""), cell.Module("slow", "", cell.Invoke(func(r *prometheus.Registry, l cell.Lifecycle) {
			registry = r
			l.Append(cell.Hook{OnStart: takes(2 * time.Second), OnStop: takes(time.Second)})
			l.Append(cell.Hook{OnStart: takes(time.Second), OnStop: takes(3 * time.Second)})
		})))
		want := func(start, stop float64) {
			t.Helper()
			families, err := registry.Gather()
			if err != nil {
				t.Fatal(err)
			}
			got := make(map[string]float64)
			for _, f := range families {
				for _, m := range f.GetMetric() {
					if l := m.GetLabel(); len(l) == 1 && l[0].GetName() == "module_id" && l[0].GetValue() == "slow" {
						got[f.GetName()] = m.GetGauge().GetValue()
					}
				}
			}
			if len(got) != 2 || got["statehive_start_duration_seconds"] != start || got["statehive_stop_duration_seconds"] != stop {
				t.Errorf("got %v, want %v and %v", got, start, stop)
			}
		}
		if err := h.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		want(3, 0)
		if problems, err := testutil.GatherAndLint(registry); err != nil || len(problems) > 0 {
			t.Errorf("got %v %v", problems, err)
		}
		if err := h.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		want(3, 4)
	})
}
