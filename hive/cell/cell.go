package cell

import (
	"reflect"

	"go.uber.org/dig"

	"github.com/statehive/statehive/hive/internal/description"
)

// In is embedded in parameter structs; fields may be tagged `name`, `group` and `optional:"true"`.
type In = dig.In

// Out is embedded in result structs; fields may be tagged `name` and `group`.
type Out = dig.Out

// ModuleID is the id of the module into which it is injected; outside any module, the name of the hive.
type ModuleID string

// FullModuleID is the dotted path of ids from the outermost module to the one into which it is injected, such as
// "agent.route"; outside any module, the name of the hive.
type FullModuleID string

// Cell is a part of an application. Only this package makes cells.
type Cell interface{ description.Cell }

// Module returns a scope that contains cells. The id consists of letters, digits, '-' and '_'; the full id must be unique in the
// hive, and different from its name. The title is a short description, such as "sizes of directories".
func Module(id, title string, contents ...Cell) Cell {
	return &description.Module{ID: id, Title: title, At: description.Caller(), Contents: Group(contents...)}
}

// Group combines cells without a scope of their own.
func Group(contents ...Cell) Cell {
	g := make(description.Group, len(contents))
	for i, c := range contents {
		g[i] = c
	}
	return g
}

// Provide provides the results of the constructors to all modules. The parameters of a constructor are its dependencies; its results
// are the values it provides, except for a final error.
func Provide(constructors ...any) Cell {
	return &description.Contents{Kind: description.Provide, All: constructors, At: description.Caller()}
}

// ProvidePrivate provides the results of the constructors to its own module and those nested in it.
func ProvidePrivate(constructors ...any) Cell {
	return &description.Contents{Kind: description.Provide, All: constructors, Private: true, At: description.Caller()}
}

// ProvideForModules provides the results of the constructors to its own module and those nested in it, separately for each: a
// constructor is called at most once per module, with the module's FullModuleID. Outside any module, it applies to all modules.
func ProvideForModules(constructors ...any) Cell {
	return &description.Contents{Kind: description.Provide, All: constructors, Private: true, ForModules: true, At: description.Caller()}
}

// Supply provides existing values to all modules, each by its own type.
func Supply(values ...any) Cell {
	return &description.Contents{Kind: description.Supply, All: values, At: description.Caller()}
}

// SupplyPrivate provides existing values to its own module and those nested in it.
func SupplyPrivate(values ...any) Cell {
	return &description.Contents{Kind: description.Supply, All: values, Private: true, At: description.Caller()}
}

// Decorate changes values for its own module and those nested in it; outside any module, for the whole hive. The results of a
// decorator replace values of the same types; its parameters come from the graph, where a value that it changes has the value from
// before. A group is decorated as a whole, as a slice with the tag `group`. Decorators run in the order of the cells, those of outer
// modules first. Each runs at most once for every module that has its own value, such as a private one or the logger, and once for
// all others. If a decorator has no parameter for the value, the value's constructor is not called, nor are constructors needed only
// by it.
func Decorate(decorators ...any) Cell {
	return &description.Contents{Kind: description.Decorate, All: decorators, Private: true, At: description.Caller()}
}

// DecorateForModules is like Decorate, but calls the decorator separately for each module that needs the value, with the module's
// FullModuleID. Use it for a shared value of which each module has its own view, such as a metrics registry labeled with the module.
// Every call receives the value without the changes of the other calls.
func DecorateForModules(decorators ...any) Cell {
	return &description.Contents{Kind: description.Decorate, All: decorators, Private: true, ForModules: true, At: description.Caller()}
}

// DecorateAll is like Decorate for the whole hive, even inside a module. The parameters are resolved outside any module.
func DecorateAll(decorators ...any) Cell {
	return &description.Contents{Kind: description.Decorate, All: decorators, At: description.Caller()}
}

// Invoke calls the functions in order when the hive is constructed, with arguments from the graph. A function may return an error.
func Invoke(functions ...any) Cell {
	return &description.Contents{Kind: description.Invoke, All: functions, At: description.Caller()}
}

// InvokedLater declares functions that may be passed to Hive.Invoke later, for instance by a command. They are not called, but
// Validate checks their dependencies, which count as used.
func InvokedLater(functions ...any) Cell {
	return &description.Contents{Kind: description.Later, All: functions, At: description.Caller()}
}

// As provides a constructor's result or a value as the interface I instead of its own type: Provide(As[io.Writer](newFile)). The
// constructor must have one result, besides an error, that implements I.
func As[I any](constructorOrValue any) any {
	return description.As{Of: constructorOrValue, Type: reflect.TypeFor[I]()}
}
