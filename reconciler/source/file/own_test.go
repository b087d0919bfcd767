package file

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"testing"

	"go.yaml.in/yaml/v4"
)

// shade is a type whose errors quote what they are about.
type shade string

func (c *shade) UnmarshalText(text []byte) error {
	if string(text) != "red" {
		return fmt.Errorf("%q is not a color, expected red", text)
	}
	*c = "red"
	return nil
}

// even is a type whose errors do not.
type even int

func (e *even) UnmarshalText(text []byte) error {
	n, err := strconv.Atoi(string(text))
	if err == nil && n%2 != 0 {
		err = errors.New("not even")
	}
	*e = even(n)
	return err
}

func TestAValueThatAnErrorQuotesIsNotQuotedTwice(t *testing.T) {
	type row struct {
		Color shade `yaml:"color"`
		Even  even  `yaml:"even"`
	}
	fields, err := catalogOf(reflect.TypeFor[row]())
	if err != nil {
		t.Fatal(err)
	}
	for document, want := range map[string]string{
		"color: blue": `"blue" is not a color, expected red`,
		"color: 7":    `"7" is not a color, expected red`,
		"even: 3":     "found 3: not even",
	} {
		var node yaml.Node
		if err := yaml.Unmarshal([]byte(document), &node); err != nil {
			t.Fatal(err)
		}
		d := decoder{fields: fields}
		d.value(node.Content[0], reflect.ValueOf(&row{}).Elem(), "")
		if len(d.problems) != 1 || d.problems[0].message != want {
			t.Errorf("%s: %+v, expected one problem: %s", document, d.problems, want)
		}
	}
}
