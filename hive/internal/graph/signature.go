package graph

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"go.uber.org/dig"

	"github.com/statehive/statehive/hive/cell"
)

// signature holds what follows from a function's type. Functions of one type share it.
type signature struct {
	needs []need
	makes []made
	fault error // why the container rejects it
}

func (g *Graph) signatureOf(t reflect.Type) *signature {
	s := g.signatures[t]
	if s == nil {
		s = newSignature(t)
		g.signatures[t] = s
	}
	return s
}

func newSignature(t reflect.Type) *signature {
	s := &signature{}
	params, marked := paramsOf(t), false
	for i, in := range params {
		s.needs = append(s.needs, needsOf(in, fieldPath{i})...)
		marked = marked || isMarked(in)
		s.fault = cmp.Or(s.fault, checkFields(in))
	}
	results := 0
	for i := range t.NumOut() {
		if t.Out(i) == errorType && i < t.NumOut()-1 {
			s.fault = cmp.Or(s.fault, fmt.Errorf("expected the error to be the last result, got %v", t))
		}
		if out := t.Out(i); out != errorType {
			s.makes = append(s.makes, makesOf(out, fieldPath{results})...)
			marked = marked || isMarked(out)
			s.fault = cmp.Or(s.fault, checkFields(out))
			results++
		}
	}
	if marked && results == 0 {
		t = reflect.FuncOf(params, []reflect.Type{reflect.TypeFor[struct{}]()}, false) // the container requires a result
	}
	if marked && s.fault == nil {
		fn := reflect.MakeFunc(t, func([]reflect.Value) []reflect.Value { return nil })
		if err := dig.RootCause(dig.New(dig.DeferAcyclicVerification()).Provide(fn.Interface())); err != nil {
			s.fault = errors.New(strings.NewReplacer("dig.In", "cell.In", "dig.Out", "cell.Out").Replace(err.Error()))
		}
	}
	return s
}

// paramsOf returns the parameter types, except the variadic one, which the container ignores.
func paramsOf(t reflect.Type) []reflect.Type {
	in := make([]reflect.Type, t.NumIn())
	for i := range in {
		in[i] = t.In(i)
	}
	if t.IsVariadic() {
		in = in[:len(in)-1]
	}
	return in
}

// checkFields reports misspelled tags, which the container would ignore, in structs of parameters or results.
func checkFields(t reflect.Type) error {
	if !isIn(t) && !isOut(t) {
		return nil
	}
	for f := range t.Fields() {
		tags, err := parseTag(f.Tag)
		for key := range tags { // with a limit of 2, yaml would be name
			if best, ok := Meant(strings.ToLower(key), []string{"name", "group", "optional"}, 1); ok && best != key {
				err = fmt.Errorf("unknown tag %q: write %s:%q", key, best, tags[key])
			}
		}
		if text, ok := tags["optional"]; ok && text != "true" && text != "false" {
			err = cmp.Or(err, fmt.Errorf("optional:%q: expected \"true\", or no such tag", text))
		}
		if err = cmp.Or(err, checkFields(f.Type)); err != nil {
			return fmt.Errorf("bad field %q of %v: %w", f.Name, t, err)
		}
	}
	return nil
}

// lacksIn reports whether a type looks like a struct of parameters, but does not embed In.
func lacksIn(t reflect.Type) bool {
	if t.Kind() != reflect.Struct || isIn(t) {
		return false
	}
	for f := range t.Fields() {
		for _, tag := range []string{"name", "group", "optional"} {
			if _, ok := f.Tag.Lookup(tag); ok {
				return true
			}
		}
	}
	return false
}

// isIn and isOut wrap dig's functions, which are slow for types other than structs.
func isIn(t reflect.Type) bool { return t.Kind() == reflect.Struct && dig.IsIn(t) }

func isOut(t reflect.Type) bool { return t.Kind() == reflect.Struct && dig.IsOut(t) }

// isMarked reports whether a parameter or a result embeds In or Out, correctly or not.
func isMarked(t reflect.Type) bool {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return false
	}
	if isIn(t) || isOut(t) {
		return true
	}
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous && (f.Type == reflect.TypeFor[*cell.In]() || f.Type == reflect.TypeFor[*cell.Out]()) {
			return true
		}
	}
	return false
}
