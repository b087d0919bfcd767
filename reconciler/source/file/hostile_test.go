package file

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/statehive/statehive/internal/yamlsize"
)

// hostile are the beginnings and the repeated parts of files that make a parser allocate as much as it can.
var hostile = map[string][2]string{
	"flow list":              {"[", "1,"},
	"flow map":               {"{", "a,"},
	"flow list as a value":   {"kind: set\nname: a\nany: [", "1,"},
	"pairs in a flow list":   {"[", ": ,"},
	"flow lists":             {"[", "[],"},
	"nested flow lists":      {"", "["},
	"nested maps":            {"", "{a: "},
	"nested lists":           {"", "- "},
	"list":                   {"", "- a\n"},
	"list of nothing":        {"", "-\n"},
	"list of lists":          {"", "- - - -\n"},
	"names":                  {"kind: route\n", "a: b\n"},
	"complex names":          {"", "? a\n"},
	"complex flow names":     {"[", "?,"},
	"list of problems":       {"kind: set\nname: a\nrules:\n", "- x\n"},
	"comments":               {"", "#\n- a\n"},
	"comments on lines":      {"", "- a #\n"},
	"comments alone":         {"", "#\n"},
	"comments between":       {"a:\n", "  # x\n\n"},
	"anchors":                {"[", "&a ,"},
	"aliases":                {"kind: set\nname: a\nany: [&a x", ",*a"},
	"tags":                   {"[", "!a ,"},
	"quoted":                 {"[", `"" `},
	"quoted lists":           {"[", `"a",`},
	"long value":             {"kind: set\nname: ", "a"},
	"long quoted value":      {"kind: set\nname: \"", "\\u00e9"},
	"long block":             {"kind: set\nname: |\n", "  a\n"},
	"long folded block":      {"kind: set\nname: >\n", "  a\n"},
	"long plain value":       {"kind: set\nname: a\n", "  a\n"},
	"empty lines":            {"kind: set\nname: |\n", "\n"},
	"long name":              {"kind: set\n", "a"},
	"long anchor":            {"kind: &", "a"},
	"long alias":             {"kind: *", "a"},
	"long tag":               {"kind: !", "a"},
	"names in a flow list":   {"[", ":\ta"},
	"entries in a flow list": {"[", "-\t"},
	"entries with tabs":      {"", "-\t!"},
	"documents":              {"", "---\n"},
	"documents of one value": {"", "--- a\n"},
	"unknown kinds":          {"", "kind: x\n---\n"},
	"not YAML":               {"", "a: [\n---\n"},
	"rows":                   {"", "kind: set\nname: a\n---\n"},
	"document ends":          {"", "a\n...\n"},
	"directives":             {"", "%TAG !a! b\n"},
	"tabs":                   {"", "\t"},
	"spaces":                 {"a:\n", " "},
	"line separators":        {"", "\u2028"},
	"other line ends":        {"", "- a\r"},
}

// hostileFile returns the largest file, or the one with the largest documents that are just not refused.
func hostileFile(name string) []byte {
	parts, large := hostile[strings.TrimPrefix(name, accepted)], !strings.HasPrefix(name, accepted)
	if large {
		return append([]byte(parts[0]), bytes.Repeat([]byte(parts[1]), (MaxFileSize-len(parts[0]))/len(parts[1]))...)
	}
	const sample = 1000
	structure := max(1, yamlsize.Structure([]byte(parts[0]+strings.Repeat(parts[1], sample))))
	repeats := min(maxDocumentStructure*sample/structure-sample/100, (maxDocumentSize-1000)/len(parts[1]))
	document := "---\n" + parts[0] + strings.Repeat(parts[1], repeats) + "\n"
	documents := min(max(1, maxFileStructure/(yamlsize.Structure([]byte(document))+1)), MaxFileSize/len(document))
	return bytes.Repeat([]byte(document), documents)
}

// accepted begins the names of files with documents that are not refused for their size.
const accepted = "accepted "

