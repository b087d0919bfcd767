package cell

import (
	"errors"
	"reflect"
	"slices"
)

// As has a constructor or a value offered as the interface I instead of its own type: Provide(As[io.Writer](newFile)). The
// constructor has one result, other than an error, that implements I.
func As[I any](constructorOrValue any) any {
	return as{of: constructorOrValue, typ: reflect.TypeFor[I]()}
}

type as struct {
	of  any
	typ reflect.Type
}

type provide struct {
	constructors []any
	visibility   visibility
	forModules   bool // once for each module
	at           position
}

func (p *provide) apply(s *scope) error {
	if p.forModules {
		each := *p
		each.forModules = false
		s.forModules = append(s.forModules, &each)
		return nil
	}
	var errs []error
	for _, c := range p.constructors {
		f, err := newConstructor(c, s, p.at)
		if err == nil {
			err = s.provide(f, p.visibility)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

type supply struct {
	values     []any
	visibility visibility
	at         position
}

func (p *supply) apply(s *scope) error {
	var errs []error
	for _, v := range p.values {
		errs = append(errs, p.applyValue(s, v))
	}
	return errors.Join(errs...)
}

func (p *supply) applyValue(s *scope, v any) error {
	a, converted := v.(as)
	if converted {
		v = a.of
	}
	if _, isError := v.(error); v == nil || isError && !converted {
		return s.errorf("supply at %v: expected a value, got %T", p.at, v)
	}
	f := newSupply(reflect.ValueOf(v), s, p.at)
	if converted {
		if err := f.offerAs(a.typ); err != nil {
			return err
		}
	}
	return s.provide(f, p.visibility)
}

func newConstructor(c any, s *scope, cell position) (*function, error) {
	a, converted := c.(as)
	if !converted {
		return newFunction("provide", c, s, cell)
	}
	f, err := newFunction("provide", a.of, s, cell)
	if err != nil {
		return nil, err
	}
	return f, f.offerAs(a.typ)
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
