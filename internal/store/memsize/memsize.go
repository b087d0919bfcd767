// Package memsize estimates the heap memory that values use.
//
// A [Meter] belongs to one goroutine. It reads the memory that the values refer to, which
// must not be changed meanwhile. It does not follow locks, atomics, channels and functions,
// because the memory behind them may change and does not belong to the value.
package memsize

import (
	"reflect"
	"strings"
	"time"
	"unsafe"
)

// Alloc returns the memory that an object of n bytes occupies. The allocator's size
// classes are 8 to 25 % apart.
func Alloc(n int) int {
	switch {
	case n <= 0:
		return 0
	case n <= 32:
		return up(n, 8)
	case n <= 256:
		return up(n, 16)
	}
	step := 32
	for n > step*16 {
		step *= 2
	}
	return up(n, step)
}

func up(n, step int) int { return (n + step - 1) / step * step }

// Meter counts each object once, however many values share it.
type Meter struct{ seen map[unsafe.Pointer]struct{} }

// New returns a Meter that has seen nothing.
func New() *Meter { return &Meter{seen: map[unsafe.Pointer]struct{}{}} }

// Behind returns the size of all memory that a value refers to, without the value itself.
func (m *Meter) Behind(v reflect.Value) int {
	switch v.Kind() {
	case reflect.String:
		return m.first(unsafe.Pointer(unsafe.StringData(v.String())), v.Len())
	case reflect.Slice:
		return m.slice(v)
	case reflect.Pointer:
		return m.pointer(v)
	case reflect.Map:
		return m.table(v)
	case reflect.Interface:
		return m.dynamic(v)
	case reflect.Struct:
		return m.fields(v)
	case reflect.Array:
		return m.items(v)
	}
	return 0
}

// first returns the size of an object if it has not been seen before, and 0 otherwise.
func (m *Meter) first(p unsafe.Pointer, n int) int {
	if _, seen := m.seen[p]; seen || p == nil || n == 0 {
		return 0
	}
	m.seen[p] = struct{}{}
	return Alloc(n)
}

func (m *Meter) slice(v reflect.Value) int {
	size := m.first(v.UnsafePointer(), v.Cap()*int(v.Type().Elem().Size()))
	if size == 0 || !leads(v.Type().Elem()) {
		return size
	}
	return size + m.items(v)
}

func (m *Meter) items(v reflect.Value) (size int) {
	if !leads(v.Type().Elem()) {
		return 0
	}
	for i := range v.Len() {
		size += m.Behind(v.Index(i))
	}
	return size
}

func (m *Meter) fields(v reflect.Value) (size int) {
	if live(v.Type()) {
		return 0
	}
	for i := range v.NumField() {
		size += m.Behind(v.Field(i))
	}
	return size
}

func (m *Meter) pointer(v reflect.Value) int {
	if v.IsNil() || live(v.Type().Elem()) {
		return 0
	}
	size := m.first(v.UnsafePointer(), int(v.Type().Elem().Size()))
	if size == 0 {
		return 0
	}
	return size + m.Behind(v.Elem())
}

// dynamic returns the size of the value in an interface: a pointer is stored in the interface, any other value is allocated.
func (m *Meter) dynamic(v reflect.Value) int {
	if v.IsNil() {
		return 0
	}
	held := v.Elem()
	switch held.Kind() {
	case reflect.Pointer, reflect.Map, reflect.Chan, reflect.Func, reflect.UnsafePointer:
		return m.Behind(held)
	}
	return Alloc(int(held.Type().Size())) + m.Behind(held)
}

// table returns the size of a map: it has groups of eight slots, of which up to seven eighths are in use.
func (m *Meter) table(v reflect.Value) int {
	const header, directory, control, slots = 48, 40, 8, 8
	if v.IsNil() || m.first(v.UnsafePointer(), header) == 0 {
		return 0
	}
	group := control + slots*int(v.Type().Key().Size()+v.Type().Elem().Size())
	size := header + Alloc(group)
	if v.Len() > slots {
		groups := 2
		for groups*slots*7/8 < v.Len() {
			groups *= 2
		}
		size = header + directory + Alloc(groups*group)
	}
	if !leads(v.Type().Key()) && !leads(v.Type().Elem()) {
		return size
	}
	for it := v.MapRange(); it.Next(); {
		size += m.Behind(it.Key()) + m.Behind(it.Value())
	}
	return size
}

// leads reports whether values of a type may refer to other memory.
func leads(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.String, reflect.Slice, reflect.Pointer, reflect.Map, reflect.Interface:
		return true
	case reflect.Array:
		return leads(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			if leads(t.Field(i).Type) {
				return true
			}
		}
	}
	return false
}

// live reports whether values of a type may change while they are read, or belong
// to the whole program.
func live(t reflect.Type) bool {
	if t == reflect.TypeFor[time.Location]() || t.PkgPath() == "sync" || strings.HasPrefix(t.PkgPath(), "sync/") {
		return true
	}
	if t.Kind() != reflect.Struct {
		return false
	}
	for i := range t.NumField() {
		if f := t.Field(i).Type; f.Kind() == reflect.Struct && live(f) {
			return true
		}
	}
	return false
}
