// Package applications compares hives with applications of go.uber.org/fx: the same modules, built, started and stopped.
//
//	go test -run - -bench . -count 7 ./applications
package applications

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"testing"

	"go.uber.org/dig"
	"go.uber.org/fx"

	"github.com/statehive/statehive/hive"
	"github.com/statehive/statehive/hive/cell"
)

// sizes are how many modules an application has.
var sizes = []int{10, 100, 500}

// application builds, starts and stops an application, and returns what it has made.
type application func(ctx context.Context) error

// kinds are what the constructors of modules are, and who runs them.
var kinds = map[string]map[string]func(n int) application{
	"private": {"hive": privateHive, "fx": privateFx, "dig": privateDig},
	"public":  {"hive": publicHive, "fx": publicFx},
}

func BenchmarkApplication(b *testing.B) {
	for _, kind := range []string{"private", "public"} {
		for _, n := range sizes {
			for _, with := range slices.Sorted(maps.Keys(kinds[kind])) {
				b.Run(fmt.Sprintf("%s/%d/%s", kind, n, with), func(b *testing.B) {
					app := kinds[kind][with](n)
					b.ReportAllocs()
					for b.Loop() {
						if err := app(b.Context()); err != nil {
							b.Fatal(err)
						}
					}
				})
			}
		}
	}
}

func TestApplicationsRun(t *testing.T) {
	for kind, all := range kinds {
		for with, app := range all {
			if err := app(3)(t.Context()); err != nil {
				t.Errorf("%s with %s: %v", kind, with, err)
			}
		}
	}
}

func none(context.Context) error { return nil }

func runHive(ctx context.Context, cells []cell.Cell) error {
	h, err := hive.New(hive.Options{
		Name: "bench", Logger: slog.New(slog.DiscardHandler), LookupEnv: func(string) (string, bool) { return "", false },
	}, cells...)
	if err != nil {
		return err
	}
	if err := h.Start(ctx); err != nil {
		return err
	}
	return h.Stop(ctx)
}

func runFx(ctx context.Context, options []fx.Option) error {
	app := fx.New(options...)
	if err := app.Start(ctx); err != nil {
		return err
	}
	return app.Stop(ctx)
}

// private is what each module makes for itself.
type private struct{ number int }

func expect(got []int, n int) error {
	if len(got) != n {
		return fmt.Errorf("%d values in the group, expected %d", len(got), n)
	}
	return nil
}

// privateHive has modules with a private constructor, one that contributes to a group, and a hook.
func privateHive(n int) application {
	type out struct {
		cell.Out
		Number int `group:"numbers"`
	}
	type in struct {
		cell.In
		Numbers []int `group:"numbers"`
	}
	cells := make([]cell.Cell, 0, n+1)
	for i := range n {
		cells = append(cells, cell.Module(fmt.Sprintf("m%d", i), "",
			cell.ProvidePrivate(func() private { return private{i} }),
			cell.Provide(func(p private) out { return out{Number: p.number} }),
			cell.Invoke(func(_ private, l cell.Lifecycle) { l.Append(cell.Hook{OnStart: none, OnStop: none}) }),
		))
	}
	cells = append(cells, cell.Invoke(func(i in) error { return expect(i.Numbers, n) }))
	return func(ctx context.Context) error { return runHive(ctx, cells) }
}

func privateFx(n int) application {
	type out struct {
		fx.Out
		Number int `group:"numbers"`
	}
	type in struct {
		fx.In
		Numbers []int `group:"numbers"`
	}
	options := make([]fx.Option, 0, n+2)
	options = append(options, fx.NopLogger)
	for i := range n {
		options = append(options, fx.Module(fmt.Sprintf("m%d", i),
			fx.Provide(fx.Private, func() private { return private{i} }),
			fx.Provide(func(p private) out { return out{Number: p.number} }),
			fx.Invoke(func(_ private, l fx.Lifecycle) { l.Append(fx.Hook{OnStart: none, OnStop: none}) }),
		))
	}
	options = append(options, fx.Invoke(func(i in) error { return expect(i.Numbers, n) }))
	return func(ctx context.Context) error { return runFx(ctx, options) }
}

// publicHive has modules with two public constructors, of which the second needs a value of another module, and a hook.
func publicHive(n int) application {
	cells := make([]cell.Cell, 0, n)
	for i := range n {
		first, second, use := functions(i, n, func(l cell.Lifecycle) { l.Append(cell.Hook{OnStart: none, OnStop: none}) })
		cells = append(cells, cell.Module(fmt.Sprintf("m%d", i), "", cell.Provide(first, second), cell.Invoke(use)))
	}
	return func(ctx context.Context) error { return runHive(ctx, cells) }
}

func publicFx(n int) application {
	options := make([]fx.Option, 0, n+1)
	options = append(options, fx.NopLogger)
	for i := range n {
		first, second, use := functions(i, n, func(l fx.Lifecycle) { l.Append(fx.Hook{OnStart: none, OnStop: none}) })
		options = append(options, fx.Module(fmt.Sprintf("m%d", i), fx.Provide(first, second), fx.Invoke(use)))
	}
	return func(ctx context.Context) error { return runFx(ctx, options) }
}

// functions are those of module i: two constructors of types that no other module makes, and one that uses the second.
func functions[Lifecycle any](i, n int, hook func(Lifecycle)) (first, second, use any) {
	made := func(i int) reflect.Type { return reflect.ArrayOf(i, reflect.TypeFor[struct{}]()) }
	mine, neighbors, uses := made(i), made((i+1)%n), reflect.PointerTo(made(i))
	return constructor(nil, mine), constructor([]reflect.Type{mine, neighbors}, uses),
		reflect.MakeFunc(reflect.FuncOf([]reflect.Type{uses, reflect.TypeFor[Lifecycle]()}, nil, false),
			func(args []reflect.Value) []reflect.Value {
				hook(args[1].Interface().(Lifecycle))
				return nil
			}).Interface()
}

func constructor(needs []reflect.Type, makes reflect.Type) any {
	return reflect.MakeFunc(reflect.FuncOf(needs, []reflect.Type{makes}, false), func([]reflect.Value) []reflect.Value {
		return []reflect.Value{reflect.Zero(makes)}
	}).Interface()
}

// privateDig is privateFx with nothing but scopes of the container, whose cycle checks are deferred as fx does it.
func privateDig(n int) application {
	type out struct {
		dig.Out
		Number int `group:"numbers"`
	}
	type in struct {
		dig.In
		Numbers []int `group:"numbers"`
	}
	return func(context.Context) error {
		c := dig.New(dig.DeferAcyclicVerification())
		var errs []error
		scopes := make([]*dig.Scope, n)
		for i := range scopes {
			scopes[i] = c.Scope(fmt.Sprintf("m%d", i))
			errs = append(errs, scopes[i].Provide(func() private { return private{i} }),
				scopes[i].Provide(func(p private) out { return out{Number: p.number} }, dig.Export(true)))
		}
		for _, s := range scopes {
			errs = append(errs, s.Invoke(func(private) {}))
		}
		return errors.Join(append(errs, c.Invoke(func(i in) error { return expect(i.Numbers, n) }))...)
	}
}
