package index

import (
	"encoding"
	"encoding/hex"
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// textCodec is the text form of a type.
type textCodec struct {
	parse  func(text string, into reflect.Value) error
	format func(v reflect.Value) string
}

var (
	textUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()
	textMarshaler   = reflect.TypeFor[encoding.TextMarshaler]()
)

func textOf(t reflect.Type) textCodec {
	switch {
	case reflect.PointerTo(t).Implements(textUnmarshaler) && reflect.PointerTo(t).Implements(textMarshaler):
		return textCodec{parseUnmarshaler, formatMarshaler}
	case t.Kind() == reflect.Struct:
		return textOfStruct(t)
	case t.Kind() == reflect.Slice:
		return textCodec{parseSlice, func(v reflect.Value) string { return string(v.Bytes()) }}
	case t.Kind() == reflect.Array:
		return textCodec{parseArray, func(v reflect.Value) string { return hex.EncodeToString(arrayBytes(v)) }}
	default:
		return textCodec{parseScalar, formatScalar}
	}
}

func parseUnmarshaler(text string, into reflect.Value) error {
	return into.Addr().Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(text))
}

func formatMarshaler(v reflect.Value) string {
	text, err := v.Addr().Interface().(encoding.TextMarshaler).MarshalText()
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(text)
}

func parseSlice(text string, into reflect.Value) error {
	into.SetBytes([]byte(text))
	return nil
}

func arrayBytes(v reflect.Value) []byte { return v.Slice(0, v.Len()).Bytes() }

func parseArray(text string, into reflect.Value) error {
	parsed, err := hex.DecodeString(text)
	if err != nil || len(parsed) != into.Len() {
		return fmt.Errorf("%q is not %d bytes in hexadecimal", text, into.Len())
	}
	copy(arrayBytes(into), parsed)
	return nil
}

func parseScalar(text string, into reflect.Value) error {
	switch into.Kind() {
	case reflect.String:
		into.SetString(text)
	case reflect.Bool:
		b, err := strconv.ParseBool(text)
		if err != nil {
			return fmt.Errorf("%q is not true or false", text)
		}
		into.SetBool(b)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		n, err := strconv.ParseInt(text, 10, into.Type().Bits())
		if err != nil {
			return notWhole(text, into)
		}
		into.SetInt(n)
	default:
		n, err := strconv.ParseUint(text, 10, into.Type().Bits())
		if err != nil {
			return notWhole(text, into)
		}
		into.SetUint(n)
	}
	return nil
}

func notWhole(text string, into reflect.Value) error {
	return fmt.Errorf("%q is not a whole number that fits %s", text, into.Type())
}

// formatScalar formats a value by its kind, because parseScalar cannot read the results of String methods.
func formatScalar(v reflect.Value) string {
	switch {
	case v.Kind() == reflect.String:
		return v.String()
	case v.Kind() == reflect.Bool:
		return strconv.FormatBool(v.Bool())
	case v.CanInt():
		return strconv.FormatInt(v.Int(), 10)
	default:
		return strconv.FormatUint(v.Uint(), 10)
	}
}

func textOfStruct(t reflect.Type) textCodec {
	fields := make([]textCodec, t.NumField())
	for i := range fields {
		if !t.Field(i).IsExported() {
			return noText(t)
		}
		fields[i] = textOf(t.Field(i).Type)
	}
	return textCodec{
		parse: func(text string, into reflect.Value) error {
			parts := splitFields(text)
			if len(parts) != len(fields) {
				return fmt.Errorf("%q has %d parts, expected %d: %s", text, len(parts), len(fields), fieldNames(t))
			}
			for i, part := range parts {
				if err := fields[i].parse(part, into.Field(i)); err != nil {
					return fmt.Errorf("%s: %w", t.Field(i).Name, err)
				}
			}
			return nil
		},
		format: func(v reflect.Value) string {
			parts := make([]string, len(fields))
			for i := range fields {
				parts[i] = fieldEscaper.Replace(fields[i].format(v.Field(i)))
			}
			return strings.Join(parts, ",")
		},
	}
}

var fieldEscaper = strings.NewReplacer(`\`, `\\`, `,`, `\,`)

// splitFields splits a text at commas and removes the escapes of fieldEscaper.
func splitFields(text string) []string {
	var parts []string
	var part strings.Builder
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == '\\' && i+1 < len(text):
			i++
			part.WriteByte(text[i])
		case text[i] == ',':
			parts = append(parts, part.String())
			part.Reset()
		default:
			part.WriteByte(text[i])
		}
	}
	return append(parts, part.String())
}

// noText returns a codec that reports an error, for structs whose fields reflection must not set.
func noText(t reflect.Type) textCodec {
	return textCodec{
		parse: func(string, reflect.Value) error {
			return fmt.Errorf("%s has no text form: it needs MarshalText and UnmarshalText, or exported fields only", t)
		},
		format: func(v reflect.Value) string { return fmt.Sprint(v) },
	}
}

func fieldNames(t reflect.Type) string {
	names := make([]string, t.NumField())
	for i := range names {
		names[i] = t.Field(i).Name
	}
	return strings.Join(names, ",")
}
