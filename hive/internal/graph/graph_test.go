package graph_test

import (
	"bytes"
	"errors"
	"log/slog"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/internal/graph"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type (
	apple  struct{ from string }
	banana struct{}
	cherry struct{}
)

func newApple() *apple               { return &apple{from: "public"} }
func newBanana(*apple) *banana       { return &banana{} }
func newCherry(*banana) *cherry      { return &cherry{} }
func needBanana(*banana)             {}
func bananaOfCherry(*cherry) *banana { return &banana{} }

func newGraph(t *testing.T, cells ...cell.Cell) (*graph.Graph, error) {
	t.Helper()
	return graph.New(graph.Options{Name: "test", Logger: slog.New(slog.NewTextHandler(t.Output(), nil))}, cells...)
}

// construct configures without an environment and constructs.
func construct(t *testing.T, cells ...cell.Cell) error {
	t.Helper()
	g, err := newGraph(t, cells...)
	if err != nil {
		return err
	}
	if err := g.Configure(sources(nil)); err != nil {
		return err
	}
	return g.Construct()
}

func wantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one with %q", parts)
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("error %q does not contain %q", err, p)
		}
	}
}

func TestPublicValueIsSeenByOtherModules(t *testing.T) {
	var got *apple
	err := construct(t,
		cell.Module("user", "", cell.Invoke(func(a *apple) { got = a })),
		cell.Module("maker", "", cell.Module("inner", "", cell.Provide(newApple))),
	)
	if err != nil || got == nil {
		t.Fatalf("got %v, %v", got, err)
	}
}

func TestPrivateValueIsSeenOnlyBelowItsModule(t *testing.T) {
	var got *apple
	nested := cell.Module("nested", "", cell.Invoke(func(a *apple) { got = a }))
	if err := construct(t, cell.Module("maker", "", nested, cell.ProvidePrivate(newApple))); err != nil || got == nil {
		t.Errorf("nested module: got %v, %v", got, err)
	}
	err := construct(t,
		cell.Module("maker", "", cell.ProvidePrivate(newApple)),
		cell.Module("other", "", cell.Invoke(func(*apple) {})),
	)
	wantError(t, err, `module "other" (graph/graph_test.go:`, "missing type *graph_test.apple", `it is private to module "maker"`)
}

func TestPrivateValueHidesPublicOne(t *testing.T) {
	var inside, outside *apple
	err := construct(t,
		cell.Provide(newApple),
		cell.Module("m", "",
			cell.ProvidePrivate(func() *apple { return &apple{from: "private"} }),
			cell.Invoke(func(a *apple) { inside = a })),
		cell.Invoke(func(a *apple) { outside = a }),
	)
	if err != nil || inside.from != "private" || outside.from != "public" {
		t.Fatalf("inside %v, outside %v, %v", inside, outside, err)
	}
}

func TestPublicConstructorUsesPrivateValuesOfItsModule(t *testing.T) {
	err := construct(t,
		cell.Module("m", "", cell.ProvidePrivate(newApple), cell.Provide(newBanana)),
		cell.Module("user", "", cell.Invoke(needBanana)),
	)
	if err != nil {
		t.Fatal(err)
	}
}

func TestModuleHasItsOwnIDsAndLogger(t *testing.T) {
	var ids []string
	note := func(id cell.ModuleID, full cell.FullModuleID, l *slog.Logger) {
		ids = append(ids, string(id)+" "+string(full))
		l.Info("hello")
	}
	var log bytes.Buffer
	g, err := graph.New(graph.Options{Name: "app", Logger: slog.New(slog.NewTextHandler(&log, nil))},
		cell.Invoke(note),
		cell.Module("agent", "", cell.Group(cell.Module("route", "", cell.Invoke(note)))),
	)
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Construct(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"app app", "route agent.route"}, ids); diff != "" {
		t.Error(diff)
	}
	if !strings.Contains(log.String(), "module=agent.route") {
		t.Errorf("log without the module: %s", log.String())
	}
}

