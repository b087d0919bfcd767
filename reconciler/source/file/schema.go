package file

import (
	"bytes"
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// Tags of the fields of row types, for [Schema]. A type with a fixed set of texts can have a
// method Texts() []string instead of an enumeration by tag.
const (
	docTag    = "doc"    // a sentence about the field
	schemaTag = "schema" // "required", "enum=bridge veth", or both with a comma between
)

// Schema returns a JSON Schema (draft 2020-12) of documents of these kinds, for editors. It has
// the same field names, types and defaults as the decoder, and refuses unknown fields as the
// decoder does. It does not cover the validation of values by Normalized.
//
// Tags of the row types add details: `doc:"…"` is a description, `schema:"required"` marks a
// field that cannot be left out, and `schema:"enum=bridge veth"` lists the texts that a field
// can have. The texts can also come from a method Texts() []string of the field's type.
func Schema(kinds []Kind) json.Marshaler {
	kinds = slices.SortedFunc(slices.Values(kinds), func(a, b Kind) int { return strings.Compare(a.Name(), b.Name()) })
	var refs []node
	var definitions object
	for _, k := range kinds {
		refs = append(refs, node{"$ref": "#/$defs/" + k.Name()})
		definitions = append(definitions, member{k.Name(), k.schema()})
	}
	return object{
		{"$schema", "https://json-schema.org/draft/2020-12/schema"},
		{"title", "documents"},
		{"oneOf", refs},
		{"$defs", definitions},
	}
}

// node is a schema, or a part of one.
type node map[string]any

// object is a JSON object with ordered members.
type object []member

type member struct {
	name  string
	value any
}

// MarshalJSON implements json.Marshaler.
func (o object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range o {
		name, err := json.Marshal(m.name)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(m.value)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.name, err)
		}
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(name)
		b.WriteByte(':')
		b.Write(value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

func (k *kind[Obj]) schema() node {
	row := reflect.Indirect(reflect.ValueOf(k.initial()))
	s := describer{fields: k.fields}.structure(row)
	s["title"] = k.config.Name
	if k.config.Title != "" {
		s["description"] = k.config.Title
	}
	s["properties"] = append(object{{kindField, node{"const": k.config.Name}}}, s["properties"].(object)...)
	required, _ := s["required"].([]string) // nil if no field is required
	s["required"] = append([]string{kindField}, required...)
	return s
}

// describer makes schemas of types.
type describer struct {
	fields catalog
	within []reflect.Type // structs that are being described
}

// structure describes a struct, whose values are the defaults.
func (d describer) structure(defaults reflect.Value) node {
	t := defaults.Type()
	if slices.Contains(d.within, t) {
		return node{"type": "object"}
	}
	d.within = append(slices.Clip(d.within), t)
	properties, required := object{}, []string(nil)
	for _, f := range d.fields.structs[t] {
		in := t.FieldByIndex(f.index)
		tag := parseTag(in.Tag.Get(schemaTag))
		property := d.field(in, tag, defaults.FieldByIndex(f.index))
		properties = append(properties, member{f.name, property})
		if tag.required {
			required = append(required, f.name)
		}
	}
	s := node{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		s["required"] = required
	}
	return s
}

// tag has the details from the tags of a field.
type tag struct {
	required bool
	enum     []string
}

func parseTag(text string) (t tag) {
	for option := range strings.SplitSeq(text, ",") {
		if texts, ok := strings.CutPrefix(option, "enum="); ok {
			t.enum = strings.Fields(texts)
		}
		t.required = t.required || option == "required"
	}
	return t
}

func (d describer) field(f reflect.StructField, says tag, byDefault reflect.Value) node {
	s := d.value(f.Type)
	if len(says.enum) > 0 {
		s = enumeration(s, says.enum)
	}
	if description := f.Tag.Get(docTag); description != "" {
		s["description"] = description
	}
	if value, ok := plainValue(byDefault); ok {
		s["default"] = value
	}
	if s["type"] == "string" && !distinguishesEmpty(f.Type) {
		s["minLength"] = 1
	}
	return s
}

// enumeration narrows the schema of a text, or of the items of a list, to some texts.
func enumeration(s node, texts []string) node {
	if items, isList := s["items"].(node); isList {
		s["items"] = enumeration(items, texts)
		return s
	}
	return node{"enum": texts}
}

// plainValue returns a value as documents spell it. It returns false if the value is zero or not a scalar.
func plainValue(v reflect.Value) (any, bool) {
	if !v.IsValid() || v.IsZero() {
		return nil, false
	}
	if m, ok := v.Interface().(encoding.TextMarshaler); ok {
		text, err := m.MarshalText()
		return string(text), err == nil
	}
	if text, ok := v.Interface().(fmt.Stringer); ok {
		return text.String(), true
	}
	if v.Kind() == reflect.String || v.Kind() == reflect.Bool || v.CanInt() || v.CanUint() || v.CanFloat() {
		return v.Interface(), true
	}
	return nil, false
}

// texts is a type with a fixed set of texts.
type texts interface{ Texts() []string }

// value describes the values that documents can have for a type, by the same rules as the decoder.
func (d describer) value(t reflect.Type) node {
	switch {
	case examples[t] != "":
		return node{"type": "string", "description": examples[t]}
	case reflect.PointerTo(t).Implements(reflect.TypeFor[texts]()):
		return node{"enum": reflect.New(t).Interface().(texts).Texts()}
	case reflect.PointerTo(t).Implements(reflect.TypeFor[yaml.Unmarshaler]()):
		return node{}
	case d.fields.own[t], t.Kind() == reflect.String:
		return node{"type": []string{"string", "number", "boolean"}}
	case d.fields.lists[t]:
		return d.value(sliceOf(t))
	case t.Kind() == reflect.Pointer:
		return d.value(t.Elem())
	case t.Kind() == reflect.Struct:
		return d.structure(reflect.New(t).Elem())
	case t.Kind() == reflect.Map:
		return node{"type": "object", "additionalProperties": d.value(t.Elem())}
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8:
		return node{"type": "string"}
	case t.Kind() == reflect.Slice, t.Kind() == reflect.Array:
		return node{"type": "array", "items": d.value(t.Elem())}
	case t.Kind() == reflect.Bool:
		return node{"type": "boolean"}
	case t.Kind() == reflect.Float32, t.Kind() == reflect.Float64:
		return node{"type": "number"}
	}
	return wholeNumber(t)
}

// wholeNumber describes an integer type. For other types it allows anything.
func wholeNumber(t reflect.Type) node {
	zero := reflect.Zero(t)
	switch {
	case zero.CanInt():
		last := int64(1)<<(t.Bits()-1) - 1
		return node{"type": "integer", "minimum": -last - 1, "maximum": last}
	case zero.CanUint():
		return node{"type": "integer", "minimum": 0, "maximum": ^uint64(0) >> (64 - t.Bits())}
	}
	return node{}
}
