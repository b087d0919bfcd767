package graph

import (
	"slices"

	"github.com/statehive/statehive/hive/cell"
)

// Describe describes the graph, including functions passed to Invoke or declared by InvokedLater. It constructs nothing. It is safe
// for concurrent use with all methods.
func (g *Graph) Describe() cell.Description {
	g.mu.Lock()
	defer g.mu.Unlock()
	used := g.used()
	modules := make(map[*scope]*cell.ModuleDescription)
	d := cell.Description{Modules: make([]cell.ModuleDescription, len(g.scopes))}
	for i, s := range g.scopes {
		d.Modules[i] = cell.ModuleDescription{ID: s.full, Title: s.title, Functions: []cell.FunctionDescription{}}
		if s.parent != nil {
			d.Modules[i].Location = s.at.String()
		}
		modules[s] = &d.Modules[i]
	}
	functions := slices.Clone(g.provided)
	for _, decorator := range g.decorators {
		functions = append(functions, decorator.function)
	}
	for _, f := range slices.Concat(functions, g.invokes, g.outside) {
		m := modules[f.scope]
		m.Functions = append(m.Functions, f.describe(used[f]))
	}
	return d
}

func (f *function) describe(used bool) cell.FunctionDescription {
	d := cell.FunctionDescription{Verb: f.verb, Name: f.name, Location: f.at.String(), Used: used, BuiltIn: f.own, ForModules: f.forModules, Duration: f.took}
	for _, m := range f.makes {
		d.Provides = append(d.Provides, m.String())
	}
	for _, n := range f.needs {
		d.Needs = append(d.Needs, n.String())
		for _, maker := range f.scope.find(n.key) {
			d.From = append(d.From, maker.id())
		}
	}
	return d
}

// id identifies the function, unless two cells provide it.
func (f *function) id() string { return f.name + " (" + f.at.String() + ")" }

// used returns the functions reachable from those invoked inside or outside the graph.
func (g *Graph) used() map[*function]bool {
	type call struct {
		function *function
		scope    *scope
	}
	used, seen := make(map[*function]bool), make(map[call]bool)
	var visit func(call)
	visit = func(c call) {
		if seen[c] {
			return
		}
		seen[c], used[c.function] = true, true
		for _, n := range c.function.needs {
			for _, maker := range c.scope.calledFor(n) {
				visit(call{maker, maker.scope})
			}
			if d, at := c.scope.decoration(n.key, c.function.decorator); d != nil {
				visit(call{d.function, at})
			}
		}
	}
	for _, f := range slices.Concat(g.invokes, g.outside) {
		visit(call{f, f.scope})
	}
	return used
}