func TestConstructorsAreLazyAndCalledOnce(t *testing.T) {
	var calls []string
	err := construct(t,
		cell.Provide(func() *apple { calls = append(calls, "apple"); return &apple{} }),
		cell.Provide(func(*apple) *banana { calls = append(calls, "banana"); return &banana{} }),
		cell.Provide(func() *cherry { calls = append(calls, "cherry"); return &cherry{} }),
		cell.Invoke(func(*banana) { calls = append(calls, "first") }, func(*banana, *apple) { calls = append(calls, "second") }),
	)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"apple", "banana", "first", "second"}, calls); diff != "" {
		t.Error(diff)
	}
}

func TestMissingInterfaceNamesWhatImplementsIt(t *testing.T) {
	type namer interface{ Name() string }
	err := construct(t,
		cell.Module("route", "", cell.ProvidePrivate(func() reflect.Type { return nil }), cell.Invoke(func(namer) {})),
	)
	wantError(t, err, "missing type graph_test.namer (its constructor has to return that type: there is a reflect.Type of graph_test.TestMissing")
}

func TestMissingTypesAreAllNamedWithWhoNeedsThem(t *testing.T) {
	called := false
	err := construct(t,
		cell.Provide(func() *apple { called = true; return nil }),
		cell.Module("route", "", cell.Provide(newCherry), cell.Invoke(func(*apple) { called = true }, func(*cherry) {})),
		cell.Invoke(func(apple) {}),
	)
	wantError(t, err,
		`module "route" (graph/graph_test.go:`, "provide graph_test.newCherry (graph/graph_test.go:", "missing type *graph_test.banana",
		"needed by graph_test.TestMissingTypes",
		`hive "test": invoke graph_test.TestMissing`, "missing type graph_test.apple (there is a *graph_test.apple of graph_test.TestMissingTypes")
	var graph *cell.GraphError
	if !errors.As(err, &graph) {
		t.Errorf("%T is not a GraphError", err)
	}
	if called {
		t.Error("something was constructed although types are missing")
	}
}

func TestMissingTypeIsNamedOnceHoweverManyNeedIt(t *testing.T) {
	err := construct(t, cell.Provide(newBanana, newCherry), cell.Invoke(needBanana, needBanana, func(*cherry, *banana) {}))
	if n := strings.Count(err.Error(), "missing type"); n != 1 {
		t.Errorf("named %d times: %v", n, err)
	}
}

func TestCycleIsNamed(t *testing.T) {
	err := construct(t, cell.Provide(newCherry, bananaOfCherry), cell.Invoke(func(*cherry) {}))
	wantError(t, err, "needs itself", "graph_test.newCherry", "graph_test.bananaOfCherry")
}

// The container looks for cycles as each scope sees the graph, and would overflow the stack here.
func TestCycleThroughPrivateValuesOfTwoModulesIsFound(t *testing.T) {
	type p1 int
	type p2 int
	err := construct(t,
		cell.Module("one", "", cell.ProvidePrivate(func(*banana) p1 { return 0 }), cell.Provide(func(p1) *apple { return nil })),
		cell.Module("two", "", cell.ProvidePrivate(func(*apple) p2 { return 0 }), cell.Provide(func(p2) *banana { return nil })),
		cell.Invoke(func(*apple) {}),
	)
	wantError(t, err, "needs itself")
}

