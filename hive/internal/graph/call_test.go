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
		for where, fn := range map[string]any{"constructor": func(*apple) {}, "function": func() { how.do() }} {
			g, err := newGraph(t, cell.Provide(func() *apple { how.do(); return nil }))
			if err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() {
				defer close(ended)
				ended <- g.Invoke(fn)
			}()
			err = <-ended
			if !errors.Is(err, how.want) {
				t.Errorf("%s in a %s from outside: got %v", name, where, err)
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

// unprintable is a setting whose default has no text.
type unprintable struct{ how func() }

// UnmarshalText implements encoding.TextUnmarshaler.
func (*unprintable) UnmarshalText([]byte) error { return nil }

// MarshalText implements encoding.TextMarshaler.
func (u unprintable) MarshalText() ([]byte, error) { u.how(); return nil, nil }

// unstringable is the same for fmt.Stringer.
type unstringable struct{ text *string }

// UnmarshalText implements encoding.TextUnmarshaler.
func (*unstringable) UnmarshalText([]byte) error { return nil }

// String implements fmt.Stringer.
func (u unstringable) String() string { return *u.text }

func TestDefaultThatCannotBePrintedDoesNoHarm(t *testing.T) {
	type config struct {
		Panics  unprintable  `flag:"panics"`
		Goexits unprintable  `flag:"goexits"`
		Nil     unstringable `flag:"nil"`
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defaults := config{Panics: unprintable{func() { panic("on purpose") }}, Goexits: unprintable{runtime.Goexit}}
		if _, err := configure(t, defaults, nil, nil); err != nil {
			t.Error(err)
		}
	}()
	<-done
}

func TestPanicOfASourceOfSettingsIsAnError(t *testing.T) {
	for name, how := range map[string]struct {
		do   func()
		want error
	}{"panic": {func() { panic(errOuch) }, cell.ErrPanic}, "Goexit": {runtime.Goexit, cell.ErrGoexit}} {
		type config struct {
			Value string `flag:"value"`
		}
		g, err := newGraph(t, cell.Config(config{}))
		if err != nil {
			t.Fatal(err)
		}
		lookup := func(string) (string, bool) { how.do(); return "", false }
		none := func(string) (string, bool) { return "", false }
		for source, from := range map[string]graph.Sources{
			"variable":    {EnvPrefix: "TEST", LookupEnv: lookup},
			"environment": {EnvPrefix: "TEST", LookupEnv: none, Environ: func() []string { how.do(); return nil }},
		} {
			if err := g.Configure(from); !errors.Is(err, how.want) {
				t.Errorf("%s of the %s: got %v", name, source, err)
			}
		}
	}
}
