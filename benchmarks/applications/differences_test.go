package applications

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"

	"go.uber.org/fx"

	"github.com/statehive/statehive/hive"
	"github.com/statehive/statehive/hive/cell"
)

// The table of the guide for those who come from fx says what differs. These tests hold it to that, and to what does not.

type fruit struct{ name string }

// inFx builds, starts and stops an application, and returns all errors.
func inFx(ctx context.Context, options ...fx.Option) error {
	app := fx.New(append(options, fx.NopLogger)...)
	return errors.Join(app.Start(ctx), app.Stop(ctx))
}

// inHive does the same.
func inHive(ctx context.Context, cells ...cell.Cell) error {
	h, err := hive.New(hive.Options{Name: "compared", Logger: slog.New(slog.DiscardHandler)}, cells...)
	if err != nil {
		return err
	}
	if err := h.Start(ctx); err != nil {
		return err
	}
	return h.Stop(ctx)
}

// log is what happened, in order.
type log []string

func (l *log) add(what string) func() { return func() { *l = append(*l, what) } }

func (l *log) want(t *testing.T, want ...string) {
	t.Helper()
	if !slices.Equal(*l, want) {
		t.Errorf("got %q, want %q", *l, want)
	}
}

func wantErrors(t *testing.T, fx, hive error, wantFx, wantHive bool) {
	t.Helper()
	if (fx != nil) != wantFx {
		t.Errorf("fx: %v", fx)
	}
	if (hive != nil) != wantHive {
		t.Errorf("hive: %v", hive)
	}
}

func TestOrderOfInvokedFunctions(t *testing.T) {
	var f, h log
	wantErrors(t,
		inFx(t.Context(), fx.Invoke(f.add("outer")), fx.Module("m", fx.Invoke(f.add("inner")))),
		inHive(t.Context(), cell.Invoke(h.add("outer")), cell.Module("m", "", cell.Invoke(h.add("inner")))), false, false)
	f.want(t, "inner", "outer")
	h.want(t, "outer", "inner")
}

func TestDecoratorsOfOneType(t *testing.T) {
	sweet := func(f fruit) fruit { return fruit{"sweet " + f.name} }
	var h log
	wantErrors(t,
		inFx(t.Context(), fx.Supply(fruit{"apple"}), fx.Decorate(sweet), fx.Decorate(sweet), fx.Invoke(func(fruit) {})),
		inHive(t.Context(), cell.Supply(fruit{"apple"}), cell.Decorate(sweet), cell.Decorate(sweet), cell.Invoke(func(f fruit) { h.add(f.name)() })),
		true, false)
	h.want(t, "sweet sweet apple")
	wantErrors(t, inFx(t.Context(), fx.Decorate(sweet)), inHive(t.Context(), cell.Decorate(sweet)), false, true)
}

func TestReplacedConstructorIsNotCalled(t *testing.T) {
	broken := func() (fruit, error) { return fruit{}, errors.New("rotten") }
	var f, h log
	wantErrors(t,
		inFx(t.Context(), fx.Provide(broken), fx.Replace(fruit{"fake"}), fx.Invoke(func(v fruit) { f.add(v.name)() })),
		inHive(t.Context(), cell.Provide(broken), cell.Decorate(func() fruit { return fruit{"fake"} }), cell.Invoke(func(v fruit) { h.add(v.name)() })),
		false, false)
	f.want(t, "fake")
	h.want(t, "fake")
}

func TestStopHookAfterAFailedStartHook(t *testing.T) {
	var f, h log
	fail := func(context.Context) error { return errors.New("cannot listen") }
	stop := func(l *log) func(context.Context) error {
		return func(context.Context) error { l.add("stopped")(); return nil }
	}
	wantErrors(t,
		inFx(t.Context(), fx.Invoke(func(l fx.Lifecycle) { l.Append(fx.Hook{OnStart: fail, OnStop: stop(&f)}) })),
		inHive(t.Context(), cell.Invoke(func(l cell.Lifecycle) { l.Append(cell.Hook{OnStart: fail, OnStop: stop(&h)}) })), true, true)
	f.want(t)
	h.want(t, "stopped")
}

func TestHookAppendedAfterTheStart(t *testing.T) {
	var f, h log
	var fl fx.Lifecycle
	app := fx.New(fx.NopLogger, fx.Populate(&fl))
	started := app.Start(t.Context())
	fl.Append(fx.StartStopHook(f.add("started"), f.add("stopped")))
	var hl cell.Lifecycle
	other, err := hive.New(hive.Options{Name: "compared", Logger: slog.New(slog.DiscardHandler)}, cell.Invoke(func(l cell.Lifecycle) { hl = l }))
	if err := errors.Join(err, started, other.Start(t.Context())); err != nil {
		t.Fatal(err)
	}
	hl.Append(cell.Hook{OnStart: func(context.Context) error { h.add("started")(); return nil }})
	wantErrors(t, app.Stop(t.Context()), other.Stop(t.Context()), false, true)
	f.want(t)
	h.want(t)
}

func TestModulesOfOneName(t *testing.T) {
	wantErrors(t, inFx(t.Context(), fx.Module("m"), fx.Module("m")),
		inHive(t.Context(), cell.Module("m", ""), cell.Module("m", "")), false, true)
}

func TestStructsOfParametersAreTheSame(t *testing.T) {
	type params struct {
		fx.In

		Fruit fruit `optional:"true"`
	}
	use := func(params) {}
	wantErrors(t, inFx(t.Context(), fx.Invoke(use)), inHive(t.Context(), cell.Invoke(use)), false, false)
}

func TestUnusedConstructorsAreNotValidated(t *testing.T) {
	unused := func(fruit) log { return nil }
	h, err := hive.New(hive.Options{Name: "compared"}, cell.Provide(unused))
	if err != nil {
		t.Fatal(err)
	}
	wantErrors(t, fx.ValidateApp(fx.NopLogger, fx.Provide(unused)), h.Validate(), false, false)
}
