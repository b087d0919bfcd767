package file

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/statehive/statehive/reconciler"
)

// decoder decodes one document. It continues after a problem, to find all of them.
type decoder struct {
	file     string
	offset   int // number of lines before the first line of the nodes
	kind     string
	fields   catalog
	problems []problem
	more     int // number of problems that were left out
	document *yaml.Node
	values   int
	depth    int
	gaveUp   bool
}

// reset prepares the decoder for a document.
func (d *decoder) reset(file string, offset int, k Kind, document *yaml.Node) {
	*d = decoder{file: file, offset: offset, kind: k.Name(), fields: k.catalog(), problems: d.problems[:0], document: document}
}

// placeOf returns the place of a field's value, if the field is given.
func (d *decoder) placeOf(path string) (at place, given bool) {
	if n := nodeAt(d.document, path); n != nil {
		return d.place(n), true
	}
	return place{}, false
}

// nodeAt returns the value at a path below n, such as rules[1].from, or nil.
func nodeAt(n *yaml.Node, path string) *yaml.Node {
	if path == "" {
		return n
	}
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n.Kind == yaml.SequenceNode {
		index, rest, _ := strings.Cut(strings.TrimPrefix(path, "["), "]")
		i, err := strconv.Atoi(index)
		if err != nil || i < 0 || i >= len(n.Content) {
			return nil
		}
		return nodeAt(n.Content[i], strings.TrimPrefix(rest, "."))
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		rest, ok := strings.CutPrefix(path, n.Content[i].Value)
		if !ok || rest != "" && rest[0] != '.' && rest[0] != '[' {
			continue
		}
		if found := nodeAt(n.Content[i+1], strings.TrimPrefix(rest, ".")); found != nil {
			return found
		}
	}
	return nil
}

func (d *decoder) failed() bool { return len(d.problems) > 0 }

func (d *decoder) place(n *yaml.Node) place {
	return place{file: d.file, line: n.Line + d.offset, column: n.Column}
}

func (d *decoder) problem(n *yaml.Node, path, format string, args ...any) {
	if d.full() {
		d.more++
		return
	}
	d.problems = append(d.problems, problem{at: d.place(n), field: path, message: fmt.Sprintf(format, args...)}.short())
}

// full reports whether the limit of problems reported for a file is reached.
func (d *decoder) full() bool { return len(d.problems) >= maxProblems }

// refused reports the errors of the row type's validation.
func (d *decoder) refused(document *yaml.Node, err error) {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			d.refused(document, e)
		}
		return
	}
	var wrong *reconciler.FieldError
	if !errors.As(err, &wrong) {
		d.problem(document, "", "%v", err)
		return
	}
	if d.full() {
		d.more++
		return
	}
	d.problems = append(d.problems, problem{at: d.placeFor(document, wrong.Field), field: wrong.Field, message: wrong.Err.Error()}.short())
}

// placeFor returns the place of a field's value. If it is missing, it returns the place of
// the value that contains the field, such as rules[1] for rules[1].from.
func (d *decoder) placeFor(document *yaml.Node, path string) place {
	for path != "" {
		if at, given := d.placeOf(path); given {
			return at
		}
		path = path[:max(0, strings.LastIndexAny(path, ".["))]
	}
	return d.place(document)
}

// enter follows an alias and counts values, so that a small document cannot cost much.
// It returns false if n must not be decoded.
func (d *decoder) enter(n *yaml.Node, path string) (*yaml.Node, bool) {
	at := n
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	d.values++
	if d.gaveUp {
		return nil, false
	}
	switch {
	case d.values > maxValues:
		d.gaveUp = true
		d.problem(at, path, "the document has more than %d values, aliases included", maxValues)
	case d.depth > maxDepth:
		d.gaveUp = true
		d.problem(at, path, "values are nested more than %d deep, or an alias contains itself", maxDepth)
	case n.Kind == yaml.ScalarNode && len(n.Value) > maxText:
		d.problem(at, path, "found %s of %d bytes, expected at most %d", found(n), len(n.Value), maxText)
		return nil, false
	}
	return n, !d.gaveUp
}

// value decodes n into out.
func (d *decoder) value(n *yaml.Node, out reflect.Value, path string) {
	d.depth++
	defer func() { d.depth-- }()
	n, ok := d.enter(n, path)
	if !ok {
		return
	}
	t := out.Type()
	switch {
	case n.ShortTag() == "!!null":
		d.problem(n, path, "no value; expected %s, or the field left out", expected(t))
	case d.fields.own[t]:
		d.own(n, out, path)
	case d.fields.lists[t]:
		d.madeOfSlice(n, out, path)
	case t.Kind() == reflect.Pointer:
		fresh := reflect.New(t.Elem())
		d.value(n, fresh.Elem(), path)
		out.Set(fresh)
	case t.Kind() == reflect.Struct:
		d.structure(n, out, path)
	case t.Kind() == reflect.Slice && t.Elem().Kind() != reflect.Uint8:
		d.list(n, out, path)
	case t.Kind() == reflect.Map:
		d.dictionary(n, out, path)
	default:
		d.plain(n, out, path)
	}
}

