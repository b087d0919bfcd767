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

// key identifies a value, as in dig.
type key struct {
	typ         reflect.Type
	name, group string
}

func (k key) String() string {
	name := typeName(k.typ)
	switch {
	case k.group != "":
		return fmt.Sprintf("%s group:%q", name, k.group)
	case k.name != "":
		return fmt.Sprintf("%s name:%q", name, k.name)
	}
	return name
}

// typeName returns the name of a type as users write it: statedb names some types of an internal package.
func typeName(t reflect.Type) string {
	elem := t
	for elem.Kind() == reflect.Pointer || elem.Kind() == reflect.Slice {
		elem = elem.Elem()
	}
	if elem.PkgPath() == "github.com/statehive/statehive/internal/store" {
		return strings.Replace(t.String(), "store.", "statedb.", 1)
	}
	return t.String()
}

// fieldPath is the path to a value: the index of the parameter or result, not counting errors, followed by the indexes of nested fields.
type fieldPath []int

func (p fieldPath) field(i int) fieldPath { return append(p[:len(p):len(p)], i) }

// need is a dependency.
type need struct {
	key
	at       fieldPath
	optional bool
	soft     bool // for a group: only values that are built anyway
}

// made is a result.
type made struct {
	key
	at   fieldPath
	flat bool // for a group: a slice of values
}

// function is a constructor, an invoked function or a decorator of a cell.
type function struct {
	verb  string // "provide", "supply", "invoke" or "decorate"
	name  string
	at    description.Position // of the function's source
	scope *scope               // in which its dependencies are looked up
	value reflect.Value
	signature
	decorator *decorator // nil if it is not the function of a decorator
	own       bool       // provided by the hive itself
	// forModules marks one of the copies that ProvideForModules makes, one per module.
	forModules bool
	used       bool // reachable from an invoked function
	built      bool
	results    []reflect.Value // other than errors; set once built
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

// newSupply returns a function that counts as called already and whose result is value.
func newSupply(value reflect.Value, s *scope, at description.Position) *function {
	return &function{
		verb: "supply", name: typeName(value.Type()), at: at, scope: s, own: s.graph.applyingOwn,
		signature: signature{makes: []made{{key: key{typ: value.Type()}, at: fieldPath{0}}}}, built: true, results: []reflect.Value{value},
	}
}

func needsOf(t reflect.Type, at fieldPath) []need {
	if !isIn(t) {
		return []need{{key: key{typ: t}, at: at}}
	}
	var needs []need
	for i := range t.NumField() {
		needs = append(needs, needsOfField(t.Field(i), at.field(i))...)
	}
	return needs
}

func needsOfField(f reflect.StructField, at fieldPath) []need {
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

func makesOf(t reflect.Type, at fieldPath) []made {
	if !isOut(t) {
		return []made{{key: key{typ: t}, at: at}}
	}
	var makes []made
	for i := range t.NumField() {
		makes = append(makes, makesOfField(t.Field(i), at.field(i))...)
	}
	return makes
}

func makesOfField(f reflect.StructField, at fieldPath) []made {
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

// tagWord returns the value of a tag without its modifiers.
func tagWord(f reflect.StructField, tag string) string {
	word, _, _ := strings.Cut(f.Tag.Get(tag), ",")
	return word
}

// String returns the verb, name and position of the function.
func (f *function) String() string { return f.verb + " " + f.id() }

// errorf returns a GraphError for this function.
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

// ran records the duration of the call. Describe may read it concurrently.
func (f *function) ran(d time.Duration) {
	f.scope.graph.mu.Lock()
	defer f.scope.graph.mu.Unlock()
	f.took = d
}

func (f *function) failed(err error) error {
	return &cell.BuildError{Module: f.scope.full, Where: f.scope.String(), Function: f.String(), Err: err}
}

// complete returns results for the container; with an error, all others are zero values.
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
