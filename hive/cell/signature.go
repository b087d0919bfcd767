package cell

import (
	"reflect"

	"go.uber.org/dig"
)

// signature is what the type of a function says. Functions of one type share it.
type signature struct {
	needs []need
	makes []made
	fault error // why the container does not accept it
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
	s := &signature{fault: vet(t)}
	for i := range fixedParams(t) {
		s.needs = append(s.needs, needsOf(t.In(i), place{i})...)
	}
	results := 0
	for i := range t.NumOut() {
		if out := t.Out(i); out != errorType {
			s.makes = append(s.makes, makesOf(out, place{results})...)
			results++
		}
	}
	return s
}

// vet has the container look at a function's parameters and results, if there is more to them than plain types.
func vet(t reflect.Type) error {
	in := make([]reflect.Type, fixedParams(t))
	out := make([]reflect.Type, t.NumOut())
	marked := false
	for i := range in {
		in[i] = t.In(i)
		marked = marked || isMarked(in[i])
	}
	for i := range out {
		out[i] = t.Out(i)
		marked = marked || isMarked(out[i])
	}
	if !marked {
		return nil
	}
	if len(out) == 0 || len(out) == 1 && out[0] == errorType {
		out = []reflect.Type{reflect.TypeFor[struct{}]()} // it is no constructor
	}
	fn := reflect.MakeFunc(reflect.FuncOf(in, out, false), func([]reflect.Value) []reflect.Value { return nil })
	return dig.RootCause(dig.New(dig.DeferAcyclicVerification()).Provide(fn.Interface()))
}

// isIn and isOut are those of the container, which are slow for types that are no structs.
func isIn(t reflect.Type) bool { return t.Kind() == reflect.Struct && dig.IsIn(t) }

func isOut(t reflect.Type) bool { return t.Kind() == reflect.Struct && dig.IsOut(t) }

// isMarked reports whether a parameter or a result has to do with In or Out.
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
		if f.Anonymous && (f.Type == reflect.TypeFor[*In]() || f.Type == reflect.TypeFor[*Out]()) {
			return true
		}
	}
	return false
}
