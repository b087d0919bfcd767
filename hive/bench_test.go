package hive_test

import (
	"context"
	"fmt"
	"log/slog"
	"reflect"
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
	return append(cells, allPlugins(n))
}

// oneModule is a module with as much in it as n modules have. What is told apart by modules there is by types here.
func oneModule(n int) []cell.Cell {
	none := func(context.Context) error { return nil }
	lifecycle := reflect.TypeFor[cell.Lifecycle]()
	cells := make([]cell.Cell, 0, n)
	for i := range n {
		private := reflect.ArrayOf(i, reflect.TypeFor[struct{}]())
		build := reflect.MakeFunc(reflect.FuncOf([]reflect.Type{reflect.TypeFor[cell.ModuleID]()}, []reflect.Type{private}, false),
			func([]reflect.Value) []reflect.Value { return []reflect.Value{reflect.Zero(private)} })
		plug := reflect.MakeFunc(reflect.FuncOf([]reflect.Type{private}, []reflect.Type{reflect.TypeFor[pluginOut]()}, false),
			func([]reflect.Value) []reflect.Value { return []reflect.Value{reflect.ValueOf(pluginOut{Plugin: i})} })
		use := reflect.MakeFunc(reflect.FuncOf([]reflect.Type{private, lifecycle}, nil, false), func(args []reflect.Value) []reflect.Value {
			args[1].Interface().(cell.Lifecycle).Append(cell.Hook{OnStart: none, OnStop: none})
			return nil
		})
		cells = append(cells, cell.ProvidePrivate(build.Interface()), cell.Provide(plug.Interface()), cell.Invoke(use.Interface()))
	}
	return []cell.Cell{cell.Module("all", "", cells...), allPlugins(n)}
}

func allPlugins(n int) cell.Cell {
	return cell.Invoke(func(p pluginIn) error {
		if len(p.Plugins) != n {
			return fmt.Errorf("got %d plugins", len(p.Plugins))
		}
		return nil
	})
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
func BenchmarkStartAndStop(b *testing.B) { benchmarkStartAndStop(b, modules) }

// BenchmarkStartAndStopOfOneModule is the same with all in one module.
func BenchmarkStartAndStopOfOneModule(b *testing.B) { benchmarkStartAndStop(b, oneModule) }

func benchmarkStartAndStop(b *testing.B, contents func(n int) []cell.Cell) {
	for _, n := range []int{50, 500, 2000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			cells := contents(n)
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

// allocated is how many bytes a start and stop of n modules, or of one with as much in it, needs for each.
func allocated(t *testing.T, contents func(int) []cell.Cell, n int) float64 {
	t.Helper()
	cells := contents(n)
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
	for name, contents := range map[string]func(int) []cell.Cell{"modules": modules, "one module": oneModule} {
		allocated(t, contents, 50) // what is made once for all
		if few, many := allocated(t, contents, 50), allocated(t, contents, 800); few > 45_000 || many > 1.2*few {
			t.Errorf("%s: one of 50 costs %.0f bytes, one of 800 costs %.0f", name, few, many)
		}
	}
}
