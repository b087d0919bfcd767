// Package description is what the cells of package cell say: plain data, of which package graph makes a graph. It is not changed once
// it is made.
package description

import "reflect"

// Cell is one of the types of this package.
type Cell interface{ isCell() }

// Module is a scope with cells in it.
type Module struct {
	ID, Title string
	At        Position
	Contents  Group
}

// Group are cells without a scope of their own.
type Group []Cell

// Provide are constructors.
type Provide struct {
	Constructors []any
	Private      bool // for the module and those in it
	ForModules   bool // once for each of these modules
	At           Position
}

// Supply are values that are there already.
type Supply struct {
	Values  []any
	Private bool // for the module and those in it
	At      Position
}

// Decorate are functions that change values.
type Decorate struct {
	Decorators []any
	Everywhere bool // also outside of the module
	ForModules bool // called for each module
	At         Position
}

// Invoke are functions that are called when the graph is constructed.
type Invoke struct {
	Functions []any
	Later     bool // called by others, if at all
	At        Position
}

// Config is a struct of settings.
type Config struct {
	Defaults reflect.Value // the struct
	At       Position
}

// As is a constructor or a value with the interface that it is offered as.
type As struct {
	Of   any
	Type reflect.Type
}

func (*Module) isCell()   {}
func (Group) isCell()     {}
func (*Provide) isCell()  {}
func (*Supply) isCell()   {}
func (*Decorate) isCell() {}
func (*Invoke) isCell()   {}
func (*Config) isCell()   {}
