package cell

import (
	"errors"

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

// Module is a scope with cells in it. The id consists of letters, digits, '-' and '_'; its full id must be unique in the
// hive. The title says in a few words what the module is for.
func Module(id, title string, contents ...Cell) Cell {
	return &module{id: id, title: title, at: caller(), contents: contents}
}

// Group puts cells together without a scope of their own.
func Group(contents ...Cell) Cell { return group(contents) }

// Provide offers what the constructors make to all modules. A constructor is a function whose parameters are its
// dependencies and whose results, but for a last error, are what it makes.
func Provide(constructors ...any) Cell {
	return &provide{constructors: constructors, visibility: public, at: caller()}
}

// ProvidePrivate offers what the constructors make to the module it stands in and to those nested in it.
func ProvidePrivate(constructors ...any) Cell {
	return &provide{constructors: constructors, visibility: private, at: caller()}
}

// ProvideForModules offers what the constructors make to the module it stands in and to those nested in it, to each its own: a
// constructor is called at most once for a module, with the module's FullModuleID. Outside of any module it is for all.
func ProvideForModules(constructors ...any) Cell {
	return &provide{constructors: constructors, visibility: private, forModules: true, at: caller()}
}

// Supply offers values that are there already, each by its own type, to all modules.
func Supply(values ...any) Cell {
	return &supply{values: values, visibility: public, at: caller()}
}

// SupplyPrivate offers values that are there already to the module it stands in and to those nested in it.
func SupplyPrivate(values ...any) Cell {
	return &supply{values: values, visibility: private, at: caller()}
}

// Decorate changes values for the module it stands in and for those nested in it; outside of any module for the whole hive.
// A decorator is a function whose results are what it changes or replaces; its parameters come from the graph, a value that
// it changes being the one from before. A group is changed as a whole: as a slice with the tag `group`. Decorators run in the
// order of the cells, those of outer modules first, each at most once for a module that has the value for itself, such as a
// private one or its logger, and once for all others. A decorator without a parameter for the value replaces it: its constructor is
// not called then, nor what only that needs.
func Decorate(decorators ...any) Cell {
	return &decorate{decorators: decorators, visibility: private, at: caller()}
}

// DecorateForModules is Decorate with a call for each module that needs the value, with the module's FullModuleID: for a value
// that all share and each sees in its own way, such as a registry of metrics with the name of the module. The decorator is given the
// value as it is before any call of it.
func DecorateForModules(decorators ...any) Cell {
	return &decorate{decorators: decorators, visibility: private, forModules: true, at: caller()}
}

// DecorateAll is Decorate for the whole hive, also inside of a module. The parameters are what is seen outside of all modules.
func DecorateAll(decorators ...any) Cell {
	return &decorate{decorators: decorators, visibility: public, at: caller()}
}

// Invoke has the functions called, in order, when the hive is constructed, with their parameters from the graph. A function
// may return an error.
func Invoke(functions ...any) Cell {
	return &invoke{functions: functions, at: caller()}
}

// InvokedLater declares functions such as those that a command gives to Hive.Invoke, outside of any module, when it runs. They are
// not called; Validate finds what they miss, and what they lead to counts as used.
func InvokedLater(functions ...any) Cell {
	return &invoke{functions: functions, later: true, at: caller()}
}

// visibility is who sees what a constructor makes.
type visibility int

const (
	private visibility = iota
	public
)

type group []Cell

func (g group) apply(s *scope) error {
	var errs []error
	for _, c := range g {
		if c == nil {
			errs = append(errs, s.errorf("a cell is nil"))
			continue
		}
		errs = append(errs, c.apply(s))
	}
	return errors.Join(errs...)
}

type module struct {
	id, title string
	at        position
	contents  group
}

func (m *module) apply(parent *scope) error {
	s, err := parent.nested(m)
	if err != nil {
		return err
	}
	return m.contents.apply(s)
}

type invoke struct {
	functions []any
	later     bool
	at        position
}

func (i *invoke) apply(s *scope) error {
	var errs []error
	if i.later {
		s = s.graph.root
	}
	for _, fn := range i.functions {
		f, err := newFunction("invoke", fn, s, i.at)
		switch {
		case err != nil:
		case i.later:
			s.graph.outside = append(s.graph.outside, f)
		default:
			s.graph.invokes = append(s.graph.invokes, f)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
