package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/statehive/statehive/hive"
	"github.com/statehive/statehive/hive/cell"
	"github.com/statehive/statehive/reconciler/source/file"
)

// documentKinds makes the kinds of the agent, and nothing else of it.
func documentKinds(t *testing.T) (kinds []file.Kind) {
	t.Helper()
	h, err := hive.New(hive.Options{Name: name, Logger: slog.New(slog.DiscardHandler)}, cells(&surroundings{})...)
	if err == nil {
		err = h.Invoke(func(of struct {
			cell.In
			Kinds []file.Kind `group:"document-kinds"`
		},
		) {
			kinds = of.Kinds
		})
	}
	if err != nil || len(kinds) == 0 {
		t.Fatal(kinds, err)
	}
	return kinds
}

type object = map[string]any

func schemaOf(t *testing.T, kinds []file.Kind) (schema object) {
	t.Helper()
	text, err := json.Marshal(file.Schema(kinds))
	if err == nil {
		err = json.Unmarshal(text, &schema)
	}
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

// examples are the documents of examples/node.
func examples(t *testing.T) (documents []object) {
	t.Helper()
	paths, err := filepath.Glob("../../../../examples/node/*.yaml")
	if err != nil || len(paths) == 0 {
		t.Fatal(paths, err)
	}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		loader, err := yaml.NewLoader(bytes.NewReader(data))
		for err == nil {
			var document object
			if err = loader.Load(&document); err == nil {
				documents = append(documents, document)
			}
		}
		if !errors.Is(err, io.EOF) {
			t.Fatal(path, err)
		}
	}
	return documents
}

// problemsOf returns what the decoder has against a document.
func problemsOf(t *testing.T, kinds []file.Kind, document object) []file.Problem {
	t.Helper()
	data, err := yaml.Marshal(document)
	if err != nil {
		t.Fatal(err)
	}
	contents, err := file.Read(kinds, []file.File{{Path: "f.yaml", Data: data}})
	if err != nil {
		t.Fatal(err)
	}
	return contents.Problems
}

func TestTheExamplesFitTheSchema(t *testing.T) {
	kinds := documentKinds(t)
	schema := schemaOf(t, kinds)
	for _, document := range examples(t) {
		if err := fits(schema, schema, document); err != nil {
			t.Errorf("%v: %v", document, err)
		}
	}
}

func TestTheSchemaRefusesWhatTheDecoderRefuses(t *testing.T) {
	kinds := documentKinds(t)
	schema := schemaOf(t, kinds)
	for _, example := range examples(t) {
		definition := schema["$defs"].(object)[example["kind"].(string)].(object)
		change := func(field, why string, value any) {
			document := maps.Clone(example)
			if document[field] = value; value == nil {
				delete(document, field)
			}
			if len(problemsOf(t, kinds, document)) == 0 {
				t.Errorf("%s: the decoder accepts %v", why, document)
			}
			if fits(schema, schema, document) == nil {
				t.Errorf("%s: the schema accepts %v", why, document)
			}
		}
		change("no-such-field", "an unknown field", "x")
		change("kind", "an unknown kind", "no-such-kind")
		for _, field := range definition["required"].([]any) {
			change(field.(string), "a field left out", nil)
		}
		for field, property := range definition["properties"].(object) {
			if property.(object)["enum"] != nil {
				change(field, "an unknown text", "no-such-text")
			}
			if property.(object)["minLength"] != nil {
				change(field, "empty text", "")
			}
			if _, isList := property.(object)["items"]; !isList && field != "kind" {
				change(field, "a list", []string{"x"})
			}
		}
	}
}

// Every field is said something about.
func TestTheSchemaDescribesEachFieldOfAKind(t *testing.T) {
	kinds := documentKinds(t)
	for kind, definition := range schemaOf(t, kinds)["$defs"].(object) {
		for field, property := range definition.(object)["properties"].(object) {
			if description, _ := property.(object)["description"].(string); description == "" && field != "kind" {
				t.Errorf("kind %s: field %s has no tag doc", kind, field)
			}
		}
	}
}

