package file

import (
	"encoding"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// kindField is the field of a document that names its kind.
const kindField = "kind"

// field is a field of a struct as documents spell it.
type field struct {
	name  string
	index []int
}

// catalog describes a row type and the types in it.
type catalog struct {
	structs map[reflect.Type][]field
	own     map[reflect.Type]bool // types that decode themselves
	lists   map[reflect.Type]bool // types that are made of a slice
}

// list is implemented by types that are lists in documents and are made of a slice, such
// as immutable.List.
type list interface{ FromSlice(fill func(slice any)) }

var (
	textUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()
	yamlUnmarshaler = reflect.TypeFor[yaml.Unmarshaler]()
	madeOfSlice     = reflect.TypeFor[list]()
)

// sliceOf returns the type of the slice that a list is made of.
func sliceOf(t reflect.Type) (slice reflect.Type) {
	reflect.New(t).Interface().(list).FromSlice(func(s any) { slice = reflect.TypeOf(s).Elem() }) //nolint:forcetypeassert // add has checked it
	return slice
}

// decodesItself reports whether a type has a decoding method.
func decodesItself(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return p.Implements(textUnmarshaler) || p.Implements(yamlUnmarshaler)
}

// catalogOf lists the fields of a row type. Types that documents cannot express are errors.
func catalogOf(row reflect.Type) (catalog, error) {
	if row.Kind() == reflect.Pointer {
		row = row.Elem()
	}
	if row.Kind() != reflect.Struct {
		return catalog{}, fmt.Errorf("the row type is %v, expected a struct or a pointer to one", row)
	}
	c := catalog{structs: map[reflect.Type][]field{}, own: map[reflect.Type]bool{}, lists: map[reflect.Type]bool{}}
	if err := c.add(row, row.Name()); err != nil {
		return catalog{}, err
	}
	for _, f := range c.structs[row] {
		if f.name == kindField {
			return catalog{}, errors.New(`the row type has a field "kind", which documents use for the name of the kind`)
		}
	}
	return c, nil
}

func (c catalog) add(t reflect.Type, path string) error {
	switch {
	case decodesItself(t):
		c.own[t] = true
		return nil
	case reflect.PointerTo(t).Implements(madeOfSlice):
		c.lists[t] = true
		return c.add(sliceOf(t), path)
	case t.Kind() == reflect.Struct:
		return c.addStruct(t, path)
	case t.Kind() == reflect.Map:
		return errors.Join(c.add(t.Key(), path), c.add(t.Elem(), path))
	case slices.Contains([]reflect.Kind{reflect.Pointer, reflect.Slice, reflect.Array}, t.Kind()):
		return c.add(t.Elem(), path)
	case slices.Contains([]reflect.Kind{reflect.Chan, reflect.Func, reflect.UnsafePointer}, t.Kind()):
		return fmt.Errorf(`%s is a %v, which documents cannot express: tag it yaml:"-"`, path, t)
	}
	return nil
}

func (c catalog) addStruct(t reflect.Type, path string) error {
	if _, known := c.structs[t]; known {
		return nil
	}
	c.structs[t] = nil
	fields := fieldsOf(t, nil)
	c.structs[t] = fields
	for i, f := range fields {
		if slices.ContainsFunc(fields[:i], func(g field) bool { return g.name == f.name }) {
			return fmt.Errorf("%s has two fields %q", path, f.name)
		}
		if err := c.add(t.FieldByIndex(f.index).Type, path+"."+t.FieldByIndex(f.index).Name); err != nil {
			return err
		}
	}
	return nil
}

// fieldsOf returns the fields of a struct by the rules of the yaml package: names are
// lower case by default, fields tagged "-" are left out, and structs tagged "inline" are
// part of their parent.
func fieldsOf(t reflect.Type, parent []int) []field {
	var fields []field
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		index := append(slices.Clone(parent), i)
		switch {
		case name == "-" || !f.IsExported() && !f.Anonymous:
		case f.Type.Kind() == reflect.Struct && slices.Contains(strings.Split(options, ","), "inline"):
			fields = append(fields, fieldsOf(f.Type, index)...)
		case f.IsExported():
			if name == "" {
				name = strings.ToLower(f.Name)
			}
			fields = append(fields, field{name: name, index: index})
		}
	}
	return fields
}

func names(fields []field) []string {
	all := make([]string, len(fields))
	for i, f := range fields {
		all[i] = f.name
	}
	slices.Sort(all)
	return all
}

// instead returns a hint about a name that does not exist: the known names, and the most similar one.
func instead(name, plural string, known []string) string {
	if len(known) == 0 {
		return "there are no " + plural
	}
	text := fmt.Sprintf("the %s are: %s", plural, strings.Join(known, ", "))
	if near := nearest(name, known); near != "" {
		text = fmt.Sprintf("did you mean %q? %s%s", near, strings.ToUpper(text[:1]), text[1:])
	}
	return text
}

// nearest returns the known name that name is most likely a misspelling of, or "".
func nearest(name string, known []string) string {
	best, distance := "", 1+max(1, min(len(name), 9)/3)
	for _, k := range known {
		if d := editDistance(name, k, distance); d < distance {
			best, distance = k, d
		}
	}
	return best
}

// editDistance returns the number of insertions, removals, replacements and swaps of
// neighbors that turn a into b, or limit if there are at least that many.
func editDistance(a, b string, limit int) int {
	if len(a)-len(b) >= limit || len(b)-len(a) >= limit {
		return limit
	}
	before, row, next := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		next[0] = i + 1
		for j := range len(b) {
			replaced := row[j]
			if a[i] != b[j] {
				replaced++
			}
			next[j+1] = min(replaced, row[j+1]+1, next[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				next[j+1] = min(next[j+1], before[j-1]+1)
			}
		}
		before, row, next = row, next, before
	}
	return min(row[len(b)], limit)
}
