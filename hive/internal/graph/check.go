package graph

import (
	"errors"
	"slices"
	"strings"
)

// check reports missing dependencies and cycles. The container would report them one at a time, and would not find a cycle through
// the private values of two modules.
func check(functions []*function) error {
	c := checker{done: make(map[*function]bool), onPath: make(map[*function]bool)}
	for _, f := range functions {
		c.visit(f)
	}
	return errors.Join(c.errs...)
}

type checker struct {
	done   map[*function]bool
	path   []*function // from the invoked function
	onPath map[*function]bool
	errs   []error
}

func (c *checker) visit(f *function) {
	if c.onPath[f] {
		first := slices.Index(c.path, f)
		cycle := append(slices.Clone(c.path[first:]), f)
		c.errs = append(c.errs, f.errorf("needs itself: %s%s", describe(cycle), neededBy(c.path[:first])))
		return
	}
	if c.done[f] {
		return
	}
	c.done[f] = true
	if !f.used {
		f.used = true
		v := f.view()
		v.used = append(v.used, f)
	}
	c.path, c.onPath[f] = append(c.path, f), true
	for _, n := range f.needs {
		makers := f.scope.calledFor(n)
		if len(makers) == 0 && !n.optional && n.group == "" {
			c.missing(f, n.key)
		}
		if d, at := f.scope.decoration(n.key, f.decorator); d != nil {
			c.visit(d.in(at)) // it either needs the value or replaces it
			continue
		}
		for _, m := range makers {
			c.visit(m)
		}
	}
	c.path, c.onPath[f] = c.path[:len(c.path)-1], false
}

func (c *checker) missing(f *function, k key) {
	c.errs = append(c.errs, f.errorf("%s%s", f.scope.missing(k), neededBy(c.path[:len(c.path)-1])))
}

// neededBy describes the path from the invoked function to the fault.
func neededBy(path []*function) string {
	if len(path) == 0 {
		return ""
	}
	return "; needed by " + describe(path)
}

func describe(path []*function) string {
	names := make([]string, len(path))
	for i, f := range path {
		names[i] = f.id()
	}
	return strings.Join(names, " -> ")
}
