package cell

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// check finds what is missing, and cycles, in what the functions need. The container would find them one at a time, and
// would not find a cycle that leads through the private values of two modules.
func check(functions []*function) error {
	c := checker{done: make(map[*function]bool)}
	for _, f := range functions {
		c.visit(f)
	}
	return errors.Join(c.errs...)
}

type checker struct {
	done map[*function]bool
	path []*function // from the function that is invoked
	errs []error
}

func (c *checker) visit(f *function) {
	if i := slices.Index(c.path, f); i >= 0 {
		c.errs = append(c.errs, f.errorf("needs itself: %s", describe(append(c.path[i:], f))))
		return
	}
	if c.done[f] {
		return
	}
	c.done[f] = true
	c.path = append(c.path, f)
	for _, n := range f.needs {
		makers := f.scope.find(n.key)
		if len(makers) == 0 && !n.optional && n.group == "" {
			c.missing(f, n.key)
		}
		for _, m := range makers {
			c.visit(m)
		}
	}
	c.path = c.path[:len(c.path)-1]
}

func (c *checker) missing(f *function, k key) {
	problem := fmt.Sprintf("missing type %v", k)
	if hint := f.scope.hint(k); hint != "" {
		problem += " (" + hint + ")"
	}
	if len(c.path) > 1 {
		problem += "; needed by " + describe(c.path[:len(c.path)-1])
	}
	c.errs = append(c.errs, f.errorf("%s", problem))
}

// hint says what there is instead of k.
func (s *scope) hint(k key) string {
	for _, other := range s.graph.scopes {
		if made := other.offers[k]; len(made) > 0 {
			return fmt.Sprintf("it is private to %v", other)
		}
	}
	if hint := s.implementation(k); hint != "" {
		return hint
	}
	near := []reflect.Type{reflect.PointerTo(k.typ)}
	if k.typ.Kind() == reflect.Pointer {
		near = append(near, k.typ.Elem())
	}
	for _, t := range near {
		if len(s.find(key{typ: t, name: k.name})) > 0 {
			return fmt.Sprintf("there is a %v", t)
		}
	}
	return ""
}

// implementation names what there is that could be offered as the interface k.
func (s *scope) implementation(k key) string {
	if k.typ.Kind() != reflect.Interface || k.typ.NumMethod() == 0 {
		return ""
	}
	var found []string
	for at := s; at != nil; at = at.parent {
		for other := range at.offers {
			if other.group == "" && other.name == k.name && other.typ.Implements(k.typ) {
				found = append(found, other.typ.String())
			}
		}
	}
	if len(found) == 0 {
		return ""
	}
	slices.Sort(found)
	return fmt.Sprintf("its constructor has to return that type: there is a %s, which implements it", strings.Join(found, ", a "))
}

func describe(path []*function) string {
	names := make([]string, len(path))
	for i, f := range path {
		names[i] = fmt.Sprintf("%s (%v)", f.name, f.at)
	}
	return strings.Join(names, " -> ")
}
