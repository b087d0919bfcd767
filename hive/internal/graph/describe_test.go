package graph_test

import (
	"log/slog"
	"testing"

	"github.com/statehive/statehive/hive/cell"
)

// What the race detector finds here was two decorators remembered at once.
func TestGraphCanBeDescribedWhileFunctionsAreInvoked(t *testing.T) {
	cells := []cell.Cell{cell.Provide(newApple), cell.Decorate(func(l *slog.Logger) *slog.Logger { return l })}
	for _, id := range []string{"a", "b", "c", "d"} {
		cells = append(cells, cell.Module(id, "", cell.Decorate(sweet), cell.Invoke(func(*apple, *slog.Logger) {})))
	}
	for range 20 {
		g, err := newGraph(t, cells...)
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error)
		go func() { done <- g.Construct() }()
		for described := false; !described; {
			select {
			case err := <-done:
				described = true
				if err == nil {
					err = g.Invoke(func(*apple) {})
				}
				if err != nil {
					t.Error(err)
				}
			default:
			}
			for _, m := range g.Describe().Modules[1:] {
				if !m.Functions[len(m.Functions)-1].Used {
					t.Errorf("what is invoked in %s is not used", m.ID)
				}
			}
		}
	}
}
