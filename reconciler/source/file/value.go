package file

import (
	"encoding"
	"fmt"
	"net/netip"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"
)

// plain decodes a value with the yaml package.
func (d *decoder) plain(n *yaml.Node, out reflect.Value, path string) {
	isWhole := (out.CanInt() || out.CanUint()) && examples[out.Type()] == ""
	if isWhole && leadingZero.MatchString(n.Value) {
		d.problem(n, path, "found %s, which some parsers read as octal; expected %s without a leading zero", beginning(n.Value), expected(out.Type()))
		return
	}
	if simple(n, out) {
		return
	}
	if out.Kind() == reflect.Bool && n.ShortTag() != "!!bool" { // the yaml package would also accept yes, on, "no"
		d.wrongType(n, out, path)
		return
	}
	if err := n.Load(out.Addr().Interface(), loaderLimits); err == nil {
		return
	} else if out.Kind() == reflect.Interface {
		d.problem(n, path, "found %s, which cannot be decoded: %v", found(n), err)
		return
	}
	d.wrongType(n, out, path)
}

// simple decodes unambiguous values without the overhead of the yaml package: text that
// cannot be anything else, and whole numbers in plain digits. It reports whether it did.
func simple(n *yaml.Node, out reflect.Value) bool {
	if n.Kind != yaml.ScalarNode {
		return false
	}
	switch {
	case out.Kind() == reflect.String && n.ShortTag() == "!!str":
		out.SetString(n.Value)
		return true
	case out.CanUint() && n.ShortTag() == "!!int":
		number, err := strconv.ParseUint(n.Value, 10, out.Type().Bits())
		if err == nil {
			out.SetUint(number)
		}
		return err == nil
	}
	return false
}

var leadingZero = regexp.MustCompile(`^[-+]?0[0-9]`)

// own decodes a value of a type that decodes itself.
func (d *decoder) own(n *yaml.Node, out reflect.Value, path string) {
	if target, ok := out.Addr().Interface().(yaml.Unmarshaler); ok {
		if err := target.UnmarshalYAML(n); err != nil {
			d.problem(n, path, "%v", err)
		}
		return
	}
	target, ok := out.Addr().Interface().(encoding.TextUnmarshaler)
	if !ok || n.Kind != yaml.ScalarNode {
		d.wrongType(n, out, path)
		return
	}
	err := target.UnmarshalText([]byte(n.Value))
	if err == nil {
		return
	}
	if example := examples[out.Type()]; example != "" {
		d.problem(n, path, "found %s, expected %s: %s", found(n), example, essence(err))
		return
	}
	if strings.HasPrefix(err.Error(), strconv.Quote(n.Value)) { // it names what was found
		d.problem(n, path, "%v", err)
		return
	}
	d.problem(n, path, "found %s: %v", found(n), err)
}

// essence returns the text of an error without the function name and the input that the standard
// library's parsers put before it.
func essence(err error) string {
	if call, rest, ok := strings.Cut(err.Error(), `"): `); ok && strings.Contains(call, `("`) {
		return rest
	}
	return err.Error()
}

// found describes a value as it was written.
func found(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Kind == yaml.AliasNode:
		return "an alias"
	case n.ShortTag() == "!!null":
		return "nothing"
	}
	if tag := n.ShortTag(); tag == "!!int" || tag == "!!float" || tag == "!!bool" {
		return beginning(n.Value)
	}
	return quote(n.Value)
}

// beginning returns the beginning of a text, to be shown in messages.
func beginning(text string) string {
	if len(text) > 80 {
		return strings.ToValidUTF8(text[:80], "") + "…"
	}
	return text
}

func quote(text string) string { return strconv.Quote(beginning(text)) }

var examples = map[reflect.Type]string{
	reflect.TypeFor[netip.Addr]():     "an IP address such as 192.0.2.1 or 2001:db8::1",
	reflect.TypeFor[netip.Prefix]():   "an IP address with prefix length such as 192.0.2.0/24 or 2001:db8::/64",
	reflect.TypeFor[netip.AddrPort](): "an IP address with port such as 192.0.2.1:80",
	reflect.TypeFor[time.Duration]():  "a duration such as 500ms, 30s or 5m",
	reflect.TypeFor[time.Time]():      "a time such as 2026-01-31T12:00:00Z",
}

// expected describes what a type accepts.
func expected(t reflect.Type) string {
	if example, ok := examples[t]; ok {
		return example
	}
	if decodesItself(t) {
		return "a value"
	}
	if reflect.PointerTo(t).Implements(madeOfSlice) {
		return "a list"
	}
	switch t.Kind() {
	case reflect.Pointer:
		return expected(t.Elem())
	case reflect.String:
		return "text"
	case reflect.Bool:
		return "true or false"
	case reflect.Struct, reflect.Map:
		return "a mapping"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		if t.Bits() == 64 {
			return "a whole number of at most 64 bits"
		}
		last := int64(1)<<(t.Bits()-1) - 1
		return fmt.Sprintf("a whole number from %d to %d", -last-1, last)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		if t.Bits() == 64 {
			return "a whole number from 0 on, of at most 64 bits"
		}
		return fmt.Sprintf("a whole number from 0 to %d", ^uint64(0)>>(64-t.Bits()))
	}
	return "a value"
}
