package cell

import (
	"slices"
	"time"
)

// Description is a graph for people and tools.
type Description struct {
	Modules []ModuleDescription `json:"modules"` // what is outside of all modules first
}

// ModuleDescription is a module with what its cells have.
type ModuleDescription struct {
	ID        FullModuleID          `json:"id"`
	Title     string                `json:"title,omitempty"`
	Place     string                `json:"place,omitempty"`
	Functions []FunctionDescription `json:"functions"`
}

// FunctionDescription is a constructor, an invoked function or a decorator.
type FunctionDescription struct {
	Verb  string        `json:"verb"` // "provide", "supply", "invoke" or "decorate"
	Name  string        `json:"name"`
	Place string        `json:"place"`           // where it is written
	Makes []string      `json:"makes,omitempty"` // types, with name or group
	Needs []string      `json:"needs,omitempty"`
	From  []string      `json:"from,omitempty"` // names and places of the functions that make what it needs
	Used  bool          `json:"used"`           // something that is invoked leads to it
	Own   bool          `json:"own,omitempty"`  // it is the hive's, or what each module has for itself
	Took  time.Duration `json:"took,omitempty"` // the call, in nanoseconds; 0 if it was not called
}

// Describe says what the graph consists of, with the functions that Invoke was called with or that InvokedLater declares. Nothing
// is constructed. It is safe for concurrent use, also with other methods.
func (g *Graph) Describe() Description {
	g.mu.Lock()
	defer g.mu.Unlock()
	used := g.used()
	modules := make(map[*scope]*ModuleDescription)
	d := Description{Modules: make([]ModuleDescription, len(g.scopes))}
	for i, s := range g.scopes {
		d.Modules[i] = ModuleDescription{ID: s.full, Title: s.title, Functions: []FunctionDescription{}}
		if s.parent != nil {
			d.Modules[i].Place = s.at.String()
		}
		modules[s] = &d.Modules[i]
	}
	add := func(f *function) {
		m := modules[f.scope]
		m.Functions = append(m.Functions, f.describe(used[f]))
	}
	for _, f := range g.provided {
		add(f)
	}
	for _, decorator := range g.decorators {
		add(decorator.function)
	}
	for _, f := range slices.Concat(g.invokes, g.outside) {
		add(f)
	}
	return d
}

func (f *function) describe(used bool) FunctionDescription {
	d := FunctionDescription{Verb: f.verb, Name: f.name, Place: f.at.String(), Used: used, Own: f.own, Took: f.took}
	for _, m := range f.makes {
		d.Makes = append(d.Makes, m.String())
	}
	for _, n := range f.needs {
		d.Needs = append(d.Needs, n.String())
		for _, maker := range f.scope.find(n.key) {
			d.From = append(d.From, maker.id())
		}
	}
	return d
}

// id tells the function from all others, unless one is provided by two cells.
func (f *function) id() string { return f.name + " (" + f.at.String() + ")" }

// used are the functions that something invoked leads to, inside the graph or from outside.
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

// Unused are the functions, of cells that are not the hive's own, that nothing invoked leads to.
func (d Description) Unused() map[FullModuleID][]FunctionDescription {
	unused := make(map[FullModuleID][]FunctionDescription)
	for _, m := range d.Modules {
		for _, f := range m.Functions {
			if !f.Used && !f.Own {
				unused[m.ID] = append(unused[m.ID], f)
			}
		}
	}
	return unused
}
