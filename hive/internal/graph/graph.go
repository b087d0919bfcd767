// Package graph constructs what cells describe: it resolves dependencies, reads settings and calls functions.
//
// A Graph must be used by one goroutine at a time, except for methods documented as safe for concurrent use.
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
	// Name is the id of the scope outside any module.
	Name string
	// Logger is the parent of the modules' loggers. Required.
	Logger *slog.Logger
	// Lifecycle returns the lifecycle of a module. If nil, none is provided.
	Lifecycle func(cell.FullModuleID) cell.Lifecycle
	// PerModule are constructors called separately for each module. They may use the module's FullModuleID.
	PerModule []any
	// Own are the hive's own cells, outside any module.
	Own []cell.Cell
	// Called, if not nil, is called after each call of a function of a module, on the same goroutine.
	Called func(cell.FullModuleID)
}

// Graph is what the cells describe, ready to be constructed.
type Graph struct {
	options    Options
	root       *scope
	scopes     []*scope                     // the root first, a module before those nested in it
	modules    map[cell.FullModuleID]*scope // with the root
	provided   []*function
	invokes    []*function
	decorators []*decorator // of all scopes
	settings   settings
	built      bool
	calls      calls
	mu         sync.Mutex // guards outside and the times of functions
	// outside are the functions that were, or may be, invoked from outside the graph.
	outside     []*function
	applyingOwn bool
	signatures  map[reflect.Type]*signature
	local       map[key]bool // provided privately by some module
	decorated   map[key]bool
}

// New builds a graph of cells. It calls no constructor. It returns all errors that it finds, joined.
func New(o Options, contents ...cell.Cell) (*Graph, error) {
	g := &Graph{options: o, modules: make(map[cell.FullModuleID]*scope), signatures: make(map[reflect.Type]*signature), local: make(map[key]bool), decorated: make(map[key]bool)}
	g.root = newScope(g, nil, cell.ModuleID(o.Name), cell.FullModuleID(o.Name))
	g.scopes, g.modules[g.root.full] = []*scope{g.root}, g.root
	if err := errors.Join(g.root.provideOwn(), g.applyOwn(g.root, cell.Group(o.Own...)), g.root.apply(cell.Group(contents...)), g.applyForModules(), g.checkDecorators()); err != nil {
		return nil, err
	}
	return g, nil
}

// ModuleIDs returns the full ids of all modules, preceded by that of the root.
func (g *Graph) ModuleIDs() []cell.FullModuleID {
	ids := make([]cell.FullModuleID, len(g.scopes))
	for i, s := range g.scopes {
		ids[i] = s.full
	}
	return ids
}

// applyOwn applies the hive's own cells.
func (g *Graph) applyOwn(s *scope, own ...description.Cell) error {
	g.applyingOwn = true
	defer func() { g.applyingOwn = false }()
	return s.apply(description.Group(own))
}

// Construct calls the invoked functions, in order, and the constructors that they need. It first checks for missing dependencies and
// cycles, then stops at the first error. Only the first call has an effect.
func (g *Graph) Construct() error {
	if g.built {
		return nil
	}
	g.built = true
	if err := check(g.invokes); err != nil {
		return err
	}
	g.calls.constructing.Store(true)
	defer g.calls.constructing.Store(false)
	return g.guarded(func() error {
		for _, f := range g.invokes {
			if err := f.build(); err != nil {
				return err
			}
		}
		return nil
	})
}

// Invoke calls fn, outside any module, with arguments from the graph and returns its error.
func (g *Graph) Invoke(fn any) error {
	f, err := newFunction("invoke", fn, g.root, description.Caller())
	if err != nil {
		return err
	}
	g.mu.Lock()
	g.outside = append(g.outside, f)
	g.mu.Unlock()
	if err := check([]*function{f}); err != nil {
		return err
	}
	return g.guarded(f.build)
}
