package graph

import (
	"errors"
	"reflect"
	"slices"

	"github.com/statehive/statehive/hive/internal/description"
)

// decorator is a function that changes values for a scope and its descendants.
//
// Dig has decorators too. These also decorate each module's own values: dig would give every module the decorated logger of the root.
type decorator struct {
	function   *function
	scope      *scope
	forModules bool
	at         map[*scope]*function // its call for each scope
}

func (s *scope) applyDecorator(c *description.Contents, fn any) error {
	if !c.Private {
		s = s.graph.root
	}
	f, err := newFunction("decorate", fn, s, c.At)
	if err != nil {
		return err
	}
	if len(f.makes) == 0 {
		return f.errorf("it decorates nothing: expected a function with a result other than an error")
	}
	d := &decorator{function: f, scope: s, forModules: c.ForModules, at: make(map[*scope]*function)}
	f.decorator = d
	f.makes = slices.Clone(f.makes)
	for i := range f.makes {
		m := &f.makes[i]
		if m.group != "" && !m.flat && m.typ.Kind() == reflect.Slice {
			m.typ = m.typ.Elem()
		}
		m.flat = false // a group is decorated as a whole
		s.decorators[m.key] = append(s.decorators[m.key], d)
		s.graph.decorated[m.key] = true
	}
	s.graph.decorators = append(s.graph.decorators, d)
	return nil
}

// makes reports whether the decorator changes a value.
func (d *decorator) makes(k key) bool {
	return d != nil && slices.ContainsFunc(d.function.makes, func(m made) bool { return m.key == k })
}

// in returns the decorator's call for a scope.
func (d *decorator) in(s *scope) *function {
	if d.at[s] == nil {
		f := *d.function
		f.scope = s
		d.at[s] = &f
	}
	return d.at[s]
}

// checkDecorators reports decorators of values that nothing provides.
func (g *Graph) checkDecorators() error {
	var errs []error
	for _, d := range g.decorators {
		for _, m := range d.function.makes {
			if !g.isOfferedTo(d.scope, m.key) {
				errs = append(errs, d.function.errorf("it decorates %s", d.scope.missing(m.key)))
			}
		}
	}
	return errors.Join(errs...)
}

// isOfferedTo reports whether a value is visible in a scope or one of its descendants.
func (g *Graph) isOfferedTo(s *scope, k key) bool {
	return s.source(k) != nil || slices.ContainsFunc(g.scopes, func(other *scope) bool {
		return len(other.offers[k]) > 0 && other.isBelow(s)
	})
}

func (s *scope) isBelow(other *scope) bool {
	for at := s; at != nil; at = at.parent {
		if at == other {
			return true
		}
	}
	return false
}

// decoration returns the decorator that a value in this scope comes from, and the scope whose value it decorates, or nil. For a value
// that the decorator before changes itself, it returns the previous decorator.
func (s *scope) decoration(k key, before *decorator) (*decorator, *scope) {
	if !s.graph.decorated[k] {
		return nil, nil
	}
	source, last := s.source(k), s.decorator(k, before)
	switch {
	case source == nil || last == nil:
		return nil, nil
	case last.forModules:
		return last, s
	case source.depth > last.scope.depth:
		return last, source
	}
	return last, last.scope
}

// decorator returns the last decorator of a value in this scope and its ancestors, or the last one that precedes before.
func (s *scope) decorator(k key, before *decorator) *decorator {
	if before.makes(k) {
		s = before.scope
		if i := slices.Index(s.decorators[k], before); i > 0 {
			return s.decorators[k][i-1]
		}
		s = s.parent
	}
	for ; s != nil; s = s.parent {
		if all := s.decorators[k]; len(all) > 0 {
			return all[len(all)-1]
		}
	}
	return nil
}

// adjusted returns the arguments of a call with decorated values and soft groups filled in. The container holds only zero values for
// what is decorated, so that a value that a decorator replaces is never built.
func (f *function) adjusted(args []reflect.Value) ([]reflect.Value, error) {
	for _, n := range f.needs {
		d, at := f.scope.decoration(n.key, f.decorator)
		var v reflect.Value
		var err error
		switch {
		case d != nil:
			v, err = d.in(at).make(n.key)
		case n.soft:
			v = f.scope.gathered(n.key)
		case f.scope.graph.decorated[n.key] && f.scope.source(n.key) != nil:
			v, err = f.scope.make(n.key)
		default:
			continue
		}
		if err != nil {
			return nil, err
		}
		args[n.at[0]] = with(args[n.at[0]], n.at[1:], v)
	}
	return args, nil
}

// with returns a copy of outer in which the nested field is set to v.
func with(outer reflect.Value, fields fieldPath, v reflect.Value) reflect.Value {
	if len(fields) == 0 {
		return v
	}
	changed := reflect.New(outer.Type()).Elem()
	changed.Set(outer)
	changed.FieldByIndex(fields).Set(v)
	return changed
}

func fieldOf(v reflect.Value, fields fieldPath) reflect.Value {
	if len(fields) == 0 {
		return v
	}
	return v.FieldByIndex(fields)
}
