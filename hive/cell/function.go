package cell

import (
	"fmt"
	"path"
	"reflect"
	"runtime"
	"runtime/debug"
	"strings"

	"go.uber.org/dig"
)

var errorType = reflect.TypeFor[error]()

// key is what dig tells values apart by.
type key struct {
	typ         reflect.Type
	name, group string
}

func (k key) String() string {
	switch {
	case k.group != "":
		return fmt.Sprintf("%v group:%q", k.typ, k.group)
	case k.name != "":
		return fmt.Sprintf("%v name:%q", k.typ, k.name)
	}
	return k.typ.String()
}

// need is a dependency.
type need struct {
	key
	optional bool
}

// function is a constructor or an invoked function of a cell.
type function struct {
	verb  string // "provide" or "invoke"
	name  string
	at    position // where the function is written
	cell  position // where the cell is written
	scope *scope   // where its dependencies are looked up
	value reflect.Value
	needs []need
	makes []key
}

func newFunction(verb string, fn any, s *scope, cell position) (*function, error) {
	v := reflect.ValueOf(fn)
	if !v.IsValid() || v.Kind() != reflect.Func || v.IsNil() {
		return nil, s.errorf("%s at %v: expected a function, got %T", verb, cell, fn)
	}
	f := &function{verb: verb, scope: s, value: v, cell: cell}
	f.name, f.at = identify(v)
	for i := range fixedParams(v.Type()) {
		f.needs = append(f.needs, needsOf(v.Type().In(i))...)
	}
	for i := range v.Type().NumOut() {
		f.makes = append(f.makes, makesOf(v.Type().Out(i))...)
	}
	return f, nil
}

// identify returns the name of a function, with its package but without the package's path, and its place.
func identify(fn reflect.Value) (string, position) {
	f := runtime.FuncForPC(fn.Pointer())
	if f == nil {
		return fn.Type().String(), position{}
	}
	file, line := f.FileLine(f.Entry())
	return path.Base(f.Name()), position{file: file, line: line}
}

// fixedParams is the number of parameters less the variadic one, which dig ignores.
func fixedParams(t reflect.Type) int {
	if t.IsVariadic() {
		return t.NumIn() - 1
	}
	return t.NumIn()
}

func needsOf(t reflect.Type) []need {
	if !dig.IsIn(t) {
		return []need{{key: key{typ: t}}}
	}
	var needs []need
	for f := range t.Fields() {
		needs = append(needs, needsOfField(f)...)
	}
	return needs
}

func needsOfField(f reflect.StructField) []need {
	group := tagWord(f, "group")
	switch {
	case f.Type == reflect.TypeFor[In]() || !f.IsExported():
		return nil
	case group != "" && f.Type.Kind() == reflect.Slice:
		return []need{{key: key{typ: f.Type.Elem(), group: group}}}
	case dig.IsIn(f.Type):
		return needsOf(f.Type)
	}
	return []need{{key: key{typ: f.Type, name: f.Tag.Get("name")}, optional: f.Tag.Get("optional") == "true"}}
}

func makesOf(t reflect.Type) []key {
	switch {
	case t == errorType:
		return nil
	case !dig.IsOut(t):
		return []key{{typ: t}}
	}
	var makes []key
	for f := range t.Fields() {
		makes = append(makes, makesOfField(f)...)
	}
	return makes
}

func makesOfField(f reflect.StructField) []key {
	group := tagWord(f, "group")
	switch {
	case f.Type == reflect.TypeFor[Out]() || !f.IsExported():
		return nil
	case group != "" && strings.HasSuffix(f.Tag.Get("group"), ",flatten") && f.Type.Kind() == reflect.Slice:
		return []key{{typ: f.Type.Elem(), group: group}}
	case group != "":
		return []key{{typ: f.Type, group: group}}
	case dig.IsOut(f.Type):
		return makesOf(f.Type)
	}
	return []key{{typ: f.Type, name: f.Tag.Get("name")}}
}

// tagWord is the value of a tag without its modifiers.
func tagWord(f reflect.StructField, tag string) string {
	word, _, _ := strings.Cut(f.Tag.Get(tag), ",")
	return word
}

// String names the function for people.
func (f *function) String() string {
	return fmt.Sprintf("%s %s (%v)", f.verb, f.name, f.at)
}

// errorf is a fault of the graph at this function.
func (f *function) errorf(format string, args ...any) error {
	return &GraphError{Module: f.scope.full, Where: f.scope.String(), Function: f.String(), Problem: fmt.Sprintf(format, args...)}
}

// guarded is the function for dig: its error, which it always has, or its panic says where it comes from.
func (f *function) guarded() any {
	t := f.value.Type()
	in := make([]reflect.Type, fixedParams(t))
	for i := range in {
		in[i] = t.In(i)
	}
	out := []reflect.Type{}
	for i := range t.NumOut() {
		if t.Out(i) != errorType {
			out = append(out, t.Out(i))
		}
	}
	out = append(out, errorType)
	typ := reflect.FuncOf(in, out, false)
	return reflect.MakeFunc(typ, func(args []reflect.Value) []reflect.Value {
		results, err := f.call(args)
		return complete(typ, results, err)
	}).Interface()
}

// call returns the results other than errors.
func (f *function) call(args []reflect.Value) (results []reflect.Value, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = f.failed(&panicError{value: p, stack: debug.Stack()})
		}
	}()
	for _, r := range f.value.Call(args) {
		if r.Type() != errorType {
			results = append(results, r)
		} else if !r.IsNil() {
			return nil, f.failed(r.Interface().(error))
		}
	}
	return results, nil
}

func (f *function) failed(err error) error {
	return &BuildError{Module: f.scope.full, Where: f.scope.String(), Function: f.String(), Err: err}
}

// complete makes the results of a guarded function: zero values with an error.
func complete(typ reflect.Type, results []reflect.Value, err error) []reflect.Value {
	last := typ.NumOut() - 1
	if err == nil {
		return append(results, reflect.Zero(errorType))
	}
	out := make([]reflect.Value, 0, last+1)
	for i := range last {
		out = append(out, reflect.Zero(typ.Out(i)))
	}
	return append(out, reflect.ValueOf(&err).Elem())
}
