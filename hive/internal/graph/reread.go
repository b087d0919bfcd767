package graph

import (
	"errors"
	"reflect"
	"slices"
)

// Reread reads the settings again from the sources of Configure, which must have succeeded, and validates them. It returns the
// names of those that are not what Configure found, in order, or the errors that Configure would return. Nothing that the graph has made or
// shows changes. It is safe for concurrent use with all methods but Configure.
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

// unread returns the settings as they were when only flags had been read.
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
