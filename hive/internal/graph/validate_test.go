package graph_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/statehive/statehive/hive/cell"
)

type wordsIn struct {
	cell.In
	Words []string `group:"words"`
}

func validate(t *testing.T, cells ...cell.Cell) error {
	t.Helper()
	g, err := newGraph(t, cells...)
	if err != nil {
		return err
	}
	return g.Validate()
}

func TestValidateFindsAllThatIsMissingAndCyclesWithoutACall(t *testing.T) {
	called := func() *apple { t.Error("a constructor was called"); return nil }
	type lemon struct{}
	err := validate(t,
		cell.Module("maker", "", cell.Provide(called, newCherry)),
		cell.Module("a", "", cell.Invoke(func(*apple, *cherry) { t.Error("an invoked function was called") })),
		cell.Module("b", "", cell.ProvidePrivate(func(*lemon) int { return 0 }, func(int) *lemon { return nil }, func(*lemon) string { return "" }),
			cell.Invoke(func(string) {})),
	)
	wantError(t, err,
		`module "maker" (graph/validate_test.go:`, "provide graph_test.newCherry (graph/graph_test.go:", "missing type *graph_test.banana; needed by graph_test.TestValidateFinds",
		`module "b" (graph/validate_test.go:`, "needs itself: graph_test.TestValidateFinds", "; needed by graph_test.TestValidateFindsAllThatIsMissingAndCyclesWithoutACall.func")
	var fault *cell.GraphError
	if !errors.As(err, &fault) || strings.Count(err.Error(), "\n") != 1 {
		t.Errorf("got %v", err)
	}
	if err := validate(t, cell.Provide(newApple, newBanana), cell.Invoke(needBanana)); err != nil {
		t.Errorf("nothing is wrong: got %v", err)
	}
}

func TestValidatedGraphCanBeConstructed(t *testing.T) {
	g, err := newGraph(t, cell.Provide(newApple, newBanana), cell.Invoke(needBanana), cell.Decorate(sweet))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(g.Validate(), g.Validate(), g.Construct(), g.Validate()); err != nil {
		t.Error(err)
	}
}

func TestGroupThatNobodyAsksForIsFound(t *testing.T) {
	newWord := func() out2 { return out2{Word: "pie"} }
	type misspelled struct {
		cell.In
		Words []string `group:"word"`
	}
	err := validate(t, cell.Module("m", "", cell.Provide(newWord)), cell.Invoke(func(misspelled) {}))
	wantError(t, err, `module "m" (graph/validate_test.go:`, "provide graph_test.TestGroupThatNobody",
		`nothing asks for the group of string group:"words" (asked for: string group:"word" by graph_test.TestGroupThatNobody`)
	err = validate(t, cell.Module("m", "", cell.ProvidePrivate(newWord)), cell.Invoke(func(wordsIn) {}))
	wantError(t, err, `nothing asks for the group of string group:"words" (asked for: string group:"words" by`)
	for name, consumer := range map[string]cell.Cell{
		"invoked":     cell.Invoke(func(wordsIn) {}),
		"constructor": cell.Provide(func(wordsIn) *apple { return nil }),
		"below":       cell.Module("other", "", cell.Invoke(func(wordsIn) {})),
	} {
		if err := validate(t, cell.Provide(newWord), consumer); err != nil {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestGroupThatIsAskedForFromOutsideIsNotAFault(t *testing.T) {
	g, err := newGraph(t, cell.Provide(func() out2 { return out2{Word: "pie"} }))
	if err != nil {
		t.Fatal(err)
	}
	wantError(t, g.Validate(), "nothing asks for")
	if err := errors.Join(g.Invoke(func(wordsIn) {}), g.Validate()); err != nil {
		t.Error(err)
	}
}

func TestWhatIsInvokedLaterIsValidatedAndUsedButNotCalled(t *testing.T) {
	newWord := func() out2 { return out2{Word: "pie"} }
	later := cell.Module("m", "", cell.InvokedLater(func(*apple, wordsIn) { t.Error("called") }))
	g, err := newGraph(t, cell.Provide(newApple, newWord), later)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(g.Validate(), g.Construct()); err != nil {
		t.Error(err)
	}
	if unused := g.Describe().Unused(); len(unused) > 0 {
		t.Errorf("got %v", unused)
	}
	wantError(t, validate(t, cell.Provide(newWord), later), `hive "test": invoke graph_test.TestWhatIsInvokedLater`, "missing type *graph_test.apple")
}

func TestMalformedParametersOfEachKindOfFunctionAreRefused(t *testing.T) {
	type closed struct {
		cell.In
		_ *apple
	}
	type optional struct {
		cell.In
		Apple *apple `optional:"yes"`
	}
	type noSlice struct {
		cell.In
		Words string `group:"words"`
	}
	type flag struct {
		cell.In
		Words []string `group:"words,sorted"`
	}
	type result struct {
		cell.Out
		_     string
		Apple *apple
	}
	type misspelled struct {
		cell.In
		Words []string `groups:"words"`
	}
	type outer struct {
		cell.Out
		Inner struct {
			cell.Out
			Word string `Name:"word"`
		}
	}
	for name, c := range map[string]cell.Cell{
		"invoke, misspelled tag":     cell.Invoke(func(misspelled) {}),
		"results, misspelled tag":    cell.Provide(func() outer { return outer{} }),
		"invoke, unexported field":   cell.Invoke(func(closed) {}),
		"invoke, optional":           cell.Invoke(func(optional) error { return nil }),
		"invoke, group":              cell.Invoke(func(noSlice) {}),
		"invoke, unknown word":       cell.Invoke(func(flag) {}),
		"decorate, parameters":       cell.Decorate(func(closed) *apple { return nil }),
		"decorate, results":          cell.Decorate(func() result { return result{} }),
		"provide for modules":        cell.ProvideForModules(func(closed) *apple { return nil }),
		"private, unexported result": cell.ProvidePrivate(func() result { return result{} }),
	} {
		_, err := newGraph(t, cell.Module("m", "", c))
		var fault *cell.GraphError
		if !errors.As(err, &fault) || fault.Module != "m" || !strings.Contains(fault.Function, "TestMalformedParameters") {
			t.Errorf("%s: got %v", name, err)
		}
	}
	type elsewhere struct {
		cell.In
		Word string `yaml:"word" json:"word" optional:"true"`
	}
	g, err := newGraph(t, cell.Invoke(func(elsewhere) {}))
	if err != nil {
		t.Fatal(err)
	}
	wantError(t, g.Invoke(func(closed) {}), "unexported fields not allowed")
}
