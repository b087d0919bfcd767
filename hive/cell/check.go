package cell

import (
	"errors"
	"fmt"
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
		if d := f.scope.decoration(n.key, f.decorator); d != nil {
			c.visit(d.function)
		}
	}
	c.path = c.path[:len(c.path)-1]
}

func (c *checker) missing(f *function, k key) {
	problem := f.scope.missing(k)
	if len(c.path) > 1 {
		problem += "; needed by " + describe(c.path[:len(c.path)-1])
	}
	c.errs = append(c.errs, f.errorf("%s", problem))
}

func describe(path []*function) string {
	names := make([]string, len(path))
	for i, f := range path {
		names[i] = fmt.Sprintf("%s (%v)", f.name, f.at)
	}
	return strings.Join(names, " -> ")
}