func TestFaultyCellsAreRefused(t *testing.T) {
	tests := map[string]struct {
		cells []cell.Cell
		want  []string
	}{
		"two makers": {
			[]cell.Cell{cell.Module("a", "", cell.Provide(newApple)), cell.Module("b", "", cell.Provide(newApple))},
			[]string{`module "b"`, "already made by module \"a\"", "graph_test.newApple (graph/graph_test.go:"},
		},
		"twice from one": {[]cell.Cell{cell.Provide(func() (*apple, *apple) { return nil, nil })}, []string{"*graph_test.apple twice"}},
		"not a function": {[]cell.Cell{cell.Provide(7)}, []string{"graph/graph_test.go:", "expected a function, got int"}},
		"nil":            {[]cell.Cell{cell.Invoke(nil)}, []string{"expected a function"}},
		"nil cell":       {[]cell.Cell{nil}, []string{"a cell is nil"}},
		"makes nothing":  {[]cell.Cell{cell.Provide(func() error { return nil })}, []string{"makes nothing"}},
		"built in": {
			[]cell.Cell{cell.Module("a", "", cell.ProvidePrivate(func() *slog.Logger { return nil }))},
			[]string{`module "a"`, "every module has a *slog.Logger already; change it with cell.Decorate"},
		},
		"built in, for all": {
			[]cell.Cell{cell.Module("a", "", cell.Supply(slog.Default()))},
			[]string{`module "a"`, "every module has a *slog.Logger already; change it with cell.Decorate"},
		},
		"built in, for modules": {
			[]cell.Cell{cell.ProvideForModules(func() *slog.Logger { return nil })},
			[]string{"already made by hive \"test\": supply *slog.Logger (built in)"},
		},
		"error that is not last": {
			[]cell.Cell{cell.Provide(func() (error, *apple) { return nil, nil })}, //nolint:staticcheck // it is what is refused
			[]string{"provide graph_test.TestFaultyCells", "expected the error to be the last result, got func() (error, *graph_test.apple)"},
		},
		"id with a dot":      {[]cell.Cell{cell.Module("a.b", "")}, []string{`bad module id "a.b"`}},
		"same id":            {[]cell.Cell{cell.Module("a", ""), cell.Module("a", "")}, []string{`its id is already used by module "a" (graph/graph_test.go`}},
		"id of the hive":     {[]cell.Cell{cell.Module("test", "")}, []string{`module "test" (graph/graph_test.go`, `its id is already used by hive "test"`}},
		"config of a string": {[]cell.Cell{cell.Config("x")}, []string{"expected a struct, got string"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := newGraph(t, tt.cells...)
			wantError(t, err, tt.want...)
		})
	}
}

func TestMissingTypeThatASuppliedFunctionMakesHintsAtProvide(t *testing.T) {
	err := construct(t, cell.Module("m", "", cell.Supply(newApple)), cell.Invoke(func(*apple) {}))
	wantError(t, err, "missing type *graph_test.apple (there is a func() *graph_test.apple of func() *graph_test.apple (graph/graph_test.go:",
		"), supplied as a value: did you mean cell.Provide?)")
}

func TestErrorOfConstructorNamesItAndItsModule(t *testing.T) {
	broken := errors.New("broken")
	err := construct(t,
		cell.Module("route", "", cell.Provide(func() (*apple, error) { return nil, broken })),
		cell.Invoke(func(*apple) { t.Error("invoked without what it needs") }),
	)
	wantError(t, err, `module "route"`, "provide graph_test.TestErrorOfConstructor", ": broken")
	var build *cell.BuildError
	if !errors.Is(err, broken) || !errors.As(err, &build) || build.Module != "route" {
		t.Errorf("got %#v", err)
	}
}

