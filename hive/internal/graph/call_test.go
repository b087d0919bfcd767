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

// outcome is a setting whose text says what UnmarshalText does.
type outcome struct{ text string }

// UnmarshalText implements encoding.TextUnmarshaler.
func (o *outcome) UnmarshalText(text []byte) error {
	switch o.text = string(text); o.text {
	case "panic":
		panic("on purpose")
	case "goexit":
		runtime.Goexit()
	}
	return nil
}

func TestPanicOfASettingsTypeIsAnErrorOfTheSetting(t *testing.T) {
	for text, want := range map[string]error{"panic": cell.ErrPanic, "goexit": cell.ErrGoexit} {
		type config struct {
			Outcome outcome `flag:"outcome" usage:"what happens"`
		}
		_, err := configure(t, config{}, nil, map[string]string{"TEST_OUTCOME": text})
		var refused *cell.ConfigError
		if !errors.As(err, &refused) || refused.Module != "m" || !errors.Is(err, want) {
			t.Errorf("%s: got %v", text, err)
		}
		wantError(t, err, "TEST_OUTCOME")
	}
}
