package file

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/statehive/statehive/statedb"
	"github.com/statehive/statehive/statedb/immutable"
)

// color has a fixed set of texts.
type color string

func (*color) Texts() []string { return []string{"red", "blue"} }

// level decodes itself.
type level int

func (l *level) UnmarshalText(text []byte) error {
	_, err := fmt.Sscanf(string(text), "L%d", l)
	return err
}

func (l level) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "L%d", int(l)), nil }

type lamp struct {
	Name   string `yaml:"name" schema:"required" doc:"What it is called."`
	Mode   string `yaml:"mode" schema:"enum=on off"`
	Color  color
	Level  level                `yaml:"level"`
	Hosts  []netip.Addr         `yaml:"hosts"`
	Uses   []string             `yaml:"uses" schema:"required,enum=read write"`
	Watts  int8                 `yaml:"watts"`
	Extra  map[string]int       `yaml:"extra"`
	Inner  *lampInner           `yaml:"inner"`
	Bulbs  immutable.List[bulb] `yaml:"bulbs"`
	Hidden string               `yaml:"-"`
}

type bulb struct {
	Watts uint8 `yaml:"watts" schema:"required"`
}

type lampInner struct {
	Again []lampInner `yaml:"again"`
	On    bool        `yaml:"on" schema:"required"`
}

func TestSchemaIsThatOfTheFields(t *testing.T) {
	db := statedb.New()
	table, err := statedb.NewTable(db, statedb.Schema[lamp]{Name: "lamps", Primary: statedb.NewIndex("name", func(l lamp) string { return l.Name })})
	if err != nil {
		t.Fatal(err)
	}
	k, err := NewKind(KindConfig[lamp]{Name: "lamp", Title: "lamps and lights", Table: table, Default: func() lamp { return lamp{Mode: "on", Level: 3} }})
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.MarshalIndent(Schema([]Kind{k}), "", " ")
	if err != nil {
		t.Fatal(err)
	}
	var is, want any
	if err := json.Unmarshal(got, &is); err != nil {
		t.Fatal(err)
	}
	scalar := `{"type": ["string", "number", "boolean"]}`
	err = json.Unmarshal([]byte(`{
		"$schema": "https://json-schema.org/draft/2020-12/schema",
		"title": "documents",
		"oneOf": [{"$ref": "#/$defs/lamp"}],
		"$defs": {"lamp": {
			"title": "lamp", "description": "lamps and lights", "type": "object", "additionalProperties": false,
			"required": ["kind", "name", "uses"],
			"properties": {
				"kind": {"const": "lamp"},
				"name": {"type": ["string", "number", "boolean"], "description": "What it is called."},
				"mode": {"enum": ["on", "off"], "default": "on"},
				"color": {"enum": ["red", "blue"]},
				"level": {"type": ["string", "number", "boolean"], "default": "L3"},
				"hosts": {"type": "array", "items": {"type": "string", "description": "an IP address such as 192.0.2.1 or 2001:db8::1"}},
				"uses": {"type": "array", "items": {"enum": ["read", "write"]}},
				"watts": {"type": "integer", "minimum": -128, "maximum": 127},
				"extra": {"type": "object", "additionalProperties": {"type": "integer", "minimum": -9223372036854775808, "maximum": 9223372036854775807}},
				"inner": {"type": "object", "additionalProperties": false, "required": ["on"], "properties": {
					"again": {"type": "array", "items": {"type": "object"}},
					"on": {"type": "boolean"}
				}},
				"bulbs": {"type": "array", "items": {"type": "object", "additionalProperties": false, "required": ["watts"], "properties": {
					"watts": {"type": "integer", "minimum": 0, "maximum": 255}
				}}}
			}
		}}
	}`), &want)
	if err != nil {
		t.Fatal(scalar, err)
	}
	if diff := cmp.Diff(want, is); diff != "" {
		t.Errorf("schema (-want +got):\n%s", diff)
	}
	if text := string(got); strings.Index(text, `"name": {`) > strings.Index(text, `"mode": {`) || strings.Index(text, `"mode": {`) > strings.Index(text, `"extra": {`) {
		t.Errorf("fields are not in the order of the row type:\n%s", text)
	}
}

func TestSchemaHasTheFieldsThatTheDecoderKnows(t *testing.T) {
	for _, k := range newFixture(t).kinds(t) {
		var properties []string
		for _, m := range k.schema()["properties"].(object)[1:] {
			properties = append(properties, m.name)
		}
		p := newParser([]Kind{k})
		c := p.parse("f.yaml", fmt.Appendf(nil, "kind: %s\nno-such-field-at-all: 1\n", k.Name()))
		_, known, found := strings.Cut(text(c.problems[:1]), "the fields are: ")
		slices.Sort(properties)
		if !found || known != strings.Join(properties, ", ") {
			t.Errorf("%s: the schema has %v, the decoder says %s", k.Name(), properties, text(c.problems))
		}
	}
}
