package metrics_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/statehive/statehive/hive"
	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/metrics"
)

func TestTimesOfPartsAreAmongThoseOfTheirModule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		takes := func(d time.Duration) func(context.Context) error {
			return func(context.Context) error { time.Sleep(d); return nil }
		}
		var gatherer prometheus.Gatherer
		var part *hive.SubLifecycle
		h := newHive(t, "", metrics.Cell(""), cell.Module("m", "", cell.Invoke(func(g prometheus.Gatherer, l cell.Lifecycle, s *hive.SubLifecycles) {
			gatherer = g
			l.Append(cell.Hook{OnStart: takes(time.Second), OnStop: takes(2 * time.Second)})
			part = s.New("p", func(_ context.Context, s hive.Scope) error {
				s.Lifecycle.Append(cell.Hook{Name: "door", OnStart: takes(4 * time.Second), OnStop: takes(8 * time.Second)})
				return nil
			})
		})))
		want := func(start, stop float64) {
			t.Helper()
			wantTimes(t, gatherer, "m", start, stop)
		}
		if err := h.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		want(1, 0)
		for range 2 { // the newest start is what counts
			if err := part.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			want(5, 0)
			if err := part.Stop(t.Context()); err != nil {
				t.Fatal(err)
			}
			want(5, 8)
		}
		if err := h.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		want(5, 10)
		i := slices.IndexFunc(h.Describe().Hooks, func(d hive.HookDescription) bool { return d.Name == "door" })
		if door := h.Describe().Hooks[i]; door.Part != "p" || door.Module != "m" || door.State != "stopped" {
			t.Errorf("got %+v", door)
		}
	})
}

// wantTimes fails unless the hooks of a module took so many seconds.
func wantTimes(t *testing.T, g prometheus.Gatherer, module string, start, stop float64) {
	t.Helper()
	families, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]float64)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if l := m.GetLabel(); len(l) == 1 && l[0].GetName() == "module_id" && l[0].GetValue() == module {
				got[f.GetName()] = m.GetGauge().GetValue()
			}
		}
	}
	if len(got) != 2 || got["statehive_start_duration_seconds"] != start || got["statehive_stop_duration_seconds"] != stop {
		t.Errorf("got %v, want %v and %v", got, start, stop)
	}
}

func TestTimesOfStartAndStopAreMetricsOfTheModule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var registry prometheus.Gatherer
		takes := func(d time.Duration) func(context.Context) error {
			return func(context.Context) error { time.Sleep(d); return nil }
		}
		h := newHive(t, "", metrics.Cell(""), cell.Module("slow", "", cell.Invoke(func(r prometheus.Gatherer, l cell.Lifecycle) {
			registry = r
			l.Append(cell.Hook{OnStart: takes(2 * time.Second), OnStop: takes(time.Second)})
			l.Append(cell.Hook{OnStart: takes(time.Second), OnStop: takes(3 * time.Second)})
		})))
		want := func(start, stop float64) {
			t.Helper()
			wantTimes(t, registry, "slow", start, stop)
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
