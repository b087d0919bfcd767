package graph_test

import (
	"errors"
	"runtime"
	"slices"
	"testing"

	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/internal/graph"
)

var errOuch = errors.New("ouch")

// badConfig is a configuration whose validation does not return.
type badConfig struct {
	Value string `flag:"value"`
	how   func()
}

func (c badConfig) Validate() error { c.how(); return nil }

func TestPanicAndEndOfGoroutineOfAnyFunctionAreItsErrors(t *testing.T) {
	for name, how := range map[string]struct {
		do   func()
		want error
	}{"panic": {func() { panic(errOuch) }, cell.ErrPanic}, "Goexit": {runtime.Goexit, cell.ErrGoexit}} {
		for where, c := range map[string]cell.Cell{
			"constructor": cell.Group(cell.Provide(func() *apple { how.do(); return nil }), cell.Invoke(func(*apple) {})),
			"invoke":      cell.Invoke(func() { how.do() }),
			"decorator": cell.Group(cell.Provide(newApple), cell.Decorate(func(*apple) *apple { how.do(); return nil }),
				cell.Invoke(func(*apple) {})),
		} {
			err := construct(t, cell.Module("m", "", c))
			var build *cell.BuildError
			if !errors.Is(err, how.want) || !errors.As(err, &build) || build.Module != "m" || name == "panic" && !errors.Is(err, errOuch) {
				t.Errorf("%s in a %s: got %v", name, where, err)
			}
			wantError(t, err, "call_test.go:")
		}
		err := construct(t, cell.Module("m", "", cell.Config(badConfig{how: how.do})))
		var config *cell.ConfigError
		if !errors.Is(err, how.want) || !errors.As(err, &config) || config.Module != "m" {
			t.Errorf("%s in a validation: got %v", name, err)
		}
	}
}

func TestInterruptedConstructionCallsNothingElse(t *testing.T) {
	stop := errors.New("that is enough")
	var g *graph.Graph
	var calls []string
	g, err := newGraph(t, cell.Module("m", "",
		cell.Invoke(func() { calls = append(calls, "first"); g.Interrupt(stop) }, func() { calls = append(calls, "second") })))
	if err != nil {
		t.Fatal(err)
	}
	err = g.Construct()
	if wantError(t, err, `module "m"`, "not called", "call_test.go:"); !errors.Is(err, stop) || !slices.Equal(calls, []string{"first"}) {
		t.Errorf("got %v, %v", err, calls)
	}
}
