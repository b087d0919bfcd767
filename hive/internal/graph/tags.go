package graph

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// tagKeys are the tags of a configuration field.
var tagKeys = []string{"flag", "usage", "secret", "shorthand", "hidden", "deprecated"}

// checkTags returns an error if a field of a configuration struct looks like a setting but would never be set. Such mistakes are
// otherwise noticed late.
func checkTags(f reflect.StructField) error {
	tags, err := parseTag(f.Tag)
	if err != nil {
		return err
	}
	for key := range tags {
		if slices.Contains(tagKeys, key) {
			continue
		}
		if best, ok := nearest(strings.ToLower(key), tagKeys, 2); ok {
			return fmt.Errorf("unknown tag %q: write %s:%q", key, best, tags[key])
		}
	}
	_, tagged := tags["flag"]
	for _, key := range tagKeys[1:] {
		if _, ok := tags[key]; ok && !tagged {
			return fmt.Errorf("it has the tag %q and no flag, so it cannot be set: add flag:%q, or remove the tag", key, "name-of-the-flag")
		}
	}
	for _, key := range []string{"secret", "hidden"} {
		if text, ok := tags[key]; ok && text != "true" && text != "false" {
			return fmt.Errorf("%s:%q: expected \"true\", or no such tag", key, text)
		}
	}
	if tagged || f.Anonymous && f.Type.Kind() == reflect.Struct {
		return nil
	}
	if at := flagged(f.Type, nil); at != "" {
		return fmt.Errorf("the flag of %s in it is not read: embed the struct, by value, or give it a Config of its own", at)
	}
	return nil
}

// parseTag returns the values of a tag by key. Unlike reflect, it rejects tags not of the form key:"value".
func parseTag(tag reflect.StructTag) (map[string]string, error) {
	all := make(map[string]string)
	for rest := strings.TrimSpace(string(tag)); rest != ""; rest = strings.TrimLeft(rest, " ") {
		key, after, _ := strings.Cut(rest, ":")
		quoted, err := strconv.QuotedPrefix(after)
		if err != nil || !strings.HasPrefix(quoted, `"`) || key == "" || strings.ContainsAny(key, ` "=,`) {
			return nil, fmt.Errorf("bad tag at %s: expected key:\"value\", such as flag:\"config-dir\", with spaces between", rest)
		}
		rest = after[len(quoted):]
		if rest != "" && rest[0] != ' ' {
			return nil, fmt.Errorf("bad tag at %s: expected a space before it", rest)
		}
		if _, twice := all[key]; twice {
			return nil, fmt.Errorf("it has the tag %q twice", key)
		}
		if all[key], err = strconv.Unquote(quoted); err != nil {
			return nil, fmt.Errorf("bad tag %s:%s: %w", key, quoted, err)
		}
	}
	return all, nil
}

// flagged returns the first tagged field within a type, or "". before holds the enclosing types.
func flagged(t reflect.Type, before []reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return flagged(t.Elem(), before)
	case reflect.Struct:
		if slices.Contains(before, t) {
			return ""
		}
		before = append(before, t)
		for f := range t.Fields() {
			if _, ok := f.Tag.Lookup("flag"); ok {
				return t.String() + "." + f.Name
			}
			if at := flagged(f.Type, before); at != "" {
				return at
			}
		}
	}
	return ""
}

// checkValidate returns an error if a configuration has a Validate that would not be called.
func checkValidate(t reflect.Type) error {
	if t.Implements(reflect.TypeFor[validator]()) {
		return nil
	}
	if m, ok := t.MethodByName("Validate"); ok {
		return fmt.Errorf("the method Validate is %v: expected func() error", m.Func.Type())
	}
	var names []string
	for f := range t.Elem().Fields() {
		if f.Anonymous && reflect.PointerTo(f.Type).Implements(reflect.TypeFor[validator]()) {
			names = append(names, f.Name)
		}
	}
	if len(names) > 0 {
		return fmt.Errorf("each of %s has a method Validate, so %v has none: expected one that calls them",
			strings.Join(names, " and "), t.Elem())
	}
	return nil
}
