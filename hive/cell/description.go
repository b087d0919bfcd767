package cell

import "time"

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
	Verb  string   `json:"verb"` // "provide", "supply", "invoke" or "decorate"
	Name  string   `json:"name"`
	Place string   `json:"place"`           // where it is written
	Makes []string `json:"makes,omitempty"` // types, with name or group
	Needs []string `json:"needs,omitempty"`
	From  []string `json:"from,omitempty"` // names and places of the functions that make what it needs
	Used  bool     `json:"used"`           // something that is invoked leads to it
	Own   bool     `json:"own,omitempty"`  // it is the hive's, or what each module has for itself
	// ForModules is whether each of several modules, the first of which has the cell, has such a function for itself.
	ForModules bool          `json:"forModules,omitempty"`
	Took       time.Duration `json:"took,omitempty"` // the call, in nanoseconds; 0 if it was not called
}

func (f *FunctionDescription) id() string { return f.Name + " (" + f.Place + ")" }

// Unused are the functions, of cells that are not the hive's own, that nothing invoked leads to. What is for modules is there
// once, if none of them uses it.
func (d Description) Unused() map[FullModuleID][]FunctionDescription {
	done := make(map[string]bool) // of those for modules
	for _, m := range d.Modules {
		for _, f := range m.Functions {
			if f.ForModules && f.Used {
				done[f.id()] = true
			}
		}
	}
	unused := make(map[FullModuleID][]FunctionDescription)
	for _, m := range d.Modules {
		for _, f := range m.Functions {
			skip := f.Own
			if f.ForModules {
				skip = done[f.id()]
				done[f.id()] = true
			}
			if !f.Used && !skip {
				unused[m.ID] = append(unused[m.ID], f)
			}
		}
	}
	return unused
}
