package reconcilercell

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/statehive/statehive/reconciler"
)

// registry has the reconcilers of a hive. It is safe for concurrent use.
type registry struct {
	group reconciler.Group

	mu  sync.Mutex
	all []instance // ordered by name
}

func newRegistry() *registry { return &registry{} }

// free returns an error if a name is taken.
func (r *registry) free(name string) error {
	for _, i := range r.instances() {
		if i.Name() == name {
			return fmt.Errorf("reconciler %q: module %q already has one of that name", name, i.module)
		}
	}
	return nil
}

func (r *registry) add(i instance) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, i)
	slices.SortFunc(r.all, func(a, b instance) int { return cmp.Compare(a.Name(), b.Name()) })
}

func (r *registry) instances() []instance {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.all)
}

// find returns the reconciler with a name, or the only one of a table.
func (r *registry) find(name string) (instance, error) {
	var ofTable []instance
	var names, namesOfTable []string
	for _, i := range r.instances() {
		if i.Name() == name {
			return i, nil
		}
		names = append(names, i.Name())
		if i.table() == name {
			ofTable, namesOfTable = append(ofTable, i), append(namesOfTable, i.Name())
		}
	}
	switch {
	case len(ofTable) == 1:
		return ofTable[0], nil
	case len(ofTable) > 1:
		return instance{}, &nameError{fmt.Sprintf("table %q has several reconcilers, expected one of: %s", name, strings.Join(namesOfTable, ", "))}
	default:
		return instance{}, unknownName(name, names)
	}
}

func unknownName(name string, names []string) error {
	if len(names) == 0 {
		return &nameError{fmt.Sprintf("no reconciler is named %q; there are none", name)}
	}
	return &nameError{fmt.Sprintf("no reconciler is named %q, or the only one of such a table; there are: %s", name, strings.Join(names, ", "))}
}

// nameError is the error for a name that does not identify a reconciler.
type nameError struct{ text string }

func (e *nameError) Error() string { return e.text }
