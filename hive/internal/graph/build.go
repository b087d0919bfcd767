package graph

import (
	"errors"
	"reflect"

	"go.uber.org/dig"

	"github.com/statehive/statehive/hive/cell"
)

// view is a container holding what one scope sees. Each value that a function of the scope needs, and that is not built yet, has a
// constructor here that builds it in the scope that provides it.
//
// Dig has scopes too, but a new scope copies everything its parent knows, and each public constructor is then copied to every scope:
// the cost would be quadratic in the number of modules.
type view struct {
	container *dig.Container
	seen      map[key]bool
	functions int // number of used functions whose needs have been added
}

// build calls the function unless it has succeeded before. The graph must have been checked.
func (f *function) build() error {
	if f.built {
		return nil
	}
	args, rest := f.given()
	if len(rest) == 0 {
		return f.run(args)
	}
	v, err := f.view().opened()
	if err != nil {
		return err
	}
	err = v.container.Invoke(f.guarded(args, rest))
	if failed := (*cell.BuildError)(nil); errors.As(err, &failed) {
		return failed // possibly from a dig container of the user's own
	}
	return dig.RootCause(err)
}

// view returns the outermost scope that resolves the function's needs as the function's own scope does, so that modules share
// constructors in one container.
func (f *function) view() *scope {
	outermost := f.scope.graph.root
	for _, n := range f.needs {
		if at := f.scope.source(n.key); at != nil && at.depth > outermost.depth && f.supplied(n) == nil {
			outermost = at
		}
	}
	return outermost
}

// given returns the arguments that are available without a call, and the types of the others.
func (f *function) given() (args []reflect.Value, rest []reflect.Type) {
	params := paramsOf(f.value.Type())
	args = make([]reflect.Value, len(params))
	for _, n := range f.needs {
		if maker := f.supplied(n); maker != nil {
			args[n.at[0]] = maker.results[0]
		}
	}
	for i, t := range params {
		if !args[i].IsValid() {
			rest = append(rest, t)
		}
	}
	return args, rest
}

// supplied returns the supplied value for a parameter, or nil if the parameter is not a plain one or has to be constructed.
func (f *function) supplied(n need) *function {
	if makers := f.scope.find(n.key); n.group == "" && len(n.at) == 1 && len(makers) > 0 && makers[0].verb == "supply" {
		return makers[0]
	}
	return nil
}

// guarded wraps the function for the container, which constructs the remaining arguments. The results are kept; an error or a panic
// names the function.
func (f *function) guarded(args []reflect.Value, rest []reflect.Type) any {
	typ := reflect.FuncOf(rest, []reflect.Type{errorType}, false)
	return reflect.MakeFunc(typ, func(made []reflect.Value) []reflect.Value {
		for i := range args {
			if !args[i].IsValid() {
				args[i], made = made[0], made[1:]
			}
		}
		return complete(typ, nil, f.run(args))
	}).Interface()
}

// run calls the function and keeps its results.
func (f *function) run(args []reflect.Value) error {
	results, err := f.call(args)
	if err == nil {
		f.results, f.built = results, true
	}
	return err
}

// opened returns the view, containing everything that the used functions of the scope need.
func (s *scope) opened() (*view, error) {
	if s.view == nil {
		s.view = &view{container: dig.New(dig.DeferAcyclicVerification()), seen: make(map[key]bool)}
	}
	for ; s.view.functions < len(s.used); s.view.functions++ {
		f := s.used[s.view.functions]
		for _, n := range f.needs {
			if f.supplied(n) != nil {
				continue
			}
			if err := s.view.add(s, n.key); err != nil {
				return nil, err
			}
		}
	}
	return s.view, nil
}

// add adds a value to the container, if one is provided. A decorated value is a zero value there; see adjusted.
func (v *view) add(s *scope, k key) error {
	if v.seen[k] || k.group == "" && s.source(k) == nil {
		return nil
	}
	v.seen[k] = true
	var options []dig.ProvideOption
	out := k.typ
	switch {
	case k.group != "":
		out = reflect.SliceOf(k.typ)
		options = append(options, dig.Group(k.group+",flatten"))
	case k.name != "":
		options = append(options, dig.Name(k.name))
	}
	typ := reflect.FuncOf(nil, []reflect.Type{out, errorType}, false)
	constructor := reflect.MakeFunc(typ, func([]reflect.Value) []reflect.Value {
		if s.graph.decorated[k] {
			return complete(typ, []reflect.Value{reflect.Zero(out)}, nil)
		}
		made, err := s.make(k)
		return complete(typ, []reflect.Value{made}, err)
	})
	if err := v.container.Provide(constructor.Interface(), options...); err != nil {
		return s.errorf("%v: %v", k, dig.RootCause(err))
	}
	return nil
}

// make builds a value in the scope that provides it; for a group, all its values.
func (s *scope) make(k key) (reflect.Value, error) {
	makers := s.find(k)
	if k.group == "" {
		return makers[0].make(k)
	}
	for _, f := range makers {
		if err := f.build(); err != nil {
			return reflect.Value{}, err
		}
	}
	return s.gathered(k), nil
}

// make calls the function and returns one of its results.
func (f *function) make(k key) (v reflect.Value, err error) {
	if err = f.build(); err == nil {
		v = f.made(k)[0]
	}
	return v, err
}

// gathered returns the values of a group that have been built so far.
func (s *scope) gathered(k key) reflect.Value {
	all := reflect.MakeSlice(reflect.SliceOf(k.typ), 0, 0)
	for _, f := range s.find(k) {
		if f.built {
			all = reflect.Append(all, f.made(k)...)
		}
	}
	return all
}

// made returns the values that the function has built for a key: one, or any number for a group.
func (f *function) made(k key) []reflect.Value {
	var all []reflect.Value
	for _, m := range f.makes {
		if m.key != k {
			continue
		}
		v := fieldOf(f.results[m.at[0]], m.at[1:])
		if !m.flat {
			all = append(all, v)
			continue
		}
		for i := range v.Len() {
			all = append(all, v.Index(i))
		}
	}
	return all
}
