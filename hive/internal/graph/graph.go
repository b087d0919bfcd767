// Package graph constructs what cells describe: it finds out who makes what others need, reads settings and calls functions.
//
// A Graph is used by one goroutine at a time, but for what says otherwise.
package graph

import (
	"errors"
	"log/slog"
	"reflect"
	"sync"

	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/internal/description"
)

// Options are the settings of a Graph.
type Options struct {
	// Name is the id that stands for what is outside of any module.
	Name string
	// Logger is what the loggers of modules are made of. Needed.
	Logger *slog.Logger
	// Lifecycle is what each module appends its hooks to. Nil: there is none.
	Lifecycle func(cell.FullModuleID) cell.Lifecycle
	// PerModule are constructors whose values each module has for itself. They may use the module's FullModuleID.
	PerModule []any
	// Own is what the hive itself offers outside of all modules.
	Own []cell.Cell
	// Called is called after each call of a function of a module, by the goroutine that called it. Nil: nothing.
	Called func(cell.FullModuleID)
}

// Graph is what the cells describe, ready to be constructed.
type Graph struct {
	options  Options
	root     *scope
	scopes   []*scope // the root first, a module before those nested in it
	modules  map[cell.FullModuleID]*scope
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

// New puts cells together. It calls no constructor. It returns all faults that it finds.
func New(o Options, contents ...cell.Cell) (*Graph, error) {
	g := &Graph{options: o, modules: make(map[cell.FullModuleID]*scope), signatures: make(map[reflect.Type]*signature), local: make(map[key]bool), decorated: make(map[key]bool)}
	g.root = newScope(g, nil, cell.ModuleID(o.Name), cell.FullModuleID(o.Name))
	g.scopes = []*scope{g.root}
	if err := errors.Join(g.root.provideOwn(), g.applyOwn(g.root, cell.Group(o.Own...)), g.root.apply(cell.Group(contents...)), g.applyForModules(), g.checkDecorators()); err != nil {
		return nil, err
	}
	return g, nil
}

// ModuleIDs are the full ids of all modules, that of what is outside of them first.
func (g *Graph) ModuleIDs() []cell.FullModuleID {
	ids := make([]cell.FullModuleID, len(g.scopes))
	for i, s := range g.scopes {
		ids[i] = s.full
	}
	return ids
}

// applyOwn applies cells of the hive itself.
func (g *Graph) applyOwn(s *scope, own ...description.Cell) error {
	g.applyingOwn = true
	defer func() { g.applyingOwn = false }()
	return s.apply(description.Group(own))
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
	f, err := newFunction("invoke", fn, g.root, description.Caller())
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
