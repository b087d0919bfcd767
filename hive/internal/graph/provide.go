package graph

import (
	"errors"
	"reflect"
	"slices"

	"github.com/statehive/statehive/hive/internal/description"
)

func (s *scope) applyProvide(p *description.Provide) error {
	if p.ForModules {
		each := *p
		each.ForModules = false
		s.forModules = append(s.forModules, &each)
		return nil
	}
	var errs []error
	for _, c := range p.Constructors {
		f, err := newConstructor(c, s, p.At)
		if err == nil {
			err = s.provide(f, p.Private)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (s *scope) applySupply(p *description.Supply) error {
	var errs []error
	for _, v := range p.Values {
		errs = append(errs, s.applyValue(p, v))
	}
	return errors.Join(errs...)
}

func (s *scope) applyValue(p *description.Supply, v any) error {
	a, converted := v.(description.As)
	if converted {
		v = a.Of
	}
	if _, isError := v.(error); v == nil || isError && !converted {
		return s.errorf("supply at %v: expected a value, got %T", p.At, v)
	}
	f := newSupply(reflect.ValueOf(v), s, p.At)
	if converted {
		if err := f.offerAs(a.Type); err != nil {
			return err
		}
	}
	return s.provide(f, p.Private)
}

func newConstructor(c any, s *scope, at description.Position) (*function, error) {
	a, converted := c.(description.As)
	if !converted {
		return newFunction("provide", c, s, at)
	}
	f, err := newFunction("provide", a.Of, s, at)
	if err != nil {
		return nil, err
	}
	return f, f.offerAs(a.Type)
}

// offerAs has what the function makes offered as an interface.
func (f *function) offerAs(t reflect.Type) error {
	if t.Kind() != reflect.Interface || t == errorType {
		return f.errorf("As[%v]: expected an interface other than error", t)
	}
	if len(f.makes) != 1 || f.makes[0].group+f.makes[0].name != "" {
		return f.errorf("As[%v]: expected a function with one result, other than an error, without name or group", t)
	}
	if made := f.makes[0].typ; !made.Implements(t) {
		return f.errorf("As[%v]: %v does not implement it", t, made)
	}
	f.makes = []made{{key: key{typ: t}, at: f.makes[0].at}}
	return nil
}

// provideForModules applies the cells that are for each module, when all modules are known.
func (g *Graph) provideForModules() error {
	var errs []error
	for _, s := range g.scopes {
		if s.parent != nil {
			s.forModules = slices.Concat(s.parent.forModules, s.forModules) // the parent comes first
		}
		errs = append(errs, g.applyOwn(s, s.forModules...))
	}
	return errors.Join(errs...)
}
