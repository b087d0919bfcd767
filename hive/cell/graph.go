package cell

import (
	"errors"
	"log/slog"
	"reflect"
	"sync"
)

// GraphOptions are the settings of a Graph.
type GraphOptions struct {
	// Name is the id that stands for what is outside of any module.
	Name string
	// Logger is what the loggers of modules are made of. Needed.
	Logger *slog.Logger
	// Lifecycle is what each module appends its hooks to. Nil: there is none.
	Lifecycle func(FullModuleID) Lifecycle
	// PerModule are constructors whose values each module has for itself. They may use the module's FullModuleID.
	PerModule []any
	// Own is what the hive itself offers outside of all modules.
	Own []Cell
	// Called is called after each call of a function of a module, by the goroutine that called it. Nil: nothing.
	Called func(FullModuleID)
}

// Graph is what the cells describe, ready to be constructed. Package hive makes one; applications seldom need it.
type Graph struct {
	options  GraphOptions
	root     *scope
	scopes   []*scope // the root first, a module before those nested in it
	modules  map[FullModuleID]*scope
	provided []*function
	invokes  []*function
	// decorators are all that there are, for what can be said of them only when all cells are known.
	decorators []*decorator
	settings   settings
	built      bool
	calls      calls
	mu         sync.Mutex // guards outside and the times of functions
	// outside are the functions that were invoked from outside of the graph, or may be.
	outside     []*function
	applyingOwn bool
	signatures  map[reflect.Type]*signature
	local       map[key]bool // what a module has for itself
	decorated   map[key]bool
}

// NewGraph puts cells together. It calls no constructor. It returns all faults that it finds.
func NewGraph(o GraphOptions, contents ...Cell) (*Graph, error) {
	g := &Graph{options: o, modules: make(map[FullModuleID]*scope), signatures: make(map[reflect.Type]*signature), local: make(map[key]bool), decorated: make(map[key]bool)}
	g.root = newScope(g, nil, ModuleID(o.Name), FullModuleID(o.Name))
	g.scopes = []*scope{g.root}
	if err := errors.Join(g.root.provideOwn(), g.applyOwn(g.root, o.Own...), group(contents).apply(g.root), g.provideForModules(), g.checkDecorators()); err != nil {
		return nil, err
	}
	return g, nil
}

// applyOwn applies cells of the hive itself.
func (g *Graph) applyOwn(s *scope, own ...Cell) error {
	g.applyingOwn = true
	defer func() { g.applyingOwn = false }()
	return group(own).apply(s)
}

// Construct calls the invoked functions, in order, and the constructors that they need. It first checks that nothing is
// missing and that there are no cycles; then the first error ends it. Only the first call does anything.
func (g *Graph) Construct() error {
	if g.built {
		return nil
	}
	g.built = true
	if err := check(g.invokes); err != nil {
		return err
	}
	return g.guarded(func() error {
		for _, f := range g.invokes {
			if err := f.build(); err != nil {
				return err
			}
		}
		return nil
	})
}

// Invoke calls fn, from outside of any module, with parameters from the graph and returns its error.
func (g *Graph) Invoke(fn any) error {
	f, err := newFunction("invoke", fn, g.root, caller())
	if err != nil {
		return err
	}
	if err := check([]*function{f}); err != nil {
		return err
	}
	g.mu.Lock()
	g.outside = append(g.outside, f)
	g.mu.Unlock()
	return f.build()
}