// fits checks a value by the keywords that our schemas have.
func fits(root, schema object, value any) error {
	for keyword, want := range schema {
		check, known := checkOf(keyword)
		if !known {
			return fmt.Errorf("the keyword %q is not known to this test", keyword)
		}
		if check == nil || needs[keyword] != "" && needs[keyword] != typeOf(value) {
			continue
		}
		if err := check(root, schema, want, value); err != nil {
			return fmt.Errorf("%s: %w", keyword, err)
		}
	}
	return nil
}

// needs are the types that keywords are about; others are for the keyword "type" to refuse.
var needs = map[string]string{
	"minimum": "integer", "maximum": "integer", "minLength": "string", "required": "object", "properties": "object", "additionalProperties": "object", "items": "array",
}

var errDiffers = errors.New("it does not fit")

// keyword checks a value by a keyword of a schema.
type keyword func(root, schema object, want, value any) error

// checkOf returns the check of a keyword; nil if it says nothing about values.
func checkOf(name string) (check keyword, known bool) {
	check, known = map[string]keyword{
		"$schema": nil, "$defs": nil, "title": nil, "description": nil, "default": nil,
		"$ref": func(root, _ object, want, value any) error {
			return fits(root, root["$defs"].(object)[strings.TrimPrefix(want.(string), "#/$defs/")].(object), value)
		},
		"oneOf": func(root, _ object, want, value any) error {
			n, errs := 0, []error(nil)
			for _, one := range want.([]any) {
				if err := fits(root, one.(object), value); err == nil {
					n++
				} else {
					errs = append(errs, err)
				}
			}
			if n == 1 {
				return nil
			}
			return fmt.Errorf("%d fit: %w", n, errors.Join(errs...))
		},
		"const": func(_, _ object, want, value any) error { return differs(want == value) },
		"enum":  func(_, _ object, want, value any) error { return differs(slices.Contains(want.([]any), value)) },
		"type": func(_, _ object, want, value any) error {
			types, several := want.([]any)
			if !several {
				types = []any{want}
			}
			return differs(slices.ContainsFunc(types, func(name any) bool { return name == typeOf(value) || name == "number" && typeOf(value) == "integer" }))
		},
		"minLength": func(_, _ object, want, value any) error {
			return differs(float64(len(value.(string))) >= want.(float64)) // the schemas have only 1
		},
		"minimum": func(_, _ object, want, value any) error { return differs(float64(value.(int)) >= want.(float64)) },
		"maximum": func(_, _ object, want, value any) error { return differs(float64(value.(int)) <= want.(float64)) },
		"required": func(_, _ object, want, value any) error {
			for _, field := range want.([]any) {
				if _, given := value.(object)[field.(string)]; !given {
					return fmt.Errorf("%v is missing", field)
				}
			}
			return nil
		},
		"properties": func(root, _ object, want, value any) error {
			for field, v := range value.(object) {
				if property, known := want.(object)[field]; known {
					if err := fits(root, property.(object), v); err != nil {
						return fmt.Errorf("%s: %w", field, err)
					}
				}
			}
			return nil
		},
		"additionalProperties": func(root, schema object, want, value any) error {
			known, _ := schema["properties"].(object) // none in a map
			for field, v := range value.(object) {
				more, isSchema := want.(object)
				switch {
				case known[field] != nil:
				case !isSchema:
					return fmt.Errorf("%s is unknown", field)
				default:
					return fits(root, more, v)
				}
			}
			return nil
		},
		"items": func(root, _ object, want, value any) error {
			for _, item := range value.([]any) {
				if err := fits(root, want.(object), item); err != nil {
					return err
				}
			}
			return nil
		},
	}[name]
	return check, known
}

func differs(same bool) error {
	if same {
		return nil
	}
	return errDiffers
}

func typeOf(value any) string {
	switch value.(type) {
	case string:
		return "string"
	case bool:
		return "boolean"
	case int:
		return "integer"
	case float64:
		return "number"
	case object:
		return "object"
	}
	return "array"
}
