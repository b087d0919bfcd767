package cell

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/spf13/pflag"
)

// Config offers a struct of settings, of type C, to all modules. The values in defaults are the defaults. A field that can be
// set from outside is tagged `flag:"config-dir" usage:"directory of documents"`; it is a string, bool, number,
// time.Duration, []string or implements encoding.TextUnmarshaler. The flag wins over the environment variable of the same
// name, such as STATEHIVE_CONFIG_DIR, and that over the default. A []string is separated by commas, and its flag may be
// repeated. Embedded structs count as part of C.
//
// If C or *C has a method Validate() error, it is called before anything is constructed.
func Config[C any](defaults C) Cell {
	return &config{defaults: reflect.ValueOf(&defaults).Elem(), at: caller()}
}

type config struct {
	defaults reflect.Value
	at       position
}

func (c *config) apply(s *scope) error {
	typ := c.defaults.Type()
	if typ.Kind() != reflect.Struct {
		return s.errorf("Config at %v: expected a struct, got %v", c.at, typ)
	}
	b := &block{scope: s, name: fmt.Sprintf("Config[%v] (%v)", typ, c.at), target: reflect.New(typ)}
	b.target.Elem().Set(c.defaults)
	if err := errors.Join(s.graph.settings.add(b)...); err != nil {
		return err
	}
	f, err := newFunction("provide", b.constructor(), s, c.at)
	if err != nil {
		return err
	}
	f.name, f.at = fmt.Sprintf("Config[%v]", typ), c.at
	return s.provide(f, public)
}

// settings are all that can be configured in a graph.
type settings struct {
	blocks []*block
	all    []*setting
}

// block is the struct of one Config cell.
type block struct {
	scope  *scope
	name   string
	target reflect.Value // pointer to the struct
	ready  bool
}

// setting is one field that can be set from outside.
type setting struct {
	block       *block
	flag, usage string
	value       *value
}

// constructor is a func() (C, error).
func (b *block) constructor() any {
	typ := b.target.Type().Elem()
	fn := reflect.FuncOf(nil, []reflect.Type{typ, errorType}, false)
	return reflect.MakeFunc(fn, func([]reflect.Value) []reflect.Value {
		if !b.ready {
			return complete(fn, nil, ErrNotConfigured)
		}
		return complete(fn, []reflect.Value{b.target.Elem()}, nil)
	}).Interface()
}

func (ss *settings) add(b *block) []error {
	ss.blocks = append(ss.blocks, b)
	return ss.addFields(b, b.target.Elem())
}

func (ss *settings) addFields(b *block, v reflect.Value) []error {
	var errs []error
	for i := range v.NumField() {
		f := v.Type().Field(i)
		name, tagged := f.Tag.Lookup("flag")
		switch {
		case !tagged && f.Anonymous && f.Type.Kind() == reflect.Struct:
			errs = append(errs, ss.addFields(b, v.Field(i))...)
		case tagged:
			errs = append(errs, ss.addField(b, f, name, v.Field(i)))
		}
	}
	return errs
}

func (ss *settings) addField(b *block, f reflect.StructField, name string, v reflect.Value) error {
	if !f.IsExported() {
		return b.scope.errorf("%s: field %s: a field with a flag must be exported", b.name, f.Name)
	}
	if name == "" {
		return b.scope.errorf("%s: field %s: its flag has no name", b.name, f.Name)
	}
	val, err := newValue(v)
	if err != nil {
		return b.scope.errorf("%s: field %s: %v", b.name, f.Name, err)
	}
	for _, other := range ss.all {
		if other.flag == name {
			return b.scope.errorf("%s: field %s: the flag --%s is also that of %v: %s",
				b.name, f.Name, name, other.block.scope, other.block.name)
		}
	}
	ss.all = append(ss.all, &setting{block: b, flag: name, usage: f.Tag.Get("usage"), value: val})
	return nil
}

// RegisterFlags adds the flags of all cells to fs. It fails, and adds none, if fs has one of these names.
func (g *Graph) RegisterFlags(fs *pflag.FlagSet) error {
	var errs []error
	for _, s := range g.settings.all {
		if fs.Lookup(s.flag) != nil {
			errs = append(errs, s.block.scope.errorf("%s: there is a flag --%s already", s.block.name, s.flag))
		}
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	for _, s := range g.settings.all {
		flag := fs.VarPF(s.value, s.flag, "", s.usage)
		flag.NoOptDefVal = s.value.implied
	}
	return nil
}

// Configure reads the environment for all that no flag has set, and validates. It must come before Construct and after the
// parsing of flags. Faults are *ConfigError; all of them are returned.
func (g *Graph) Configure(envPrefix string, lookup func(string) (string, bool)) error {
	var errs []error
	for _, s := range g.settings.all {
		errs = append(errs, s.fromEnvironment(envPrefix, lookup))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for _, b := range g.settings.blocks {
		errs = append(errs, b.validate())
		b.ready = true
	}
	return errors.Join(errs...)
}

// EnvName is the environment variable of a flag.
func EnvName(prefix, flag string) string {
	return prefix + "_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

func (s *setting) fromEnvironment(prefix string, lookup func(string) (string, bool)) error {
	name := EnvName(prefix, s.flag)
	text, ok := lookup(name)
	if !ok || s.value.given {
		return nil
	}
	if err := s.value.assign(text); err != nil {
		return &ConfigError{Module: s.block.scope.full, Origin: "environment variable " + name, Value: text, Err: err}
	}
	return nil
}

func (b *block) validate() error {
	v, ok := b.target.Interface().(interface{ Validate() error })
	if !ok {
		return nil
	}
	if err := v.Validate(); err != nil {
		return &ConfigError{Module: b.scope.full, Err: err}
	}
	return nil
}
