package cell

import "time"

// Description describes a graph.
type Description struct {
	Modules []ModuleDescription `json:"modules"` // the scope outside any module first
}

// ModuleDescription describes a module and the functions of its cells.
type ModuleDescription struct {
	ID        FullModuleID          `json:"id"`
	Title     string                `json:"title,omitempty"`
	Location  string                `json:"location,omitempty"`
	Functions []FunctionDescription `json:"functions"`
}

// FunctionDescription describes a constructor, a supplied value, an invoked function or a decorator.
type FunctionDescription struct {
	Verb     string   `json:"verb"` // "provide", "supply", "invoke" or "decorate"
	Name     string   `json:"name"`
	Location string   `json:"location"`           // file:line
	Provides []string `json:"provides,omitempty"` // types, with name or group
	Needs    []string `json:"needs,omitempty"`
	From     []string `json:"from,omitempty"`    // names and positions of the functions that provide Needs
	Used     bool     `json:"used"`              // reachable from an invoked function
	BuiltIn  bool     `json:"builtIn,omitempty"` // provided by the hive itself
	// ForModules reports whether the function comes from ProvideForModules, so that other modules have it too.
	ForModules bool          `json:"forModules,omitempty"`
	Duration   time.Duration `json:"duration,omitempty"` // duration of the call, in nanoseconds; 0 if not called
}

func (f *FunctionDescription) id() string { return f.Name + " (" + f.Location + ")" }

// Unused returns the functions, other than the hive's own, that no invoked function leads to. A function of ProvideForModules is
// listed once, if no module uses it.
func (d Description) Unused() map[FullModuleID][]FunctionDescription {
	done := make(map[string]bool) // ids of per-module functions
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
			skip := f.BuiltIn
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
