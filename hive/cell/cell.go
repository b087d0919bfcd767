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

// Invoke has the functions called, in order, when the hive is constructed, with their parameters from the graph. A function
// may return an error.
func Invoke(functions ...any) Cell {
	return &invoke{functions: functions, at: caller()}
}

// visibility says who sees what a constructor makes.
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

type provide struct {
	constructors []any
	visibility   visibility
	at           position
}

func (p *provide) apply(s *scope) error {
	var errs []error
	for _, c := range p.constructors {
		f, err := newFunction("provide", c, s, p.at)
		if err == nil {
			err = s.provide(f, p.visibility)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

type invoke struct {
	functions []any
	at        position
}

func (i *invoke) apply(s *scope) error {
	var errs []error
	for _, fn := range i.functions {
		f, err := newFunction("invoke", fn, s, i.at)
		if err == nil {
			s.graph.invokes = append(s.graph.invokes, f)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
