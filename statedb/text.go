package statedb

import (
	"encoding"
	"fmt"
	"reflect"
	"strings"
	"time"
)

// column is an exported field of the row type, shown as text.
type column struct {
	name  string
	field []int
}

// columnsOf makes a column of every exported field, those of embedded structs
// included. Other types have one column.
func columnsOf[Obj any]() []column {
	t := reflect.TypeFor[Obj]()
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return []column{{name: "Value"}}
	}
	var columns []column
	for _, f := range reflect.VisibleFields(t) {
		embedded := f.Anonymous && holdsFields(f.Type)
		if f.IsExported() && !embedded {
			columns = append(columns, column{name: f.Name, field: f.Index})
		}
	}
	return columns
}

func holdsFields(t reflect.Type) bool {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t.Kind() == reflect.Struct
}

func cellsOf(obj any, columns []column) []string {
	v := reflect.ValueOf(obj)
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	cells := make([]string, len(columns))
	for i, c := range columns {
		if len(c.field) == 0 {
			cells[i] = cellText(v)
			continue
		}
		field, err := v.FieldByIndexErr(c.field)
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
