package graph_test

import (
	"errors"
	"log/slog"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/internal/graph"
)

func sweet(a *apple) *apple { return &apple{from: "sweet " + a.from} }

func green(a *apple) *apple { return &apple{from: "green " + a.from} }

// tell notes which apple it is given.
func tell(got *[]string) cell.Cell {
	return cell.Invoke(func(id cell.FullModuleID, a *apple) { *got = append(*got, string(id)+": "+a.from) })
}

func wantCalls(t *testing.T, err error, got []string, want ...string) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestDecoratorOfAModuleChangesWhatItAndModulesInItSee(t *testing.T) {
	var got []string
	err := construct(t,
		cell.Provide(newApple),
		tell(&got),
		cell.Module("m", "", tell(&got), cell.Module("inner", "", tell(&got)), cell.Decorate(sweet)),
		cell.Module("other", "", tell(&got)),
	)
	wantCalls(t, err, got, "test: public", "m: sweet public", "m.inner: sweet public", "other: public")
}

func TestDecoratorsOfTheWholeHiveComeBeforeThoseOfModules(t *testing.T) {
	var got []string
	err := construct(t,
		cell.Module("m", "", cell.Decorate(sweet), tell(&got)),
		cell.Module("maker", "", cell.Provide(newApple), cell.DecorateAll(green, sweet)),
		tell(&got),
	)
	wantCalls(t, err, got, "m: sweet sweet green public", "test: sweet green public")
}

func TestDecoratorReachesWhatAModuleHasForItself(t *testing.T) {
	var got []string
	calls := 0
	note := func(l *slog.Logger) string { return l.Handler().(*labels).text }
	root := slog.New(&labels{})
	g, err := graph.New(graph.Options{Name: "test", Logger: root},
		cell.Decorate(func(l *slog.Logger) *slog.Logger { calls++; return l.With("by", "all") }),
		cell.Module("a", "", cell.Invoke(func(l *slog.Logger) { got = append(got, note(l)) }, func(*slog.Logger) {})),
		cell.Module("b", "",
			cell.Decorate(func(l *slog.Logger, id cell.ModuleID) *slog.Logger { return l.With("id", string(id)) }),
			cell.Invoke(func(l *slog.Logger) { got = append(got, note(l)) })),
		cell.Module("c", "", cell.ProvidePrivate(newApple), tell(&got)),
		cell.DecorateAll(func(a *apple, id cell.ModuleID) *apple { return &apple{from: string(id) + " " + a.from} }),
	)
	if err == nil {
		err = g.Construct()
	}
	wantCalls(t, err, got, "module=a by=all ", "module=b by=all id=b ", "c: c public")
	if calls != 2 {
		t.Errorf("called %d times for two modules", calls)
	}
}

// labels is a handler that knows its attributes.
type labels struct {
	slog.Handler
	text string
}

func (l *labels) WithAttrs(attrs []slog.Attr) slog.Handler {
	text := l.text
	for _, a := range attrs {
		text += a.String() + " "
	}
	return &labels{text: text}
}

func TestDecoratorSeesOtherValuesAndIsCalledOnce(t *testing.T) {
	var got []string
	calls := 0
	err := construct(t,
		cell.Provide(newApple, newBanana),
		cell.Supply(7, "word"),
		cell.Decorate(func(a *apple, n int) *apple { calls++; return &apple{from: string(rune('0'+n)) + " " + a.from} }),
		tell(&got), tell(&got),
		cell.Invoke(needBanana), // whose constructor is given the decorated apple as well
	)
	wantCalls(t, err, got, "test: 7 public", "test: 7 public")
	if calls != 1 {
		t.Errorf("called %d times", calls)
	}
}

type basket struct {
	cell.In
	Words  []string `group:"words"`
	Apple  *apple   `name:"red"`
	Absent *cherry  `optional:"true"`
}

func TestDecoratorsOfGroupsAndNamesInStructs(t *testing.T) {
	type out struct {
		cell.Out
		Word  string `group:"words"`
		Apple *apple `name:"red"`
	}
	type decorated struct {
		cell.Out
		Words []string `group:"words"`
		Apple *apple   `name:"red"`
	}
	var got basket
	err := construct(t,
		cell.Provide(func() out { return out{Word: "a", Apple: newApple()} }),
		cell.Decorate(func(b basket) (decorated, error) {
			return decorated{Words: append(b.Words, "b"), Apple: sweet(b.Apple)}, nil
		}),
		cell.Invoke(func(b basket) { got = b }),
	)
	wantCalls(t, err, append(got.Words, got.Apple.from), "a", "b", "sweet public")
}

