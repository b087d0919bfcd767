package graph

import (
	"encoding"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/hive/internal/guard"
)

var (
	textUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()
	durationType    = reflect.TypeFor[time.Duration]()
)

// value sets a field from text. It is a pflag.Value.
type value struct {
	field   reflect.Value
	kind    string // the type's name in usage and errors
	implied string // the value of a flag given without one; empty if it requires one
	parse   func(given any, into reflect.Value) error
	join    func(before, after reflect.Value) reflect.Value // combines repeated flags; nil if the last one wins
	secret  bool
	given   bool  // by a flag
	refused error // why a secret given by a flag was rejected
}

// scalar parses a type written as a single word.
type scalar struct {
	kind    string
	implied string
	parse   func(text string, into reflect.Value) error
}

func scalarOf(typ reflect.Type) (s scalar, ok bool) {
	zero := reflect.Zero(typ)
	switch {
	case reflect.PointerTo(typ).Implements(textUnmarshaler):
		return scalar{kind: strings.ToLower(typ.Name()), parse: parseText}, true
	case typ == durationType:
		return scalar{kind: "duration", parse: parseDuration}, true
	case typ.Kind() == reflect.String:
		return scalar{kind: "string", parse: parseString}, true
	case typ.Kind() == reflect.Bool:
		return scalar{kind: "bool", parse: parseBool, implied: "true"}, true
	case zero.CanInt():
		return scalar{kind: "int", parse: parseInt}, true
	case zero.CanUint():
		return scalar{kind: "uint", parse: parseUint}, true
	case zero.CanFloat():
		return scalar{kind: "float", parse: parseFloat}, true
	}
	return scalar{}, false
}

func newValue(field reflect.Value) (*value, error) {
	typ := field.Type()
	if s, ok := scalarOf(typ); ok {
		return &value{field: field, kind: s.kind, implied: s.implied, parse: s.parseOne}, nil
	}
	if k := typ.Kind(); k == reflect.Slice || k == reflect.Map {
		s, ok := scalarOf(typ.Elem())
		switch {
		case ok && k == reflect.Slice:
			return &value{field: field, kind: s.kind + "s", parse: s.parseList, join: reflect.AppendSlice}, nil
		case ok && typ.Key().Kind() == reflect.String:
			return &value{field: field, kind: "key=" + s.kind, parse: s.parseMap, join: joinMaps}, nil
		}
	}
	return nil, fmt.Errorf("cannot set a %v from a flag: expected a string, bool, number, time.Duration or an "+
		"encoding.TextUnmarshaler, or a list or a map from strings of such", typ)
}

// Set is called by pflag each time the flag is given. Errors in secrets are reported later: pflag would print the value.
func (v *value) Set(text string) error {
	parsed, err := v.parsed(text)
	if err != nil {
		if v.secret {
			v.refused = err
			return nil
		}
		return err
	}
	if v.given && v.join != nil {
		parsed = v.join(v.field, parsed)
	}
	v.field.Set(parsed)
	v.given = true
	return nil
}

// parsed returns the value for a string, []string or map[string]string.
func (v *value) parsed(given any) (reflect.Value, error) {
	parsed := reflect.New(v.field.Type()).Elem()
	err := v.parse(given, parsed)
	if err != nil && v.secret {
		err = fmt.Errorf("expected a %s (it is a secret, so what was given is not shown)", v.kind)
	}
	return parsed, err
}

// String returns the current value in the form that Set accepts, or Redacted.
func (v *value) String() string {
	if v == nil || !v.field.IsValid() {
		return ""
	}
	if v.secret && !v.field.IsZero() {
		return cell.Redacted
	}
	return format(v.field)
}

func format(v reflect.Value) string {
	switch x := v.Interface().(type) {
	case encoding.TextMarshaler:
		var text []byte
		if <-guard.Go(func() (err error) { text, err = x.MarshalText(); return err }) == nil {
			return string(text)
		}
	case fmt.Stringer:
		return fmt.Sprint(x) // which survives a panic of its String
	}
	var all []string
	switch v.Kind() {
	case reflect.Slice:
		for i := range v.Len() {
			all = append(all, format(v.Index(i)))
		}
	case reflect.Map:
		for _, k := range v.MapKeys() {
			all = append(all, k.String()+"="+format(v.MapIndex(k)))
		}
		slices.Sort(all)
	default:
		return fmt.Sprint(v.Interface())
	}
	return strings.Join(all, ",")
}

