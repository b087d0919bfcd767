package file

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/statehive/statehive/statedb/immutable"
)

func TestParseMessages(t *testing.T) {
	const routeFields = "destination, device, gateway, metric, table, up"
	tests := []struct {
		name  string
		input string
		want  []string
	}{
		{"empty file", "", []string{"f.yaml: " + emptyE}},
		{"white space", " \n\n", []string{"f.yaml: " + emptyE}},
		{"what a generator writes that finds nothing", "null\n", []string{"f.yaml: " + emptyE}},
		{"the end of a document", "---\n...\n", []string{"f.yaml: " + emptyE}},
		{"byte order mark", "\ufeff", []string{"f.yaml: " + emptyE}},
		{"comments only", "# nothing\n# here\n", nil},
		{"null documents", "---\n---\n~\n---\nnull # there are none\n", nil},
		{"byte order mark and CRLF", "\ufeffkind: route\r\ndestination: 10.0.0.0/8\r\n---\r\nkind: route\r\ndestination: 11.0.0.0/8\r\n", nil},
		{
			"unknown field with a near one", "kind: route\ndestination: 10.0.0.0/8\ngatway: 192.0.2.1\n",
			[]string{`f.yaml:3:1: field "gatway": unknown field of kind route; did you mean "gateway"? The fields are: ` + routeFields},
		},
		{
			"unknown field", "kind: route\ndestination: 10.0.0.0/8\nflavor: red\n",
			[]string{`f.yaml:3:1: field "flavor": unknown field of kind route; the fields are: ` + routeFields},
		},
		{"status is no field", "kind: route\ndestination: 10.0.0.0/8\nstatus: done\n", []string{
			`f.yaml:3:1: field "status": unknown field of kind route; the fields are: ` + routeFields,
		}},
		{"merge key", "kind: route\n<<: {destination: 10.0.0.0/8}\n", []string{
			`f.yaml:2:1: field "<<": unknown field of kind route; the fields are: ` + routeFields,
			`f.yaml:1:1: field "destination": missing, expected a prefix`,
		}[:1]},
		{"unknown kind", "# x\nkind: rout\n", []string{
			`f.yaml:2:7: field "kind": unknown kind "rout"; did you mean "route"? The kinds are: route, set`,
		}},
		{"kind is a mapping", "kind: {a: b}\n", []string{`f.yaml:1:7: field "kind": unknown kind a mapping; the kinds are: route, set`}},
		{"kind is missing", "\ndestination: 10.0.0.0/8\n", []string{`f.yaml:2:1: field "kind": missing; the kinds are: route, set`}},
		{"missing field", "kind: route\ndevice: eth0\n", []string{`f.yaml:1:1: field "destination": missing, expected a prefix`}},
		{"wrong type", "kind: route\ndestination: 10.0.0.0/8\nmetric: abc\nup: 7\ndevice: [eth0]\n", []string{
			`f.yaml:3:9: field "metric": found "abc", expected a whole number from 0 to 4294967295`,
			`f.yaml:4:5: field "up": found 7, expected true or false`,
			`f.yaml:5:9: field "device": found a list, expected text`,
		}},
		{"text for true or false", "kind: route\ndestination: 10.0.0.0/8\nup: \"yes\"\n", []string{
			`f.yaml:3:5: field "up": found "yes", expected true or false`,
		}},
		{"another word for true", "kind: route\ndestination: 10.0.0.0/8\nup: on\n", []string{
			`f.yaml:3:5: field "up": found "on", expected true or false`,
		}},
		{"number out of range", "kind: route\ndestination: 10.0.0.0/8\nmetric: -1\ntable: 128\n", []string{
			`f.yaml:3:9: field "metric": found -1, expected a whole number from 0 to 4294967295`,
			`f.yaml:4:8: field "table": found 128, expected a whole number from -128 to 127`,
		}},
		{"number with a leading zero", "kind: route\ndestination: 10.0.0.0/8\nmetric: 010\ntable: -0\n", []string{
			`f.yaml:3:9: field "metric": found 010, which some parsers read as octal; expected a whole number from 0 to 4294967295 without a leading zero`,
		}},
		{"bad address", "kind: route\ndestination: 10.0.0.0/8\ngateway: 192.0.2.300\n", []string{
			`f.yaml:3:10: field "gateway": found "192.0.2.300", expected an IP address such as 192.0.2.1 or 2001:db8::1: IPv4 field has value >255`,
		}},
		{"bad prefix", "kind: route\ndestination: 10.0.0.0\n", []string{
			`f.yaml:2:14: field "destination": found "10.0.0.0", expected an IP address with prefix length such as 192.0.2.0/24 or 2001:db8::/64: no '/'`,
		}},
		{"address is a mapping", "kind: route\ndestination: 10.0.0.0/8\ngateway: {a: 1}\n", []string{
			`f.yaml:3:10: field "gateway": found a mapping, expected an IP address such as 192.0.2.1 or 2001:db8::1`,
		}},
		{"no value", "kind: route\ndestination: 10.0.0.0/8\ngateway:\n", []string{
			`f.yaml:3:9: field "gateway": no value; expected an IP address such as 192.0.2.1 or 2001:db8::1, or the field left out`,
		}},
		{"empty text", "kind: route\ndestination: 10.0.0.0/8\ngateway: \"\"\n", []string{
			`f.yaml:3:10: field "gateway": empty text; expected an IP address such as 192.0.2.1 or 2001:db8::1, or the field left out if it is not required`,
		}},
		{"empty text of an alias", "kind: route\ndestination: 10.0.0.0/8\ngateway: &none \"\"\ndevice: *none\n", []string{
			`f.yaml:3:10: field "gateway": empty text; expected an IP address such as 192.0.2.1 or 2001:db8::1, or the field left out if it is not required`,
			`f.yaml:4:9: field "device": empty text; expected text, or the field left out if it is not required`,
		}},
		{"field given twice", "kind: route\ndestination: 10.0.0.0/8\ndestination: 11.0.0.0/8\n", []string{
			`f.yaml:3:1: field "destination": given twice, first on line 2`,
		}},
		{"kind given twice", "kind: route\ndestination: 10.0.0.0/8\nkind: set\n", []string{`f.yaml:3:1: field "kind": given twice, first on line 1`}},
		{"row's own complaints", "kind: route\ndestination: 10.0.0.0/8\nmetric: 1001\ndevice: bad\n", []string{
			`f.yaml:3:9: field "metric": found more than 1000`,
			`f.yaml:1:1: bad is bad`,
		}},
		{"not a mapping", "- a\n---\nhello\n", []string{
			`f.yaml:1:1: found a list, expected a document with a kind and fields`,
			`f.yaml:3:1: found "hello", expected a document with a kind and fields`,
		}},
		{"half a file", "kind: route\ndestination: 10.0.0.0/8\n---\nkind: route\ndesti", []string{
			`f.yaml:6:1: not YAML: could not find expected ':', while scanning a simple key that begins at line 5, column 1`,
		}},
		{"half a file that is valid", "kind: set\nname: a\nrules:\n- from: 192.0.2.1", []string{
			`f.yaml:4:18: the file ends in the middle of a line, which may be a failed write: expected a line break at the end`,
		}},
		{"half a comment", "kind: route\ndestination: 10.0.0.0/8\n# é", []string{
			`f.yaml:3:4: the file ends in the middle of a line, which may be a failed write: expected a line break at the end`,
		}},
		{"half a file after brackets", "{kind: route, destination: 10.0.0.0/8}\n---\nkind: route\ndestination: 10.1.0.0/1", []string{
			`f.yaml:4:24: the file ends in the middle of a line, which may be a failed write: expected a line break at the end`,
		}},
		{"half a file after brackets that have ended", "{kind: route, destination: 10.0.0.0/8}\n...\nkind: route\ndestination: 10.1.0.0/1", []string{
			`f.yaml:4:24: the file ends in the middle of a line, which may be a failed write: expected a line break at the end`,
		}},
		{"half an indentation", "kind: route\ndestination: 10.0.0.0/8\n  ", []string{
			`f.yaml:3:3: the file ends in the middle of a line, which may be a failed write: expected a line break at the end`,
		}},
		{"JSON without a line break", `{"kind": "route", "destination": "10.0.0.0/8"}`, nil},
		{"JSON after YAML", "kind: set\nname: a\n---\n# the other\n--- {\"kind\": \"route\", \"destination\": \"10.0.0.0/8\"}", nil},
		{"the end of a document without a line break", "kind: route\ndestination: 10.0.0.0/8\n...", nil},
		{"unclosed list", "kind: set\nname: a\nrules: [{from: 192.0.2.1}\n", []string{
			`f.yaml:4:1: not YAML: did not find expected ',' or ']', while parsing a flow sequence that begins at line 3, column 8`,
		}},
		{"documents after one that is not YAML", "kind: route\nx: [\n---\nkind: rout\n---\na: 'b\n---\nkind: route\ndestination: 10.0.0.0/8\nmetric: x\n", []string{
			`f.yaml:3:1: not YAML: did not find expected node content, while parsing a flow node`,
			`f.yaml:4:7: field "kind": unknown kind "rout"; did you mean "route"? The kinds are: route, set`,
			`f.yaml:7:1: not YAML: found unexpected document indicator, while scanning a quoted scalar that begins at line 6, column 4`,
			`f.yaml:10:9: field "metric": found "x", expected a whole number from 0 to 4294967295`,
		}},
		{"tab", "kind: route\n\tdestination: 10.0.0.0/8\n", []string{
			`f.yaml:2:1: not YAML: found a tab character that violates indentation, while scanning a plain scalar that begins at line 1, column 7`,
		}},
		{"not text", "kind: route\ndevice: a\xffb\n", []string{`f.yaml:2:10: found the byte 0xff, expected text in UTF-8`}},
		{"control character", "kind: route\ndevice: \x00\n", []string{`f.yaml:2:9: found the control character 0x00, expected text`}},
		{"unknown anchor", "kind: *x\n", []string{`f.yaml:1:7: not YAML: unknown anchor 'x' referenced`}},
		{"nested", "kind: set\nname: a\nrules:\n- from: x\n  ports: [1, 70000, b]\n- form: 192.0.2.1\n- 5\n", []string{
			`f.yaml:4:9: field "rules[0].from": found "x", expected an IP address such as 192.0.2.1 or 2001:db8::1: unable to parse IP`,
			`f.yaml:5:14: field "rules[0].ports[1]": found 70000, expected a whole number from 0 to 65535`,
			`f.yaml:5:21: field "rules[0].ports[2]": found "b", expected a whole number from 0 to 65535`,
			`f.yaml:6:3: field "rules[1].form": unknown field of kind set; did you mean "from"? The fields are: from, ports`,
			`f.yaml:7:3: field "rules[2]": found 5, expected a mapping`,
		}},
		{"row's own complaints about what is nested", "kind: set\nname: a\nrules:\n- from: 192.0.2.1\n  ports: [1, 0]\n- ports: [2]\n- {}\n", []string{
			`f.yaml:5:14: field "rules[0].ports[1]": found 0`,
			`f.yaml:6:3: field "rules[1].from": missing, expected an address`,
			`f.yaml:7:3: field "rules[2].from": missing, expected an address`,
		}},
		{"row's own complaints about what an alias stands for", "kind: set\nname: a\nrules: [&r {ports: [1]}, *r]\n", []string{
			`f.yaml:3:9: field "rules[0].from": missing, expected an address`,
			`f.yaml:3:26: field "rules[1].from": missing, expected an address`,
		}},
		{"list that can be compared", "kind: set\nname: a\nhops: [{via: x}, {cost: 300, vai: 1}, 7, {cost: 101}]\n", []string{
			`f.yaml:3:14: field "hops[0].via": found "x", expected an IP address such as 192.0.2.1 or 2001:db8::1: unable to parse IP`,
			`f.yaml:3:25: field "hops[1].cost": found 300, expected a whole number from 0 to 255`,
			`f.yaml:3:30: field "hops[1].vai": unknown field of kind set; did you mean "via"? The fields are: cost, via`,
			`f.yaml:3:39: field "hops[2]": found 7, expected a mapping`,
		}},
		{"no list", "kind: set\nname: a\nhops: {via: x}\n", []string{`f.yaml:3:7: field "hops": found a mapping, expected a list`}},
		{"nothing in place of a list", "kind: set\nname: a\nhops:\n", []string{
			`f.yaml:3:6: field "hops": no value; expected a list, or the field left out`,
		}},
		{"row's own complaints about such a list", "kind: set\nname: a\nhops: [{cost: 1}, {cost: 101}]\n", []string{
			`f.yaml:3:26: field "hops[1].cost": found more than 100`,
		}},
		{"mapping of names", "kind: set\nname: a\nvars: {a: 1, b: x, a: 2, [c]: 3}\ntext: []\n", []string{
			`f.yaml:3:17: field "vars.b": found "x", expected a whole number of at most 64 bits`,
			`f.yaml:3:20: field "vars.a": given twice, first on line 3`,
			`f.yaml:3:26: field "vars": found a list as the name of a field, expected text`,
			`f.yaml:4:7: field "text": found a list, expected a mapping`,
		}},
		{"other types", "kind: set\nname: a\nlimit: -1\nevery: soon\nweight: much\nrules: x\n", []string{
			`f.yaml:3:8: field "limit": found -1, expected a whole number from 0 on, of at most 64 bits`,
			`f.yaml:4:8: field "every": found "soon", expected a duration such as 500ms, 30s or 5m`,
			`f.yaml:5:9: field "weight": found "much", expected a number`,
			`f.yaml:6:8: field "rules": found "x", expected a list`,
		}},
		{"same key twice in a file", "kind: route\ndestination: 10.0.0.0/8\n---\nkind: route\nmetric: 1\ndestination: 10.0.0.0/8\n", []string{
			`f.yaml:2:14: field "destination": route "10.0.0.0/8" is also declared at f.yaml:6:14; neither takes effect`,
			`f.yaml:6:14: field "destination": route "10.0.0.0/8" is also declared at f.yaml:2:14; neither takes effect`,
		}},
		{"same key without key field", "kind: set\nname: a\n---\nkind: set\nname: a\n", []string{
			`f.yaml:1:1: set "a" is also declared at f.yaml:4:1; neither takes effect`,
			`f.yaml:4:1: set "a" is also declared at f.yaml:1:1; neither takes effect`,
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := newFixture(t).parser(t).parse("f.yaml", []byte(test.input))
			if diff := cmp.Diff(strings.Join(test.want, "\n"), text(c.problems)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestParseRows(t *testing.T) {
	c := newFixture(t).parser(t).parse("f.yaml", []byte(`kind: route
destination: 10.0.0.0/8
gateway: 192.0.2.1
device: 0x10
metric: 1_0
---
kind: set
team: core
name: true
rules: [{from: &a 192.0.2.1, ports: [80, 443]}, {from: *a}]
vars: {x: 1}
hops: [{via: *a, cost: 7}, {}]
limit: 5
every: 30s
weight: 1
any: {a: [1, two]}
text: {a: 2020-01-01}
`))
	if !c.good() {
		t.Fatal(text(c.problems))
	}
	limit := uint(5)
	addr := netip.MustParseAddr("192.0.2.1")
	want := []any{
		route{Destination: netip.MustParsePrefix("10.0.0.0/8"), Gateway: addr, Device: "0x10", Metric: 10, Up: true},
		&set{
			Labels: Labels{Team: "core"},
			Name:   "true",
			Rules:  []rule{{From: addr, Ports: []uint16{80, 443}}, {From: addr}},
			Vars:   map[string]int{"x": 1}, Hops: immutable.ListOf(hop{addr, 7}, hop{}), Limit: &limit, Every: 30 * time.Second, Weight: 1,
			Any: map[string]any{"a": []any{1, "two"}}, Text: map[string]string{"a": "2020-01-01"},
		},
	}
	var got []any
	for _, d := range c.docs {
		got = append(got, d.row)
	}
	comparers := cmp.Options{cmp.Comparer(func(a, b netip.Addr) bool { return a == b }), cmp.Comparer(func(a, b route) bool { return a == b }), cmp.Comparer(func(a, b immutable.List[hop]) bool { return a == b })}
	if diff := cmp.Diff(want, got, comparers); diff != "" {
		t.Error(diff)
	}
}

func TestAliasesCannotMultiply(t *testing.T) {
	levels := []string{"kind: set", "name: a", "any:", "  a0: &a0 [x,x,x,x,x,x,x,x,x,x]"}
	for i := 1; i < 12; i++ {
		before := "*a" + string(rune('0'+i-1))
		if i > 10 {
			before = "*b"
		}
		name := "a" + string(rune('0'+i))
		if i > 9 {
			name = "b"
		}
		levels = append(levels, "  "+name+": &"+name+" ["+strings.Repeat(before+", ", 9)+before+"]")
	}
	for name, input := range map[string]string{
		"free form":  strings.Join(levels[:13], "\n"),
		"own parent": "kind: set\nname: a\nrules: &x [{ports: *x}]\n",
		"free loop":  "kind: set\nname: a\nany: &x [*x]\n",
	} {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			c := newFixture(t).parser(t).parse("f.yaml", []byte(input))
			if c.good() {
				t.Error("expected an error")
			}
			if took := time.Since(start); took > 5*time.Second {
				t.Errorf("took %v", took)
			}
		})
	}
}

func TestProblemsAreLimited(t *testing.T) {
	for _, document := range []string{"kind: x\n---\n", "a: [\n---\n"} {
		c := newFixture(t).parser(t).parse("f.yaml", []byte(strings.Repeat(document, 5000)))
		if len(c.problems) > maxProblems+1 {
			t.Errorf("%d problems, want at most %d", len(c.problems), maxProblems+1)
		}
	}
}

func TestTypesThatDocumentsCannotSayAreRefused(t *testing.T) {
	type withFunc struct{ F []func() }
	type withKind struct{ Kind string }
	type twice struct {
		A string `yaml:"a"`
		B string `yaml:"a"`
	}
	for want, err := range map[string]error{
		`kind "x": withFunc.F is a func(), which documents cannot express: tag it yaml:"-"`:                   declared[withFunc]("x"),
		`kind "x": the row type has a field "kind", which documents use for the name of the kind`:             declared[withKind]("x"),
		`kind "x": twice has two fields "a"`:                                                                  declared[*twice]("x"),
		`kind "x": the row type is string, expected a struct or a pointer to one`:                             declared[string]("x"),
		`kind "x": Table is not set`:                                                                          declared[rule]("x"),
		`kind "A b": the name must consist of lower-case letters, digits and dashes, and begin with a letter`: declared[rule]("A b"),
	} {
		if err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func declared[Obj any](name string) error {
	_, err := NewKind(KindConfig[Obj]{Name: name})
	return err
}

func FuzzParse(f *testing.F) {
	seeds, err := filepath.Glob("testdata/seeds/*.yaml")
	if err != nil || len(seeds) == 0 {
		f.Fatal("no seeds", err)
	}
	for _, path := range seeds {
		data, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	p := newFixture(f).parser(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		c := p.parse("f.yaml", data)
		last := 2
		for _, ending := range []string{"\n", "\r", "\u0085", "\u2028", "\u2029"} {
			last += strings.Count(string(data), ending)
		}
		for _, problem := range c.problems {
			if problem.message == "" || problem.at.line > last {
				t.Errorf("bad problem %v", problem)
			}
		}
		if len(c.docs) > c.total {
			t.Errorf("%d rows of %d documents", len(c.docs), c.total)
		}
	})
}
