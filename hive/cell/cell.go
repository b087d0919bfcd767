package cell

import (
	"go.uber.org/dig"
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
type Cell interface {
	apply(*scope) error
}

type cells []Cell

func (cs cells) apply(s *scope) error { return nil }

type scope struct{}

// Module is a scope with cells in it. The id consists of letters, digits, '-' and '_'; its full id must be unique in the
// hive. The title says in a few words what the module is for.
func Module(id, title string, contents ...Cell) Cell { return cells(contents) }

// Group puts cells together without a scope of their own.
func Group(contents ...Cell) Cell { return cells(contents) }

// Provide offers what the constructors make to all modules. A constructor is a function whose parameters are its
// dependencies and whose results, but for a last error, are what it makes.
func Provide(constructors ...any) Cell { return cells{} }

// ProvidePrivate offers what the constructors make to the module it stands in and to those nested in it.
func ProvidePrivate(constructors ...any) Cell { return cells{} }

// Invoke has the functions called, in order, when the hive is constructed, with their parameters from the graph.
func Invoke(functions ...any) Cell { return cells{} }

// Config offers a struct of settings, of type C, to all modules. The values in defaults are the defaults. See the fields'
// tags: `flag:"config-dir" usage:"directory of documents"`.
func Config[C any](defaults C) Cell { return cells{} }