// Type returns the word for the value in the usage.
func (v *value) Type() string { return v.kind }

func (s scalar) parseOne(given any, into reflect.Value) error {
	text, ok := given.(string)
	if !ok {
		return fmt.Errorf("expected one %s", s.kind)
	}
	return s.parse(text, into)
}

func (s scalar) parseList(given any, into reflect.Value) error {
	list, ok := given.([]string)
	if text, isText := given.(string); isText {
		list, ok = split(text), true
	}
	if !ok {
		return fmt.Errorf("expected a list of %ss", s.kind)
	}
	for _, text := range list {
		item := reflect.New(into.Type().Elem()).Elem()
		if err := s.parse(text, item); err != nil {
			return fmt.Errorf("%q: %w", text, err)
		}
		into.Set(reflect.Append(into, item))
	}
	return nil
}

func (s scalar) parseMap(given any, into reflect.Value) error {
	pairs, ok := given.(map[string]string)
	if text, isText := given.(string); isText {
		var err error
		if pairs, err = splitPairs(text); err != nil {
			return err
		}
		ok = true
	}
	if !ok {
		return fmt.Errorf("expected a map to %ss", s.kind)
	}
	into.Set(reflect.MakeMap(into.Type()))
	for _, key := range slices.Sorted(maps.Keys(pairs)) {
		item := reflect.New(into.Type().Elem()).Elem()
		if err := s.parse(pairs[key], item); err != nil {
			return fmt.Errorf("%s=%q: %w", key, pairs[key], err)
		}
		into.SetMapIndex(reflect.ValueOf(key).Convert(into.Type().Key()), item)
	}
	return nil
}

// joinMaps adds to after the pairs of before whose keys it lacks.
func joinMaps(before, after reflect.Value) reflect.Value {
	for _, k := range before.MapKeys() {
		if !after.MapIndex(k).IsValid() {
			after.SetMapIndex(k, before.MapIndex(k))
		}
	}
	return after
}

func split(text string) []string {
	if text == "" {
		return nil
	}
	list := strings.Split(text, ",")
	for i := range list {
		list[i] = strings.TrimSpace(list[i])
	}
	return list
}

func splitPairs(text string) (map[string]string, error) {
	pairs := make(map[string]string)
	for _, pair := range split(text) {
		key, val, ok := strings.Cut(pair, "=")
		if _, twice := pairs[key]; !ok || twice {
			return nil, fmt.Errorf("%q: expected key=value, each key once", pair)
		}
		pairs[key] = val
	}
	return pairs, nil
}

func parseText(text string, into reflect.Value) error {
	return <-guard.Go(func() error { return into.Addr().Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(text)) })
}

func parseString(text string, into reflect.Value) error {
	into.SetString(text)
	return nil
}

func parseDuration(text string, into reflect.Value) error {
	d, err := time.ParseDuration(text)
	if err != nil {
		return errors.New("expected a duration such as 500ms, 30s or 5m")
	}
	into.SetInt(int64(d))
	return nil
}

func parseBool(text string, into reflect.Value) error {
	b, err := strconv.ParseBool(text)
	if err != nil {
		return errors.New("expected true or false")
	}
	into.SetBool(b)
	return nil
}

func parseInt(text string, into reflect.Value) error {
	bits := into.Type().Bits()
	i, err := strconv.ParseInt(text, 0, bits)
	if err != nil {
		return fmt.Errorf("expected a whole number from %d to %d", -1<<(bits-1), 1<<(bits-1)-1)
	}
	into.SetInt(i)
	return nil
}

func parseUint(text string, into reflect.Value) error {
	bits := into.Type().Bits()
	u, err := strconv.ParseUint(text, 0, bits)
	if err != nil {
		return fmt.Errorf("expected a whole number from 0 to %d", uint64(1)<<(bits-1)-1+uint64(1)<<(bits-1))
	}
	into.SetUint(u)
	return nil
}

func parseFloat(text string, into reflect.Value) error {
	f, err := strconv.ParseFloat(text, into.Type().Bits())
	if err != nil {
		return errors.New("expected a number")
	}
	into.SetFloat(f)
	return nil
}
