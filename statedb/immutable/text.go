package immutable

import (
	"bytes"
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"unicode/utf8"
)

// String returns the map as text for people: "a=1,b=2".
func (m Map[K, V]) String() string {
	var parts []string
	for key, value := range m.All() {
		parts = append(parts, fmt.Sprintf("%s=%v", m.codec.Format(key), value))
	}
	return strings.Join(parts, ",")
}

// String returns the set as text for people: "a,b".
func (s Set[K]) String() string {
	var parts []string
	for key := range s.All() {
		parts = append(parts, s.m.codec.Format(key))
	}
	return strings.Join(parts, ",")
}

// MarshalJSON returns an object with the text form of the keys (see
// index.Codec.Parse), in key order; the empty map is {}. A key whose text cannot be
// parsed back to the same key is an error: a string that is not UTF-8, or a time after
// the year 9999.
func (m Map[K, V]) MarshalJSON() ([]byte, error) {
	out := []byte{'{'}
	for key, value := range m.All() {
		name, err := m.text(key)
		if err != nil {
			return nil, err
		}
		encoded, err := json.Marshal(value)
		if err != nil {
			return nil, fmt.Errorf("value of key %s: %w", name, err)
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(append(out, name...), ':'), encoded...)
	}
	return append(out, '}'), nil
}

// text returns the text form of a key in quotes.
func (m Map[K, V]) text(key K) ([]byte, error) {
	text := m.codec.Format(key)
	back, err := m.codec.Parse(text)
	if err != nil || !utf8.ValidString(text) || !bytes.Equal(m.codec.Append(nil, key), m.codec.Append(nil, back)) {
		return nil, fmt.Errorf("key %q has no text form that can be represented in JSON", text)
	}
	return json.Marshal(text)
}

// UnmarshalJSON replaces m by the output of MarshalJSON; null is the empty map.
// Names that are not keys, and duplicate keys, are errors, which leave m
// unchanged.
func (m *Map[K, V]) UnmarshalJSON(data []byte) error {
	d := json.NewDecoder(bytes.NewReader(data))
	open, err := d.Token()
	switch {
	case err != nil:
		return err
	case open == nil:
		*m = Map[K, V]{}
		return nil
	case open != json.Delim('{'):
		return fmt.Errorf("found %v, expected an object", open)
	}
	b := Map[K, V]{}.Builder()
	for d.More() {
		if err := b.decode(d); err != nil {
			return err
		}
	}
	if _, err := d.Token(); err != nil {
		return err
	}
	*m = b.Map()
	return nil
}

// decode reads a name and its value.
func (b *MapBuilder[K, V]) decode(d *json.Decoder) error {
	name, err := d.Token()
	if err != nil {
		return err
	}
	key, err := b.codec.Parse(fmt.Sprint(name))
	if err != nil {
		return fmt.Errorf("key %q: %w", name, err)
	}
	if _, ok := b.Get(key); ok {
		return fmt.Errorf("duplicate key %q", name)
	}
	var value V
	if err := d.Decode(&value); err != nil {
		return fmt.Errorf("value of key %q: %w", name, err)
	}
	b.Set(key, value)
	return nil
}

// MarshalJSON returns an array of the elements in order: numbers and booleans as
// such, all others in their text form; the empty set is []. An element whose text
// cannot be parsed back is an error, as for the keys of a [Map].
func (s Set[K]) MarshalJSON() ([]byte, error) {
	out := []byte{'['}
	quoted := isQuoted[K]()
	for key := range s.All() {
		element, err := s.m.text(key)
		if err != nil {
			return nil, err
		}
		if !quoted {
			element = bytes.Trim(element, `"`)
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(out, element...)
	}
	return append(out, ']'), nil
}

// isQuoted reports whether the text form of K needs quotes in JSON.
func isQuoted[K Key]() bool {
	if _, ok := any(*new(K)).(encoding.TextMarshaler); ok {
		return true
	}
	switch reflect.TypeFor[K]().Kind() {
	case reflect.String, reflect.Array, reflect.Struct:
		return true
	}
	return false
}

// UnmarshalJSON replaces s by the output of MarshalJSON; null is the empty set.
// Duplicate elements count once. A value that is not an element is an error, which
// leaves s unchanged.
func (s *Set[K]) UnmarshalJSON(data []byte) error {
	var elements []jsonElement
	if err := json.Unmarshal(data, &elements); err != nil {
		return err
	}
	b := Set[K]{}.Builder()
	for _, element := range elements {
		key, err := b.m.codec.Parse(string(element))
		if err != nil {
			return fmt.Errorf("element %q: %w", string(element), err)
		}
		b.Add(key)
	}
	*s = b.Set()
	return nil
}

// jsonElement is the text of an element: the value of a JSON string, or the raw text of
// any other value.
type jsonElement string

func (e *jsonElement) UnmarshalJSON(data []byte) error {
	if len(data) == 0 || data[0] != '"' {
		*e = jsonElement(data)
		return nil
	}
	return json.Unmarshal(data, (*string)(e))
}