func TestErrorOfInvokedFunctionEndsConstruction(t *testing.T) {
	broken := errors.New("broken")
	err := construct(t, cell.Invoke(func() error { return broken }, func() { t.Error("went on") }))
	if !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

func TestPanicIsAnErrorWithStack(t *testing.T) {
	err := construct(t,
		cell.Module("m", "", cell.Provide(func() *apple { panic("ouch") })),
		cell.Invoke(func(*apple) {}),
	)
	wantError(t, err, `module "m"`, "panic: ouch", "graph_test.go")
}

func TestGroupsOptionalsAndNames(t *testing.T) {
	type out struct {
		cell.Out
		One  string   `group:"words"`
		Many []string `group:"words,flatten"`
		Name *banana  `name:"special"`
	}
	type in struct {
		cell.In
		Words  []string `group:"words"`
		Absent *cherry  `optional:"true"`
		Name   *banana  `name:"special"`
	}
	var got in
	err := construct(t,
		cell.Module("a", "", cell.Provide(func() out { return out{One: "x", Many: []string{"y", "z"}, Name: &banana{}} })),
		cell.Module("b", "", cell.Provide(func() out2 { return out2{Word: "w"} })),
		cell.Invoke(func(i in) { got = i }),
	)
	if err != nil || len(got.Words) != 4 || got.Absent != nil || got.Name == nil {
		t.Fatalf("got %+v, %v", got, err)
	}
}

func TestSoftGroupHasOnlyWhatOthersNeedAnyway(t *testing.T) {
	type in struct {
		cell.In
		Words []string `group:"words,soft"`
	}
	type out struct {
		cell.Out
		Apple *apple
		Word  string `group:"words"`
	}
	var got []string
	err := construct(t,
		cell.Provide(func() out { return out{Apple: &apple{}, Word: "apple"} }, func() out2 { return out2{Word: "pie"} }),
		cell.Module("m", "", cell.Provide(func(*cherry) out2 { return out2{} })), // there is no cherry, and nobody needs one
		cell.Invoke(func(*apple, in) {}, func(_ *apple, i in) { got = i.Words }),
	)
	wantCalls(t, err, got, "apple")
}

func TestWhatOnlyASoftGroupWouldTakeIsUnused(t *testing.T) {
	type in struct {
		cell.In
		Words []string `group:"words,soft"`
	}
	newWord := func() out2 { return out2{Word: "pie"} }
	g, err := newGraph(t, cell.Module("m", "", cell.Provide(newWord)), cell.Invoke(func(in) {}))
	if err != nil {
		t.Fatal(err)
	}
	if unused := g.Describe().Unused(); len(unused["m"]) != 1 || len(unused) != 1 {
		t.Errorf("got %v", unused)
	}
	g, err = newGraph(t, cell.Module("m", "", cell.Provide(newWord)),
		cell.Invoke(func(in) {}, func(struct {
			cell.In
			Words []string `group:"words"`
		}) {
		}))
	if err != nil {
		t.Fatal(err)
	}
	if unused := g.Describe().Unused(); len(unused) != 0 {
		t.Errorf("with one that needs them: got %v", unused)
	}
}

func TestWhatFailsForWantOfConfigurationIsMadeOnceThereIsOne(t *testing.T) {
	type settings struct {
		Word string `flag:"word"`
	}
	g, err := newGraph(t,
		cell.Config(settings{Word: "red"}),
		cell.Provide(func(s settings) *apple { return &apple{from: s.Word} }),
		cell.Decorate(func(a *apple, _ settings) *apple { return &apple{from: "sweet " + a.from} }),
	)
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Invoke(func(*apple) {}); !errors.Is(err, cell.ErrNotConfigured) {
		t.Errorf("before: got %v", err)
	}
	var got []string
	err = errors.Join(g.Configure(sources(nil)), g.Invoke(func(a *apple) { got = append(got, a.from) }))
	wantCalls(t, err, got, "sweet red")
}

func TestWhatTheContainerDoesNotAcceptIsAnErrorOfTheGraph(t *testing.T) {
	type closed struct {
		cell.In
		_ string
	}
	type twice struct {
		cell.Out
		Word string `name:"a" group:"b"`
	}
	type pointer struct {
		*cell.In
		Word string
	}
	for name, constructor := range map[string]any{
		"unexported field":        func(closed) *apple { return nil },
		"name and group":          func() twice { return twice{} },
		"pointer to parameters":   func(*struct{ cell.In }) *apple { return nil },
		"embedded pointer to In":  func(pointer) *apple { return nil },
		"results as a parameter":  func(twice) *apple { return nil },
		"parameters as a result":  func() struct{ cell.In } { return struct{ cell.In }{} },
		"pointer to many results": func() *twice { return nil },
	} {
		_, err := newGraph(t, cell.Module("m", "", cell.Provide(constructor)))
		var fault *cell.GraphError
		if !errors.As(err, &fault) || fault.Module != "m" {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

type out2 struct {
	cell.Out
	Word string `group:"words"`
}

func TestInvokeFromOutsideConstructsOnlyWhatItNeeds(t *testing.T) {
	g, err := newGraph(t,
		cell.Provide(newApple),
		cell.Invoke(func() { t.Error("an invoked function was called") }),
	)
	if err != nil {
		t.Fatal(err)
	}
	var got *apple
	if err := g.Invoke(func(a *apple) { got = a }); err != nil || got == nil {
		t.Fatalf("got %v, %v", got, err)
	}
	wantError(t, g.Invoke(func(*cherry) {}), "missing type *graph_test.cherry")
}
