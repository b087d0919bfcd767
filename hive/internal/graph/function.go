package graph

import (
	"fmt"
	"reflect"
	"runtime/debug"
	"strings"
	"time"

	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/internal/description"
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

// place is where a value is: the number of the parameter, or of the result, errors not counted; then of the fields within.
type place []int

func (p place) field(i int) place { return append(p[:len(p):len(p)], i) }

// need is a dependency.
type need struct {
	key
	at       place
	optional bool
	soft     bool // of a group: only what others need anyway
}

// made is a result.
type made struct {
	key
	at   place
	flat bool // of a group: a slice of values
}

// function is a constructor, an invoked function or a decorator of a cell.
type function struct {
	verb  string // "provide", "supply", "invoke" or "decorate"
	name  string
	at    description.Position // where the function is written
	scope *scope               // where its dependencies are looked up
	value reflect.Value
	signature
	decorator *decorator // whose function it is, if it is one
	own       bool       // it is the hive's, or what each module has for itself
	// forModules is that it is one of those that a cell provides for modules, each of which has its own.
	forModules bool
	used       bool // something that is invoked leads to it
	built      bool
	results    []reflect.Value // other than errors, when it is built
	took       time.Duration
}

func newFunction(verb string, fn any, s *scope, at description.Position) (*function, error) {
	v := reflect.ValueOf(fn)
	if !v.IsValid() || v.Kind() != reflect.Func || v.IsNil() {
		return nil, s.errorf("%s at %v: expected a function, got %T", verb, at, fn)
	}
	f := &function{verb: verb, scope: s, value: v, own: s.graph.applyingOwn}
	f.name, f.at = description.Function(v)
	f.signature = *s.graph.signatureOf(v.Type())
	if f.fault != nil {
		return nil, f.errorf("%v", f.fault)
	}
	return f, nil
}

// newSupply is a function that has been called: what it makes is there.
func newSupply(value reflect.Value, s *scope, at description.Position) *function {
	return &function{
		verb: "supply", name: value.Type().String(), at: at, scope: s, own: s.graph.applyingOwn,
		signature: signature{makes: []made{{key: key{typ: value.Type()}, at: place{0}}}}, built: true, results: []reflect.Value{value},
	}
}

func needsOf(t reflect.Type, at place) []need {
	if !isIn(t) {
		return []need{{key: key{typ: t}, at: at}}
	}
	var needs []need
	for i := range t.NumField() {
		needs = append(needs, needsOfField(t.Field(i), at.field(i))...)
	}
	return needs
}

func needsOfField(f reflect.StructField, at place) []need {
	group := tagWord(f, "group")
	switch {
	case f.Type == reflect.TypeFor[cell.In]() || !f.IsExported():
		return nil
	case group != "" && f.Type.Kind() == reflect.Slice:
		return []need{{key: key{typ: f.Type.Elem(), group: group}, at: at, soft: strings.HasSuffix(f.Tag.Get("group"), ",soft")}}
	case isIn(f.Type):
		return needsOf(f.Type, at)
	}
	return []need{{key: key{typ: f.Type, name: f.Tag.Get("name")}, at: at, optional: f.Tag.Get("optional") == "true"}}
}

func makesOf(t reflect.Type, at place) []made {
	if !isOut(t) {
		return []made{{key: key{typ: t}, at: at}}
	}
	var makes []made
	for i := range t.NumField() {
		makes = append(makes, makesOfField(t.Field(i), at.field(i))...)
	}
	return makes
}

func makesOfField(f reflect.StructField, at place) []made {
	group := tagWord(f, "group")
	switch {
	case f.Type == reflect.TypeFor[cell.Out]() || !f.IsExported():
		return nil
	case group != "" && strings.HasSuffix(f.Tag.Get("group"), ",flatten") && f.Type.Kind() == reflect.Slice:
		return []made{{key: key{typ: f.Type.Elem(), group: group}, at: at, flat: true}}
	case group != "":
		return []made{{key: key{typ: f.Type, group: group}, at: at}}
	case isOut(f.Type):
		return makesOf(f.Type, at)
	}
	return []made{{key: key{typ: f.Type, name: f.Tag.Get("name")}, at: at}}
}

// tagWord is the value of a tag without its modifiers.
func tagWord(f reflect.StructField, tag string) string {
	word, _, _ := strings.Cut(f.Tag.Get(tag), ",")
	return word
}

// String names the function for people.
func (f *function) String() string { return f.verb + " " + f.id() }

// errorf is a fault of the graph at this function.
func (f *function) errorf(format string, args ...any) error {
	return &cell.GraphError{Module: f.scope.full, Where: f.scope.String(), Function: f.String(), Problem: fmt.Sprintf(format, args...)}
}

// call returns the results other than errors.
func (f *function) call(args []reflect.Value) (results []reflect.Value, err error) {
	if args, err = f.adjusted(args); err != nil {
		return nil, err
	}
	leave, err := f.enter()
	if err != nil {
		return nil, err
	}
	defer leave()
	defer func() {
		if p := recover(); p != nil {
			err = f.failed(&cell.PanicError{Value: p, Stack: debug.Stack()})
		}
	}()
	began := time.Now()
	values := f.value.Call(args)
	f.ran(max(time.Since(began), 1))
	for _, r := range values {
		if r.Type() != errorType {
			results = append(results, r)
		} else if !r.IsNil() {
			return nil, f.failed(r.Interface().(error))
		}
	}
	return results, nil
}

// ran notes how long the call took, which others may ask for already.
func (f *function) ran(d time.Duration) {
	f.scope.graph.mu.Lock()
	defer f.scope.graph.mu.Unlock()
	f.took = d
}

func (f *function) failed(err error) error {
	return &cell.BuildError{Module: f.scope.full, Where: f.scope.String(), Function: f.String(), Err: err}
}

// complete makes the results of a function for the container: zero values with an error.
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
