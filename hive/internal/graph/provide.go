package graph

import (
	"reflect"

	"github.com/statehive/statehive/hive/internal/description"
)

// applyMaker adds a constructor or a value.
func (s *scope) applyMaker(c *description.Contents, v any) (err error) {
	a, converted := v.(description.As)
	if converted {
		v = a.Of
	}
	var f *function
	switch _, isError := v.(error); {
	case c.Kind == description.Provide:
		f, err = newFunction("provide", v, s, c.At)
	case v == nil || isError && !converted:
		err = s.errorf("supply at %v: expected a value, got %T", c.At, v)
	default:
		f = newSupply(reflect.ValueOf(v), s, c.At)
	}
	if err == nil && converted {
		err = f.offerAs(a.Type)
	}
	if err != nil {
		return err
	}
	return s.provide(f, c.Private)
}

// offerAs makes the function provide its result as an interface.
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
