package graph

import (
	"errors"
	"reflect"

	"go.uber.org/dig"

	"github.com/statehive/statehive/hive/cell"
)

// view is a container with what one scope sees. Everything that functions of the scope need and that the container does not have
// yet gets a constructor in it, which fetches the value from the scope that offers it.
//
// Scopes of dig are not used for this: a new scope copies all constructors of its parents, and each public constructor is then
// announced to all scopes, so that the cost would grow with the square of the number of modules.
type view struct {
	container *dig.Container
	seen      map[key]bool
	functions int // how many of the used functions have what they need
}

// build calls the function, once unless it fails; the graph has been checked.
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
		return failed // which may be of a container of the user's
	}
	return dig.RootCause(err)
}

// view is the outermost scope in which all that the function needs is as it sees it: what modules have in common is known once.
func (f *function) view() *scope {
	outermost := f.scope.graph.root
	for _, n := range f.needs {
		if at := f.scope.source(n.key); at != nil && at.depth > outermost.depth && f.supplied(n) == nil {
			outermost = at
		}
	}
	return outermost
}

// given are the arguments that are there without a call, and the types of the rest.
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

// supplied is the supply of a parameter, or nil if it is not a plain one or has to be constructed.
func (f *function) supplied(n need) *function {
	if makers := f.scope.find(n.key); n.group == "" && len(n.at) == 1 && len(makers) > 0 && makers[0].verb == "supply" {
		return makers[0]
	}
	return nil
}

// guarded is the function for the container, which has the rest of the arguments constructed: its results are kept, and its error or
// its panic says where it comes from.
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

// opened returns the view with all that the used functions of the scope need.
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

// add has the container know a value, if there is one. Of what a decorator changes it has a zero value: see adjusted.
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

// make has a value made where it is offered; of a group, all values.
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

// gathered is what there is of a group by now.
func (s *scope) gathered(k key) reflect.Value {
	all := reflect.MakeSlice(reflect.SliceOf(k.typ), 0, 0)
	for _, f := range s.find(k) {
		if f.built {
			all = reflect.Append(all, f.made(k)...)
		}
	}
	return all
}

// made are the values of a key that the function has made: one, or any number of a group.
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
