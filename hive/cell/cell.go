package cell

import (
	"reflect"

	"go.uber.org/dig"

	"github.com/statehive/statehive/hive/internal/description"
)

// In is embedded in structs of parameters; fields may be tagged `name`, `group` and `optional:"true"`.
type In = dig.In

// Out is embedded in structs of results; fields may be tagged `name` and `group`.
type Out = dig.Out

// ModuleID is the id of the module in which it is injected; outside of any module the name of the hive.
type ModuleID string

// FullModuleID is the dotted path of ids from the outermost module to the one in which it is injected, such as
// "agent.route"; outside of any module the name of the hive.
type FullModuleID string

// Cell is a part of an application. Only this package makes cells.
type Cell interface{ description.Cell }

// Module is a scope with cells in it. The id consists of letters, digits, '-' and '_'; its full id must be unique in the
// hive. The title says in a few words what the module is for.
func Module(id, title string, contents ...Cell) Cell {
	return &description.Module{ID: id, Title: title, At: description.Caller(), Contents: Group(contents...)}
}

// Group puts cells together without a scope of their own.
func Group(contents ...Cell) Cell {
	g := make(description.Group, len(contents))
	for i, c := range contents {
		g[i] = c
	}
	return g
}

// Provide offers what the constructors make to all modules. A constructor is a function whose parameters are its
// dependencies and whose results, but for a last error, are what it makes.
func Provide(constructors ...any) Cell {
	return &description.Contents{Kind: description.Provide, All: constructors, At: description.Caller()}
}

// ProvidePrivate offers what the constructors make to the module it stands in and to those nested in it.
func ProvidePrivate(constructors ...any) Cell {
	return &description.Contents{Kind: description.Provide, All: constructors, Private: true, At: description.Caller()}
}

// ProvideForModules offers what the constructors make to the module it stands in and to those nested in it, to each its own: a
// constructor is called at most once for a module, with the module's FullModuleID. Outside of any module it is for all.
func ProvideForModules(constructors ...any) Cell {
	return &description.Contents{Kind: description.Provide, All: constructors, Private: true, ForModules: true, At: description.Caller()}
}

// Supply offers values that are there already, each by its own type, to all modules.
func Supply(values ...any) Cell {
	return &description.Contents{Kind: description.Supply, All: values, At: description.Caller()}
}

// SupplyPrivate offers values that are there already to the module it stands in and to those nested in it.
func SupplyPrivate(values ...any) Cell {
	return &description.Contents{Kind: description.Supply, All: values, Private: true, At: description.Caller()}
}

// Decorate changes values for the module it stands in and for those nested in it; outside of any module for the whole hive.
// A decorator is a function whose results are what it changes or replaces; its parameters come from the graph, a value that
// it changes being the one from before. A group is changed as a whole: as a slice with the tag `group`. Decorators run in the
// order of the cells, those of outer modules first, each at most once for a module that has the value for itself, such as a
// private one or its logger, and once for all others. A decorator without a parameter for the value replaces it: its constructor is
// not called then, nor what only that needs.
func Decorate(decorators ...any) Cell {
	return &description.Contents{Kind: description.Decorate, All: decorators, Private: true, At: description.Caller()}
}

// DecorateForModules is Decorate with a call for each module that needs the value, with the module's FullModuleID: for a value
// that all share and each sees in its own way, such as a registry of metrics with the name of the module. The decorator is given the
// value as it is before any call of it.
func DecorateForModules(decorators ...any) Cell {
	return &description.Contents{Kind: description.Decorate, All: decorators, Private: true, ForModules: true, At: description.Caller()}
}

// DecorateAll is Decorate for the whole hive, also inside of a module. The parameters are what is seen outside of all modules.
func DecorateAll(decorators ...any) Cell {
	return &description.Contents{Kind: description.Decorate, All: decorators, At: description.Caller()}
}

// Invoke has the functions called, in order, when the hive is constructed, with their parameters from the graph. A function
// may return an error.
func Invoke(functions ...any) Cell {
	return &description.Contents{Kind: description.Invoke, All: functions, At: description.Caller()}
}

// InvokedLater declares functions such as those that a command gives to Hive.Invoke, outside of any module, when it runs. They are
// not called; Validate finds what they miss, and what they lead to counts as used.
func InvokedLater(functions ...any) Cell {
	return &description.Contents{Kind: description.Later, All: functions, At: description.Caller()}
}

// As has a constructor or a value offered as the interface I instead of its own type: Provide(As[io.Writer](newFile)). The
// constructor has one result, other than an error, that implements I.
func As[I any](constructorOrValue any) any {
	return description.As{Of: constructorOrValue, Type: reflect.TypeFor[I]()}
}
