package store

import (
	"encoding"
	"fmt"
	"reflect"
	"strings"
	"time"
	"unsafe"
)

// cells returns the text of the cells of a row.
func (r *RowType) cells(row unsafe.Pointer) []string {
	if r.fields != nil {
		return fieldCells(r.value(row), r.fields)
	}
	cells := make([]string, len(r.Columns))
	for i := range cells {
		cells[i] = r.Cell(i, row)
	}
	return cells
}

// setFieldColumns makes a column of every exported field, including the fields of embedded
// structs. Types that are not structs have one column.
func (r *RowType) setFieldColumns() {
	t := structOf(r.Type)
	if t.Kind() != reflect.Struct {
		r.Columns, r.fields = []string{"Value"}, [][]int{nil}
		return
	}
	for _, f := range reflect.VisibleFields(t) {
		embedded := f.Anonymous && holdsFields(f.Type)
		if f.IsExported() && !embedded {
			r.Columns, r.fields = append(r.Columns, f.Name), append(r.fields, f.Index)
		}
	}
}

func holdsFields(t reflect.Type) bool { return structOf(t).Kind() == reflect.Struct }

// structOf returns t, or the type that t points to: the type that may be a struct.
func structOf(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Pointer {
		return t.Elem()
	}
	return t
}

// fieldCells returns the text of the fields with these paths; an empty path is the row
// itself.
func fieldCells(v reflect.Value, fields [][]int) []string {
	if v.Kind() == reflect.Interface {
		v = v.Elem()
	}
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
			return "" // not set
		}
		return x.Format(time.RFC3339Nano)
	case encoding.TextMarshaler:
		if text, err := x.MarshalText(); err == nil {
			return string(text)
		}
	case fmt.Stringer, error:
		return fmt.Sprint(x) // fmt recovers from a panic in the method
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
