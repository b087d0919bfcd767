package store

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// decodeRow decodes a row of a type from JSON and returns a pointer to it. It rejects input
// that encoding/json silently accepts: fields that are unknown, duplicate or written in
// another case, null for values that cannot be null, arrays of the wrong length, and text
// that is not valid Unicode.
func decodeRow(t reflect.Type, text []byte) (row reflect.Value, err error) {
	row = reflect.New(t)
	if err := checkSyntax(text); err != nil {
		return row, err
	}
	c := rowChecker{json.NewDecoder(bytes.NewReader(text))}
	if t.Kind() == reflect.Pointer {
		t = t.Elem() // a row cannot be null
	}
	if err := c.value(t, ""); err != nil {
		return row, err
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields() // including names that two embedded structs have in common
	return row, dec.Decode(row.Interface())
}

func checkSyntax(text []byte) error {
	if len(bytes.TrimSpace(text)) == 0 {
		return errors.New("expected a row as JSON, got nothing")
	}
	if !utf8.Valid(text) {
		return errors.New("the text is not UTF-8")
	}
	err := json.Unmarshal(text, new(json.RawMessage))
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return at(text[:max(syntax.Offset-1, 0)], err)
	}
	if before, lone := loneSurrogate(text); lone {
		return at(text[:before], fmt.Errorf("%s is half of a character", text[before:before+escapeLen]))
	}
	return err
}

// at adds the position of an error to it: the end of the text before it.
func at(before []byte, err error) error {
	line := 1 + bytes.Count(before, []byte("\n"))
	column := len(before) - bytes.LastIndexByte(before, '\n')
	return fmt.Errorf("line %d, column %d: %w", line, column, err)
}

const escapeLen = len(`\u0000`)

// loneSurrogate finds an escape for half of a UTF-16 surrogate pair without the other half,
// which encoding/json would replace by U+FFFD. The syntax has been checked.
func loneSurrogate(text []byte) (offset int, found bool) {
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' {
			continue
		}
		first, escaped := unicodeEscape(text[i:])
		if !escaped {
			i++ // the escaped character
			continue
		}
		if second, _ := unicodeEscape(text[i+escapeLen:]); utf16.IsSurrogate(first) {
			if utf16.DecodeRune(first, second) == utf8.RuneError {
				return i, true
			}
			i += escapeLen
		}
		i += escapeLen - 1
	}
	return 0, false
}

// unicodeEscape reads an escape like \u00e4 at the beginning of a text.
func unicodeEscape(text []byte) (r rune, ok bool) {
	if len(text) < escapeLen || text[0] != '\\' || text[1] != 'u' {
		return 0, false
	}
	code, err := strconv.ParseUint(string(text[2:escapeLen]), 16, 16)
	return rune(code), err == nil
}

// rowChecker compares JSON, whose syntax has been checked, with a type in one pass.
type rowChecker struct{ dec *json.Decoder }

func (c rowChecker) value(t reflect.Type, path string) error {
	nullable := t.Kind() == reflect.Pointer
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if !c.isComposite(t) {
		return c.leaf(t, path, nullable)
	}
	token, err := c.dec.Token()
	switch {
	case err != nil:
		return err
	case token == nil:
		if nullable || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
			return nil
		}
		return wrongType(path, t, "null")
	case token == json.Delim('{') && t.Kind() == reflect.Struct:
		fields := fieldsOf(t)
		return c.object(fields.typeOf, path)
	case token == json.Delim('{') && t.Kind() == reflect.Map:
		return c.object(func(string) (reflect.Type, error) { return t.Elem(), nil }, path)
	case token == json.Delim('[') && (t.Kind() == reflect.Slice || t.Kind() == reflect.Array):
		return c.array(t, path)
	}
	return wrongType(path, t, describeToken(token))
}

// isComposite reports whether the elements of a value of this type are checked individually.
func (c rowChecker) isComposite(t reflect.Type) bool {
	if decodesItself(t) {
		return false
	}
	switch t.Kind() {
	case reflect.Struct, reflect.Map, reflect.Array:
		return true
	case reflect.Slice:
		return t.Elem().Kind() != reflect.Uint8 // bytes are in base64
	}
	return false
}

