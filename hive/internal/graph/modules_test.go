package graph_test

import (
	"errors"
	"testing"

	"github.com/statehive/statehive/hive/cell"
)

type namer interface{ Name() string }

func (a *apple) Name() string { return a.from }

func tellName(got *[]string) cell.Cell {
	return cell.Invoke(func(id cell.FullModuleID, n namer) { *got = append(*got, string(id)+": "+n.Name()) })
}

func TestEachModuleHasItsOwnOfWhatIsProvidedForModules(t *testing.T) {
	var got []string
	calls := 0
	newOwn := func(id cell.FullModuleID) *apple { calls++; return &apple{from: "of " + string(id)} }
	err := construct(t,
		tell(&got),
		cell.Module("a", "", tell(&got), tell(&got), cell.Module("inner", "", tell(&got))),
		cell.ProvideForModules(newOwn),
		cell.Module("unused", ""),
	)
	wantCalls(t, err, got, "test: of test", "a: of a", "a: of a", "a.inner: of a.inner")
	if calls != 3 {
		t.Errorf("called %d times for three modules", calls)
	}
}

func TestWhatIsProvidedForModulesIsForThoseBelowItAlone(t *testing.T) {
	var got []string
	newOwn := func(id cell.ModuleID) *apple { return &apple{from: "of " + string(id)} }
	err := construct(t,
		cell.Provide(newApple),
		cell.Module("a", "", cell.ProvideForModules(newOwn), tell(&got), cell.Module("inner", "", tell(&got))),
		cell.Module("b", "", tell(&got)),
	)
	wantCalls(t, err, got, "a: of a", "a.inner: of inner", "b: public")
	_, err = newGraph(t, cell.ProvideForModules(newOwn), cell.Module("m", "", cell.ProvidePrivate(newApple)))
	wantError(t, err, `module "m"`, "already made by", "graph_test.newApple")
}

func TestWhatOnlySomeModulesUseOfThatForModulesIsNotReportedAsUnused(t *testing.T) {
	g, err := newGraph(t, cell.ProvideForModules(newApple), cell.Module("m", "", cell.Invoke(func(*apple) {})), cell.Module("n", ""))
	if err != nil {
		t.Fatal(err)
	}
	if unused := g.Describe().Unused(); len(unused) != 0 {
		t.Errorf("got %v", unused)
	}
}

func TestDecoratorForModulesIsCalledOnceForEachWithTheValueAsItWas(t *testing.T) {
	var got []string
	calls := 0
	label := func(a *apple, id cell.FullModuleID) *apple {
		calls++
		return &apple{from: a.from + " of " + string(id)}
	}
	err := construct(t,
		cell.Provide(newApple),
		cell.DecorateForModules(label),
		tell(&got),
		cell.Module("a", "", tell(&got), tell(&got), cell.Module("inner", "", tell(&got))),
		cell.Module("b", "", tell(&got), cell.Decorate(sweet), cell.Module("inner", "", tell(&got))),
	)
	wantCalls(t, err, got, "test: public of test", "a: public of a", "a: public of a", "a.inner: public of a.inner",
		"b: sweet public of b", "b.inner: sweet public of b")
	if calls != 4 {
		t.Errorf("called %d times for four modules", calls)
	}
}

func TestConstructorsAndValuesAreOfferedAsInterfaces(t *testing.T) {
	var got []string
	err := construct(t,
		cell.Provide(cell.As[namer](func() (*apple, error) { return newApple(), nil })),
		cell.Module("a", "", cell.ProvidePrivate(cell.As[namer](func() *apple { return &apple{from: "private"} })), tellName(&got)),
		cell.Module("b", "", cell.SupplyPrivate(cell.As[namer](&apple{from: "supplied"})), tellName(&got)),
		cell.Module("c", "", cell.ProvideForModules(cell.As[namer](func(id cell.ModuleID) *apple { return &apple{from: string(id)} })),
			cell.Module("d", "", tellName(&got))),
		tellName(&got),
		cell.Decorate(func(n namer) namer { return &apple{from: "decorated " + n.Name()} }),
	)
	wantCalls(t, err, got, "a: decorated private", "b: decorated supplied", "c.d: decorated d", "test: decorated public")
	err = construct(t, cell.Supply(cell.As[namer](newApple())), cell.Invoke(func(*apple) {}))
	wantError(t, err, "missing type *graph_test.apple")
}

func TestSuppliedPrivateValueIsSeenOnlyBelowItsModule(t *testing.T) {
	var got []string
	maker := cell.Module("a", "", cell.SupplyPrivate(newApple()), cell.Module("inner", "", tell(&got)))
	wantCalls(t, construct(t, maker), got, "a.inner: public")
	wantError(t, construct(t, maker, tell(&got)), "missing type *graph_test.apple", `it is private to module "a"`)
}

func TestWhatIsNoInterfaceOfTheResultIsRefused(t *testing.T) {
	for want, c := range map[string]cell.Cell{
		"As[graph_test.namer]: *graph_test.banana does not implement it": cell.Provide(cell.As[namer](newBanana)),
		"As[graph_test.namer]: graph_test.apple does not implement it":   cell.Supply(cell.As[namer](apple{})),
		"As[graph_test.apple]: expected an interface":                    cell.Provide(cell.As[apple](newApple)),
		"As[error]: expected an interface other than error":              cell.Supply(cell.As[error](errors.New("x"))),
		"As[graph_test.namer]: expected a function with one result":      cell.Provide(cell.As[namer](func() (*apple, *banana) { return nil, nil })),
		"expected a value, got <nil>":                                    cell.Supply(cell.As[namer](nil)),
		"expected a function, got *graph_test.apple":                     cell.Provide(cell.As[namer](newApple())),
		"invoke at graph/modules_test.go":                                cell.Invoke(cell.As[namer](newApple)),
	} {
		_, err := newGraph(t, cell.Module("m", "", c))
		wantError(t, err, `module "m"`, want)
	}
}