// wrongType reports that n does not have the type of out.
func (d *decoder) wrongType(n *yaml.Node, out reflect.Value, path string) {
	d.problem(n, path, "found %s, expected %s", found(n), expected(out.Type()))
}

func (d *decoder) structure(n *yaml.Node, out reflect.Value, path string) {
	if n.Kind != yaml.MappingNode {
		d.wrongType(n, out, path)
		return
	}
	known := d.fields.structs[out.Type()]
	d.pairs(n, path, func(key, value *yaml.Node, at string) {
		if path == "" && key.Value == kindField {
			return
		}
		for _, f := range known {
			if f.name == key.Value {
				d.field(value, out.FieldByIndex(f.index), at)
				return
			}
		}
		d.problem(key, at, "unknown field of kind %s; %s", d.kind, instead(key.Value, "fields", names(known)))
	})
}

// field decodes the value of a field. Empty text is refused, as it is what templates make of a variable that is not set, unless the field
// tells it from no value.
func (d *decoder) field(n *yaml.Node, out reflect.Value, path string) {
	text := n
	if n.Kind == yaml.AliasNode {
		text = n.Alias
	}
	if text.Kind == yaml.ScalarNode && text.Value == "" && text.ShortTag() == "!!str" && !distinguishesEmpty(out.Type()) {
		d.problem(n, path, "empty text; expected %s, or the field left out if it is not required", expected(out.Type()))
		return
	}
	d.value(n, out, path)
}

// distinguishesEmpty reports whether a field of a type tells empty text from none.
func distinguishesEmpty(t reflect.Type) bool {
	return t.Kind() == reflect.Pointer || t.Kind() == reflect.Interface
}

// pairs calls fn with each key of a mapping, its value and its path. Keys that
// are not scalars, and duplicate keys, are problems.
func (d *decoder) pairs(n *yaml.Node, path string, fn func(key, value *yaml.Node, at string)) {
	var first seenKeys
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		if key.Kind != yaml.ScalarNode {
			d.problem(key, path, "found %s as the name of a field, expected text", found(key))
			continue
		}
		if len(key.Value) > maxName {
			d.problem(key, path, "found %s of %d bytes as the name of a field, expected at most %d", found(key), len(key.Value), maxName)
			continue
		}
		at := join(path, key.Value)
		if before := first.add(key); before != nil {
			d.problem(key, at, "given twice, first on line %d", before.Line+d.offset)
			continue
		}
		fn(key, n.Content[i+1], at)
	}
}

// seenKeys is a set of the keys of a mapping. A small set needs no map.
type seenKeys struct {
	few  [8]*yaml.Node
	n    int
	many map[string]*yaml.Node
}

// add adds a key, or returns the existing key with the same name.
func (s *seenKeys) add(key *yaml.Node) (before *yaml.Node) {
	for _, k := range s.few[:s.n] {
		if k.Value == key.Value {
			return k
		}
	}
	if s.n < len(s.few) {
		s.few[s.n] = key
		s.n++
		return nil
	}
	if s.many == nil {
		s.many = map[string]*yaml.Node{}
	}
	if before = s.many[key.Value]; before == nil {
		s.many[key.Value] = key
	}
	return before
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func (d *decoder) list(n *yaml.Node, out reflect.Value, path string) {
	if n.Kind != yaml.SequenceNode {
		d.wrongType(n, out, path)
		return
	}
	items := reflect.MakeSlice(out.Type(), len(n.Content), len(n.Content))
	for i, item := range n.Content {
		at := fmt.Sprintf("%s[%d]", path, i)
		d.value(item, items.Index(i), at)
	}
	out.Set(items)
}

// madeOfSlice decodes a list as the slice that it is made of.
func (d *decoder) madeOfSlice(n *yaml.Node, out reflect.Value, path string) {
	out.Addr().Interface().(list).FromSlice(func(slice any) { //nolint:forcetypeassert // the catalog has checked it
		d.list(n, reflect.ValueOf(slice).Elem(), path)
	})
}

func (d *decoder) dictionary(n *yaml.Node, out reflect.Value, path string) {
	if n.Kind != yaml.MappingNode {
		d.wrongType(n, out, path)
		return
	}
	items := reflect.MakeMapWithSize(out.Type(), len(n.Content)/2)
	d.pairs(n, path, func(key, value *yaml.Node, at string) {
		k, v := reflect.New(out.Type().Key()).Elem(), reflect.New(out.Type().Elem()).Elem()
		before := len(d.problems)
		d.value(key, k, at)
		d.value(value, v, at)
		if len(d.problems) == before {
			items.SetMapIndex(k, v)
		}
	})
	out.Set(items)
}