func decodesItself(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return p.Implements(reflect.TypeFor[json.Unmarshaler]()) || p.Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

func (c rowChecker) object(typeOf func(name string) (reflect.Type, error), path string) error {
	seen := map[string]bool{}
	for c.dec.More() {
		token, err := c.dec.Token()
		if err != nil {
			return err
		}
		name, _ := token.(string)
		field := name
		if path != "" {
			field = path + "." + name
		}
		if seen[name] {
			return fmt.Errorf("duplicate field %q", field)
		}
		seen[name] = true
		t, err := typeOf(name)
		if err != nil {
			return in(path, err)
		}
		if err := c.value(t, field); err != nil {
			return err
		}
	}
	_, err := c.dec.Token()
	return err
}

func (c rowChecker) array(t reflect.Type, path string) error {
	n := 0
	for ; c.dec.More(); n++ {
		if err := c.value(t.Elem(), fmt.Sprintf("%s[%d]", path, n)); err != nil {
			return err
		}
	}
	if t.Kind() == reflect.Array && n != t.Len() {
		return in(path, fmt.Errorf("expected an array of %d, got %d", t.Len(), n))
	}
	_, err := c.dec.Token()
	return err
}

// leaf checks a value that its type decodes as a whole.
func (c rowChecker) leaf(t reflect.Type, path string, nullable bool) error {
	var text json.RawMessage
	if err := c.dec.Decode(&text); err != nil {
		return err
	}
	if string(text) == "null" {
		own := reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]())
		if nullable || own || t.Kind() == reflect.Interface || t.Kind() == reflect.Slice {
			return nil
		}
		return wrongType(path, t, "null")
	}
	err := json.Unmarshal(text, reflect.New(t).Interface())
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) && wrong.Field == "" {
		return wrongType(path, wrong.Type, wrong.Value)
	}
	return in(path, err)
}

// in adds the path of the field to an error.
func in(path string, err error) error {
	if path == "" || err == nil {
		return err
	}
	return fmt.Errorf("field %q: %w", path, err)
}

func wrongType(path string, t reflect.Type, got string) error {
	want := t.String()
	switch kind := t.Kind(); {
	case decodesItself(t):
	case kind == reflect.Struct || kind == reflect.Map:
		want = "an object"
	case kind == reflect.Slice || kind == reflect.Array:
		want = "an array"
	}
	return in(path, fmt.Errorf("expected %s, got %s", want, got))
}

func describeToken(token json.Token) string {
	switch token {
	case json.Delim('{'):
		return "an object"
	case json.Delim('['):
		return "an array"
	}
	return strings.Replace(fmt.Sprintf("%T", token), "float64", "number", 1)
}

// rowFields are the fields of a struct by their names in JSON.
type rowFields struct {
	names []string // in order of declaration, fields of embedded structs last
	types map[string]reflect.Type
}

// fieldsOf returns the fields of a struct by the rules of encoding/json.
func fieldsOf(t reflect.Type) rowFields {
	f := rowFields{types: map[string]reflect.Type{}}
	seen := map[reflect.Type]bool{}
	for level := []reflect.Type{t}; len(level) > 0; {
		var deeper []reflect.Type
		for _, t := range level {
			if !seen[t] {
				seen[t] = true
				deeper = append(deeper, f.add(t)...)
			}
		}
		level = deeper
	}
	return f
}

// add adds the fields of t that are not hidden by shallower ones, and returns the structs that are embedded in t.
func (f *rowFields) add(t reflect.Type) (embedded []reflect.Type) {
	for i := range t.NumField() {
		field := t.Field(i)
		tag := field.Tag.Get("json")
		name, options, _ := strings.Cut(tag, ",")
		switch {
		case tag == "-":
			continue
		case field.Anonymous && name == "" && holdsFields(field.Type):
			embedded = append(embedded, structOf(field.Type))
			continue
		case !field.IsExported():
			continue
		case name == "":
			name = field.Name
		}
		if _, hidden := f.types[name]; hidden {
			continue
		}
		f.names = append(f.names, name)
		f.types[name] = field.Type
		if slices.Contains(strings.Split(options, ","), "string") {
			f.types[name] = reflect.TypeFor[json.RawMessage]() // left to the decoder
		}
	}
	return embedded
}

func (f *rowFields) typeOf(name string) (reflect.Type, error) {
	if t, ok := f.types[name]; ok {
		return t, nil
	}
	exist := "there are none"
	if len(f.names) > 0 {
		exist = "there are: " + strings.Join(f.names, ", ")
	}
	return nil, fmt.Errorf("unknown field %q; %s", name, exist)
}
