package graph

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/internal/description"
)

func (s *scope) applyConfig(c *description.Config) error {
	typ := c.Defaults.Type()
	if typ.Kind() != reflect.Struct {
		return s.errorf("Config at %v: expected a struct, got %v; pass the struct itself, not a pointer", c.At, typ)
	}
	b := newBlock(s, fmt.Sprintf("Config[%v] (%v)", typ, c.At), c.Defaults)
	if err := checkValidate(b.target.Type()); err != nil {
		return s.errorf("%s: %v", b.name, err)
	}
	if err := errors.Join(s.graph.settings.add(b)...); err != nil {
		return err
	}
	f, err := newFunction("provide", b.constructor(), s, c.At)
	if err != nil {
		return err
	}
	f.name, f.at = fmt.Sprintf("Config[%v]", typ), c.At
	return s.provide(f, false)
}

// settings are all settings of a graph.
type settings struct {
	blocks []*block
	all    []*setting
	byFlag map[string]*setting
	byEnv  map[string]*setting // by EnvName without a prefix

	byShorthand map[string]*setting
}

// block is the struct of one Config cell.
type block struct {
	scope    *scope
	name     string
	defaults reflect.Value // the struct
	target   reflect.Value // pointer to the struct being configured
	ready    bool
}

func newBlock(s *scope, name string, defaults reflect.Value) *block {
	b := &block{scope: s, name: name, defaults: defaults, target: reflect.New(defaults.Type())}
	b.target.Elem().Set(defaults)
	return b
}

// String returns the block's name for error messages.
func (b *block) String() string { return b.scope.String() + ": " + b.name }

// setting is one field that can be set from outside.
type setting struct {
	block       *block
	flag, usage string
	shorthand   string // a letter or digit; empty for none
	deprecated  string // what to use instead; empty if not deprecated
	hidden      bool   // from the usage
	value       *value
	byDefault   string // the default, as text
	origin      string // empty for the default
	fault       error  // why the given value was rejected
}

// constructor returns a func() (C, error).
func (b *block) constructor() any {
	typ := b.target.Type().Elem()
	fn := reflect.FuncOf(nil, []reflect.Type{typ, errorType}, false)
	return reflect.MakeFunc(fn, func([]reflect.Value) []reflect.Value {
		if !b.ready {
			return complete(fn, nil, cell.ErrNotConfigured)
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
		if err := checkTags(f); err != nil {
			errs = append(errs, b.scope.errorf("%s: field %s: %v", b.name, f.Name, err))
			continue
		}
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
	val, err := newValue(v)
	if err != nil {
		return b.scope.errorf("%s: field %s: %v", b.name, f.Name, err)
	}
	val.secret = f.Tag.Get("secret") == "true"
	added := &setting{
		block: b, flag: name, usage: f.Tag.Get("usage"), value: val, byDefault: val.String(),
		shorthand: f.Tag.Get("shorthand"), deprecated: f.Tag.Get("deprecated"), hidden: f.Tag.Get("hidden") == "true",
	}
	if err := ss.vet(added); err != nil {
		return b.scope.errorf("%s: field %s: %v", b.name, f.Name, err)
	}
	ss.addSetting(added)
	return nil
}
