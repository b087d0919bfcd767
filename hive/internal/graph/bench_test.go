package graph_test

import (
	"fmt"
	"log/slog"
	"runtime"
	"testing"

	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/internal/graph"
)

// nested are n modules, each in the one before it, that decorate the logger. The innermost one uses it.
func nested(n int, calls *int) cell.Cell {
	inner := cell.Invoke(func(*slog.Logger) {})
	for range n {
		inner = cell.Module("m", "", inner, cell.Decorate(func(l *slog.Logger) *slog.Logger { *calls++; return l }))
	}
	return inner
}

func constructNested(n int, c cell.Cell) error {
	g, err := graph.New(graph.Options{Name: "test", Logger: slog.New(slog.DiscardHandler)}, c)
	if err != nil {
		return fmt.Errorf("%d modules: %w", n, err)
	}
	return g.Construct()
}

func BenchmarkNestedDecorators(b *testing.B) {
	for _, n := range []int{100, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			calls := 0
			c := nested(n, &calls)
			b.ReportAllocs()
			for b.Loop() {
				if err := constructNested(n, c); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// Memory stands for time here, which no test can rely on: searching through all decorators around each one fills lists.
func TestNestedDecoratorCostsNoMoreDeepDown(t *testing.T) {
	cost := func(n int) float64 {
		calls := 0
		c := nested(n, &calls)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if err := constructNested(n, c); err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		if calls != n {
			t.Errorf("%d decorators were called %d times", n, calls)
		}
		return float64(after.TotalAlloc-before.TotalAlloc) / float64(n)
	}
	cost(50) // what is made once for all
	if few, many := cost(50), cost(400); many > 1.5*few {
		t.Errorf("one of 50 costs %.0f bytes, one of 400 costs %.0f", few, many)
	}
}
