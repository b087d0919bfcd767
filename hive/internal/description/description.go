// Package description is what the cells of package cell say: plain data, of which package graph makes a graph. It is not changed once
// it is made.
package description

import "reflect"

// Cell is one of the types of this package.
type Cell interface{ isCell() }

// Module is a scope with cells in it.
type Module struct {
	ID, Title string
	Contents  Cell
	At        Position
}

// Group are cells without a scope of their own.
type Group []Cell

// Contents are functions or values of one kind.
type Contents struct {
	Kind       Kind
	All        []any
	Private    bool // for the module and those in it, not for all
	ForModules bool // once for each of these modules
	At         Position
}

// Kind is what is done with functions or values.
type Kind string

// The kinds.
const (
	Provide  Kind = "provide"
	Supply   Kind = "supply" // values
	Decorate Kind = "decorate"
	Invoke   Kind = "invoke"
	Later    Kind = "invoked later" // by others, if at all
)

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
func (*Contents) isCell() {}
func (*Config) isCell()   {}
