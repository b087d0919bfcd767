package hive_test

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"testing"

	"github.com/statehive/statehive/hive"
	"github.com/statehive/statehive/hive/cell"
)

type (
	pluginOut struct {
		cell.Out
		Plugin int `group:"plugins"`
	}
	pluginIn struct {
		cell.In
		Plugins []int `group:"plugins"`
	}
)

// modules are n modules, each with a private and a public constructor, an invoked function and a hook.
func modules(n int) []cell.Cell {
	type private struct{ id cell.ModuleID }
	none := func(context.Context) error { return nil }
	cells := make([]cell.Cell, 0, n+1)
	for i := range n {
		cells = append(cells, cell.Module(fmt.Sprintf("m%d", i), "",
			cell.ProvidePrivate(func(id cell.ModuleID) private { return private{id} }),
			cell.Provide(func(private) pluginOut { return pluginOut{Plugin: i} }),
			cell.Invoke(func(_ private, l cell.Lifecycle) { l.Append(cell.Hook{OnStart: none, OnStop: none}) }),
		))
	}
	return append(cells, cell.Invoke(func(p pluginIn) error {
		if len(p.Plugins) != n {
			return fmt.Errorf("got %d plugins", len(p.Plugins))
		}
		return nil
	}))
}

// startAndStop makes a hive, starts and stops it.
func startAndStop(ctx context.Context, cells []cell.Cell) error {
	h, err := hive.New(hive.Options{
		Name: "bench", Logger: slog.New(slog.DiscardHandler), LookupEnv: func(string) (string, bool) { return "", false },
	}, cells...)
	if err != nil {
		return err
	}
	if err := h.Start(ctx); err != nil {
		return err
	}
	return h.Stop(context.WithoutCancel(ctx))
}

// BenchmarkStartAndStop builds, starts and stops hives of modules.
func BenchmarkStartAndStop(b *testing.B) {
	for _, n := range []int{50, 500, 2000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			cells := modules(n)
			b.ReportAllocs()
			for b.Loop() {
				if err := startAndStop(b.Context(), cells); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/float64(n), "µs/module")
		})
	}
}

// allocated is how many bytes a start and stop with n modules needs, for each.
func allocated(t *testing.T, n int) float64 {
	t.Helper()
	cells := modules(n)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if err := startAndStop(t.Context(), cells); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	return float64(after.TotalAlloc-before.TotalAlloc) / float64(n)
}

// Memory stands for time here, which no test can rely on: what grows faster than the graph fills maps and lists.
func TestModuleCostsNoMoreInALargeHive(t *testing.T) {
	allocated(t, 50) // what is made once for all
	if few, many := allocated(t, 50), allocated(t, 800); many > 1.2*few {
		t.Errorf("a module of 50 costs %.0f bytes, one of 800 costs %.0f", few, many)
	}
}
