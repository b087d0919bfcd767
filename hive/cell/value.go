package cell

import (
	"encoding"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"
)

var (
	textUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()
	durationType    = reflect.TypeFor[time.Duration]()
)

// value sets a field from text. It is a pflag.Value.
type value struct {
	field   reflect.Value
	kind    string // for people
	implied string // what a flag without a value means; empty if it needs one
	parse   func(text string, into reflect.Value) error
	given   bool // by a flag
}

func newValue(field reflect.Value) (*value, error) {
	v := &value{field: field}
	typ := field.Type()
	switch {
	case reflect.PointerTo(typ).Implements(textUnmarshaler):
		v.kind, v.parse = strings.ToLower(typ.Name()), parseText
	case typ == durationType:
		v.kind, v.parse = "duration", parseDuration
	case typ.Kind() == reflect.Slice && typ.Elem().Kind() == reflect.String:
		v.kind, v.parse = "strings", parseStrings
	case typ.Kind() == reflect.String:
		v.kind, v.parse = "string", parseString
	case typ.Kind() == reflect.Bool:
		v.kind, v.parse, v.implied = "bool", parseBool, "true"
	case field.CanInt():
		v.kind, v.parse = "int", parseInt
	case field.CanUint():
		v.kind, v.parse = "uint", parseUint
	case field.CanFloat():
		v.kind, v.parse = "float", parseFloat
	default:
		return nil, fmt.Errorf("cannot set a %v from a flag: expected a string, bool, number, time.Duration, []string or "+
			"an encoding.TextUnmarshaler", typ)
	}
	return v, nil
}

// Set is called by pflag for each time that the flag is given.
func (v *value) Set(text string) error {
	before := v.field
	repeated := v.given && v.kind == "strings"
	if repeated {
		before = reflect.ValueOf(before.Interface())
	}
	if err := v.assign(text); err != nil {
		return err
	}
	if repeated {
		v.field.Set(reflect.AppendSlice(before, v.field))
	}
	v.given = true
	return nil
}

// assign changes the field only if the text is good.
func (v *value) assign(text string) error {
	parsed := reflect.New(v.field.Type()).Elem()
	if err := v.parse(text, parsed); err != nil {
		return err
	}
	v.field.Set(parsed)
	return nil
}

// String is the current value as it would be given.
func (v *value) String() string {
	if v == nil || !v.field.IsValid() {
		return ""
	}
	switch x := v.field.Interface().(type) {
	case encoding.TextMarshaler:
		if text, err := x.MarshalText(); err == nil {
			return string(text)
		}
	case fmt.Stringer:
		return x.String()
	}
	if v.kind == "strings" {
		all := make([]string, v.field.Len())
		for i := range all {
			all[i] = v.field.Index(i).String()
		}
		return strings.Join(all, ",")
	}
	return fmt.Sprint(v.field.Interface())
}

// Type is the word that stands for the value in the usage.
func (v *value) Type() string { return v.kind }

func parseText(text string, into reflect.Value) error {
	return into.Addr().Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(text))
}

func parseString(text string, into reflect.Value) error {
	into.SetString(text)
	return nil
}

func parseStrings(text string, into reflect.Value) error {
	into.SetZero()
	if text == "" {
		return nil
	}
	for _, s := range strings.Split(text, ",") {
		into.Set(reflect.Append(into, reflect.ValueOf(strings.TrimSpace(s)).Convert(into.Type().Elem())))
	}
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
