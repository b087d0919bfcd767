package statedb

import (
	"encoding"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Column is a cell of a row as text.
type Column[Obj any] struct {
	Name string
	Cell func(Obj) string
}

// columns are the cells of a row type.
type columns[Obj any] struct {
	names []string
	cells func(Obj) []string
}

func (s *Schema[Obj]) checkColumns() error {
	seen := map[string]bool{}
	for i, c := range s.Columns {
		switch {
		case c.Name == "":
			return fmt.Errorf("Columns[%d] has no name", i)
		case c.Cell == nil:
			return fmt.Errorf("column %q has no function Cell", c.Name)
		case seen[c.Name]:
			return fmt.Errorf("two columns are named %q", c.Name)
		}
		seen[c.Name] = true
	}
	return nil
}

func (s *Schema[Obj]) columns() columns[Obj] {
	if len(s.Columns) == 0 {
		return fieldColumns[Obj]()
	}
	declared := slices.Clone(s.Columns)
	names := make([]string, len(declared))
	for i, c := range declared {
		names[i] = c.Name
	}
	return columns[Obj]{names, func(obj Obj) []string {
		cells := make([]string, len(declared))
		for i, c := range declared {
			cells[i] = c.Cell(obj)
		}
		return cells
	}}
}

// fieldColumns makes a column of every exported field, those of embedded structs
// included. Other types have one column.
func fieldColumns[Obj any]() columns[Obj] {
	t := structOf(reflect.TypeFor[Obj]())
	if t.Kind() != reflect.Struct {
		return columns[Obj]{[]string{"Value"}, func(obj Obj) []string { return fieldCells(obj, [][]int{nil}) }}
	}
	var names []string
	var fields [][]int
	for _, f := range reflect.VisibleFields(t) {
		embedded := f.Anonymous && holdsFields(f.Type)
		if f.IsExported() && !embedded {
			names, fields = append(names, f.Name), append(fields, f.Index)
		}
	}
	return columns[Obj]{names, func(obj Obj) []string { return fieldCells(obj, fields) }}
}

func holdsFields(t reflect.Type) bool { return structOf(t).Kind() == reflect.Struct }

// structOf is what t, or the pointer t, may be a struct of.
func structOf(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Pointer {
		return t.Elem()
	}
	return t
}

// fieldCells is the text of the fields at the given places; nil is obj itself.
func fieldCells(obj any, fields [][]int) []string {
	v := reflect.ValueOf(obj)
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	cells := make([]string, len(fields))
	for i, index := range fields {
		if len(index) == 0 {
			cells[i] = cellText(v)
			continue
		}
		field, err := v.FieldByIndexErr(index)
		if err == nil { // an embedded nil pointer has nothing to show
			cells[i] = cellText(field)
		}
	}
	return cells
}

func cellText(v reflect.Value) string {
	switch {
	case v.Kind() == reflect.Interface:
		v = v.Elem()
		if !v.IsValid() {
			return ""
		}
		return cellText(v)
	case isNilPointer(v):
		return ""
	}
	switch x := v.Interface().(type) {
	case time.Time:
		if x.IsZero() {
			return "" // "never" in every row that has one
		}
		return x.Format(time.RFC3339Nano)
	case encoding.TextMarshaler:
		if text, err := x.MarshalText(); err == nil {
			return string(text)
		}
	case fmt.Stringer, error:
		return fmt.Sprint(x) // which survives a method that panics
	}
	switch v.Kind() {
	case reflect.Pointer:
		return cellText(v.Elem())
	case reflect.Slice, reflect.Array:
		return listText(v)
	}
	return fmt.Sprint(v.Interface())
}

func listText(v reflect.Value) string {
	if v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Uint8 {
		return string(v.Bytes())
	}
	items := make([]string, v.Len())
	for i := range items {
		items[i] = cellText(v.Index(i))
	}
	return strings.Join(items, ",")
}

func isNilPointer(v reflect.Value) bool { return v.Kind() == reflect.Pointer && v.IsNil() }