// BenchmarkHostile is what files cost that are refused.
func BenchmarkHostile(b *testing.B) {
	p := newFixture(b).parser(b)
	for part := range hostile {
		for _, name := range []string{part, accepted + part} {
			b.Run(name, func(b *testing.B) {
				data := hostileFile(name)
				b.ReportAllocs()
				for b.Loop() {
					p.parse("f.yaml", data)
				}
			})
		}
	}
}

// Documents that are large, as they may be, are taken.
func TestLargeDocumentsAreTaken(t *testing.T) {
	elements := make([]string, 100_000)
	for i := range elements {
		elements[i] = fmt.Sprintf("2001:db8::%x:1", i)
	}
	text := strings.Repeat("key: [value, \"other\"]  # {comment}\n", 1<<20/36)
	for name, document := range map[string]string{
		"lines":        "kind: set\nname: a\nany:\n- " + strings.Join(elements, "\n- ") + "\n",
		"brackets":     "kind: set\nname: a\nany: [" + strings.Join(elements, ", ") + "]\n",
		"text":         "kind: set\nname: a\nany: |\n  " + strings.ReplaceAll(text, "\n", "\n  ") + "\n",
		"quoted text":  "kind: set\nname: a\nany: " + strconv.Quote(text) + "\n",
		"empty lines":  "kind: set\nname: a\nany: |+\n" + strings.Repeat("\n", 1<<20),
		"many of text": strings.Repeat("---\nkind: set\nname: a\nany: |\n"+strings.Repeat("  key: [value]\n", 100_000), 10),
	} {
		t.Run(name, func(t *testing.T) {
			c := newFixture(t).parser(t).parse("f.yaml", []byte(document))
			if name != "many of text" && !c.good() || len(c.docs) == 0 {
				t.Error(text1000(c.problems))
			}
		})
	}
}

func text1000(problems []problem) string { return clip(text(problems), 1000) }

// A document that is refused leaves the others of its file as they are; so do rows in force.
func TestTooLargeDocumentTakesNothingWithIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const good = "kind: route\ndestination: 10.0.0.0/8\n"
		h := newHarness(t, map[string]string{"a.yaml": good})
		h.settle()
		h.wantRoutes("10.0.0.0/8")
		h.write("a.yaml", "kind: rout\n---\n["+strings.Repeat("1,", 1<<20)+"\n---\nkind: route\ndestination: 10.0.0.0/8\nmetric: x\n")
		h.settle()
		h.wantRoutes("10.0.0.0/8")
		h.wantDocuments(`a.yaml error 3/1: a.yaml:1:7: field "kind": unknown kind "rout"; did you mean "route"? The kinds are: route, set` +
			"\na.yaml:2:1: the document holds too many names and values: its structure counts 11534349, expected at most 524288" +
			"\n" + `a.yaml:7:9: field "metric": found "x", expected a whole number from 0 to 4294967295`)
	})
}

func TestLongNamesAndValuesAreShownShort(t *testing.T) {
	long := strings.Repeat("x", 4<<20)
	for name, document := range map[string]string{
		"name of a field": "kind: set\nname: a\n" + long + ": a\n",
		"nested name":     "kind: set\nname: a\nvars:\n  ? " + long + "\n  : 1\n",
		"kind":            "kind: " + long + "\n",
		"value":           "kind: set\nname: " + long + "\n",
		"key":             "kind: set\nname: " + long[:10_000] + "\n",
		"number":          "kind: set\nname: a\nlimit: " + strings.Repeat("1", 1<<20) + "\n",
		"alias":           "kind: *" + long + "\n",
		"tag":             "kind: !" + long + " a\n",
		"whole document":  long,
	} {
		t.Run(name, func(t *testing.T) {
			c := newFixture(t).parser(t).parse("f.yaml", []byte(document))
			if got := text(c.problems); got == "" || len(got) > 1000 {
				t.Errorf("%d bytes: %s", len(got), clip(got, 2000))
			}
		})
	}
}
