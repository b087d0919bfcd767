package graph

import (
	"fmt"
	"regexp"
	"slices"

	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/internal/description"
)

var moduleID = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// scope is a module in a graph, or the root scope outside any module.
type scope struct {
	graph      *Graph
	parent     *scope // nil for the root
	id         cell.ModuleID
	full       cell.FullModuleID
	at         description.Position
	title      string
	depth      int                  // 0 for the root
	offers     map[key][]*function  // constructors visible from this scope down
	forModules []description.Cell   // applied to this module and those nested in it
	used       []*function          // the used functions whose view this is
	view       *view                // nil before the first call
	decorators map[key][]*decorator // of this module, in the order of its cells
}

// newScope returns a scope without its own values. The parent is nil for the root.
func newScope(g *Graph, parent *scope, id cell.ModuleID, full cell.FullModuleID) *scope {
	s := &scope{
		graph: g, parent: parent, id: id, full: full,
		offers: make(map[key][]*function), decorators: make(map[key][]*decorator),
	}
	if parent != nil {
		s.depth = parent.depth + 1
	}
	return s
}

// String returns the scope's name and position for error messages.
func (s *scope) String() string {
	if s.parent == nil {
		return fmt.Sprintf("hive %q", s.full)
	}
	return fmt.Sprintf("module %q (%v)", s.full, s.at)
}

func (s *scope) errorf(format string, args ...any) error {
	return &cell.GraphError{Module: s.full, Where: s.String(), Problem: fmt.Sprintf(format, args...)}
}

// nested adds the scope of a module nested in this one.
func (s *scope) nested(m *description.Module) (*scope, error) {
	full := cell.FullModuleID(m.ID)
	if s.parent != nil {
		full = s.full + "." + full
	}
	n := newScope(s.graph, s, cell.ModuleID(m.ID), full)
	n.at, n.title = m.At, m.Title
	if !moduleID.MatchString(m.ID) {
		return nil, n.errorf("bad module id %q: expected letters, digits, '-' and '_'", m.ID)
	}
	if other := s.graph.modules[full]; other != nil {
		return nil, n.errorf("its id is already used by %v", other)
	}
	s.graph.scopes = append(s.graph.scopes, n)
	s.graph.modules[full] = n
	return n, n.provideOwn()
}

// provideOwn provides the values that every module has of its own.
func (s *scope) provideOwn() error {
	o := s.graph.options
	values := []any{s.id, s.full, o.Logger.With("module", string(s.full))}
	if o.Lifecycle != nil {
		values = append(values, cell.As[cell.Lifecycle](o.Lifecycle(s.full)))
	}
	return s.graph.applyOwn(s,
		&description.Contents{Kind: description.Supply, All: values, Private: true, At: s.at},
		&description.Contents{Kind: description.Provide, All: o.PerModule, Private: true, At: s.at})
}

// provide registers the results of a constructor.
func (s *scope) provide(f *function, private bool) error {
	if len(f.makes) == 0 {
		return f.errorf("it makes nothing: expected a function with a result other than an error")
	}
	in := s
	if !private {
		in = s.graph.root
	}
	for i, m := range f.makes {
		k, others := m.key, in.offers[m.key]
		if k.group == "" && slices.ContainsFunc(f.makes[:i], func(other made) bool { return other.key == k }) {
			return f.errorf("it makes %v twice", k)
		}
		if k.group != "" || len(others) == 0 {
			continue
		}
		if others[0].own && !f.own {
			return f.errorf("every module has a %v already; change it with cell.Decorate", k)
		}
		return f.errorf("makes %v, which is already made by %v: %v", k, others[0].scope, others[0])
	}
	for _, m := range f.makes {
		if all := in.offers[m.key]; !slices.Contains(all[max(0, len(all)-1):], f) { // it may make several of a group
			in.offers[m.key] = append(all, f)
			s.graph.local[m.key] = s.graph.local[m.key] || in.parent != nil
		}
	}
	s.graph.provided = append(s.graph.provided, f)
	return nil
}

// find returns the constructors of a value visible from this scope: the nearest one, or all of a group.
func (s *scope) find(k key) []*function {
	at := s.source(k)
	if at == nil {
		return nil
	}
	found := at.offers[k]
	if k.group == "" || at.parent == nil {
		return found
	}
	return slices.Concat(found, at.parent.find(k))
}

// source returns the nearest scope that offers a value, or nil.
func (s *scope) source(k key) *scope {
	if !s.graph.local[k] {
		s = s.graph.root
	}
	for ; s != nil; s = s.parent {
		if len(s.offers[k]) > 0 {
			return s
		}
	}
	return nil
}

// calledFor returns the constructors to call for a need.
func (s *scope) calledFor(n need) []*function {
	if n.soft {
		return nil
	}
	return s.find(n.key)
}
