// Package description holds the content of cells as plain data, from which package graph builds a graph. Descriptions are immutable.
package description

import "reflect"

// Cell is one of the types of this package.
type Cell interface{ isCell() }

// Module is a scope that contains cells.
type Module struct {
	ID, Title string
	Contents  Cell
	At        Position
}

// Group is a list of cells without a scope of its own.
type Group []Cell

// Contents are functions or values of one kind.
type Contents struct {
	Kind       Kind
	All        []any
	Private    bool // visible only in the module and those nested in it
	ForModules bool // once for each of these modules
	At         Position
}

// Kind is the use of functions or values.
type Kind string

// The kinds.
const (
	Provide  Kind = "provide"
	Supply   Kind = "supply" // values
	Decorate Kind = "decorate"
	Invoke   Kind = "invoke"
	Later    Kind = "invoked later" // from outside the graph, if at all
)

// Config is a struct of settings.
type Config struct {
	Defaults reflect.Value // the struct
	At       Position
}

// As is a constructor or a value and the interface as which it is provided.
type As struct {
	Of   any
	Type reflect.Type
}

func (*Module) isCell()   {}
func (Group) isCell()     {}
func (*Contents) isCell() {}
func (*Config) isCell()   {}
