package graph

import (
	"errors"
	"reflect"
	"slices"
)

// Reread reads and validates the settings again. Configure must have succeeded. It returns the sorted names of the settings that have
// changed since Configure, or the errors that Configure would return. The graph itself does not change. It is safe for concurrent use
// with all methods but Configure.
func (g *Graph) Reread(from Sources) (changed []string, err error) {
	next, err := g.settings.unread()
	if err == nil {
		err = next.configure(from)
	}
	if err != nil {
		return nil, err
	}
	for name, s := range g.settings.byFlag {
		if !reflect.DeepEqual(s.value.field.Interface(), next.byFlag[name].value.field.Interface()) {
			changed = append(changed, name)
		}
	}
	slices.Sort(changed)
	return changed, nil
}

// unread returns a copy of the settings in which only flags are set.
func (ss *settings) unread() (*settings, error) {
	next := &settings{}
	var errs []error
	for _, b := range ss.blocks {
		errs = append(errs, next.add(newBlock(b.scope, b.name, b.defaults))...)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	for name, s := range ss.byFlag {
		if s.value.given {
			again := next.byFlag[name].value
			again.given = true
			again.field.Set(s.value.field)
		}
	}
	return next, nil
}