func TestErrorOfADecoratorNamesItAndItsModule(t *testing.T) {
	broken := errors.New("broken")
	err := construct(t,
		cell.Provide(newApple),
		cell.Module("m", "", cell.Decorate(func(*apple) (*apple, error) { return nil, broken }),
			cell.Invoke(func(*apple) { t.Error("called with what could not be decorated") })),
	)
	wantError(t, err, `module "m" (graph/decorate_test.go:`, "decorate graph_test.TestErrorOfADecorator", ": broken")
	var build *cell.BuildError
	if !errors.Is(err, broken) || !errors.As(err, &build) {
		t.Errorf("got %#v", err)
	}
}

func TestDecoratorOfWhatNothingProvidesIsRefused(t *testing.T) {
	_, err := newGraph(t, cell.Provide(newApple), cell.Module("m", "", cell.Decorate(func(a apple) apple { return a })))
	wantError(t, err, `module "m"`, "it decorates missing type graph_test.apple", "there is a *graph_test.apple of graph_test.newApple")
	_, err = newGraph(t, cell.Module("a", "", cell.ProvidePrivate(newApple)), cell.Module("b", "", cell.Decorate(sweet)))
	wantError(t, err, "it decorates missing type *graph_test.apple", `it is private to module "a"`)
	_, err = newGraph(t, cell.Decorate(func(*apple) {}))
	wantError(t, err, "it decorates nothing")
}

func TestCycleThroughADecoratorIsNamed(t *testing.T) {
	err := construct(t,
		cell.Provide(newApple, newBanana),
		cell.Decorate(func(a *apple, _ *banana) *apple { return a }),
		cell.Invoke(func(*apple) {}),
	)
	wantError(t, err, "needs itself", "graph_test.newBanana", "TestCycleThroughADecorator")
	err = construct(t, cell.Provide(newApple), cell.Decorate(func(a *apple, _ *cherry) *apple { return a }), cell.Invoke(func(*apple) {}))
	wantError(t, err, "decorate graph_test.TestCycle", "missing type *graph_test.cherry")
}

func TestSuppliedValuesAreSeenByTheirTypes(t *testing.T) {
	type word string
	var got string
	err := construct(t,
		cell.Module("m", "", cell.Supply(word("hello"), &apple{from: "world"})),
		cell.Invoke(func(w word, a *apple) { got = string(w) + " " + a.from }),
	)
	if err != nil || got != "hello world" {
		t.Errorf("got %q, %v", got, err)
	}
	_, err = newGraph(t, cell.Supply(1), cell.Supply(2))
	wantError(t, err, "supply int (graph/decorate_test.go:", "already made by hive")
	_, err = newGraph(t, cell.Supply(nil, errors.New("x")))
	wantError(t, err, "expected a value, got <nil>", "expected a value, got *errors.errorString")
}

func TestWhatIsMissingIsToldFromWhatIsSimilar(t *testing.T) {
	type named struct {
		cell.In
		Apple *apple `name:"red"`
	}
	err := construct(t, cell.Provide(newApple), cell.Invoke(func(named) {}))
	wantError(t, err, `missing type *graph_test.apple name:"red" (there is a *graph_test.apple of graph_test.newApple (graph/graph_test.go:`)
}

func TestDecoratorThatReplacesAValueKeepsItFromBeingMade(t *testing.T) {
	type fruit struct {
		cell.In

		Apple *apple `optional:"true"`
	}
	type all struct {
		cell.In

		Apples []*apple `group:"apples"`
	}
	type basket struct {
		cell.Out

		Apples []*apple `group:"apples"`
	}
	type one struct {
		cell.Out

		Apple *apple `group:"apples"`
	}
	var got []string
	unwanted := func() *apple { t.Error("what is replaced is made"); return nil }
	replace := cell.Decorate(func() *apple { return &apple{from: "fake"} })
	err := construct(t,
		cell.Module("plain", "", cell.ProvidePrivate(unwanted), replace, tell(&got)),
		cell.Module("field", "", cell.ProvidePrivate(unwanted), replace,
			cell.Invoke(func(f fruit) { got = append(got, "field: "+f.Apple.from) })),
		cell.Module("group", "",
			cell.ProvidePrivate(func() one { return one{Apple: unwanted()} }),
			cell.Decorate(func() basket { return basket{Apples: []*apple{{from: "fake"}}} }),
			cell.Invoke(func(a all) { got = append(got, "group: "+a.Apples[0].from) })),
		cell.Module("outer", "", cell.ProvidePrivate(newApple), cell.Invoke(func(f fruit) { got = append(got, "outer: "+f.Apple.from) }),
			cell.Module("inner", "", replace, cell.Decorate(sweet), tell(&got))),
	)
	wantCalls(t, err, got, "plain: fake", "field: fake", "group: fake", "outer: public", "outer.inner: sweet fake")
}
