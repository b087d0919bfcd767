package yamlsize

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime/metrics"
	"strings"
	"testing"
	"unicode/utf8"

	"go.uber.org/goleak"
	"go.yaml.in/yaml/v4"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// nodesOf returns how many nodes there are, and the last line of any.
func nodesOf(n *yaml.Node) (count, last int) {
	count, last = 1, n.Line
	for _, child := range n.Content {
		nodes, line := nodesOf(child)
		count, last = count+nodes, max(last, line)
	}
	return count, last
}

// part is what Documents yields.
type part struct {
	line int
	text []byte
}

func partsOf(data []byte) (parts []part) {
	for line, text := range Documents(data) {
		parts = append(parts, part{line, text})
	}
	return parts
}

// checkAgainstParser compares what the parser makes of a stream, up to the first error, with the estimate.
func checkAgainstParser(t *testing.T, data []byte) {
	t.Helper()
	parts := partsOf(data)
	var joined []byte
	for _, p := range parts {
		joined = append(joined, p.text...)
	}
	if !bytes.Equal(joined, data) {
		t.Fatalf("the parts are %q of %q", joined, data)
	}
	ordinary := !otherBreaks(data) // else its lines are not those of the parser
	loader, err := yaml.NewLoader(bytes.NewReader(data))
	total := 0
	for err == nil {
		var document yaml.Node
		if err = loader.Load(&document); err != nil {
			break
		}
		nodes, last := nodesOf(&document)
		total += nodes
		if ordinary {
			checkDocument(t, parts, &document, nodes, last)
		}
	}
	limit := 0
	for _, p := range parts {
		limit += Structure(p.text) + 2
	}
	if total > limit {
		t.Errorf("%d nodes, estimated at most %d: %q", total, limit, data)
	}
}

func checkDocument(t *testing.T, parts []part, document *yaml.Node, nodes, last int) {
	t.Helper()
	for i, p := range parts {
		if i+1 < len(parts) && parts[i+1].line < document.Line {
			continue
		}
		if i+1 < len(parts) && last > parts[i+1].line+1 {
			t.Errorf("a document of lines %d to %d is not within a part: %q", document.Line, last, p.text)
		}
		limit := Structure(p.text) + 2
		if i+1 < len(parts) && document.Line == parts[i+1].line { // the end of this part, or the start of the next
			limit = max(limit, Structure(parts[i+1].text)+2)
		}
		if nodes > limit {
			t.Errorf("%d nodes in lines %d to %d, estimated at most %d: %q", nodes, document.Line, last, limit, p.text)
		}
		return
	}
}

var seeds = []string{
	"", "a", "kind: route\ndestination: 10.0.0.0/8\n---\nkind: set\nname: a\nrules:\n- from: 192.0.2.1\n  ports: [1, 2]\n",
	"k: |\n  text, [text]: {,}\n  # none\n\n  x: y\nl: >-\n    a\n   b: [c, d, e]\n", "- |2\n   a\n  b\n- |+\n\n - x\n",
	"k: |\n     \n  [a, a, a]\n", "k: |\n\t[a, a]\n", "k: |\n---\n[a, a]\n", "k: 'a\n---\n b'\n", "k: \"a\n...\n b\"\n", "[a\n---\nb]\n",
	"a: b\n  \"x\n  |\n  [a, a, a, a, a, a]\n", "a: b\n  - |\n    # x\n    [a, a, a, a, a]\n", "a: \"b # c\"\nd: 'e''f'  # g\n",
	"%YAML 1.2\n---\na\n...\n%TAG ! x\n---\nb\n...\nc\n", "\ufeffa: b\n---\n\ufeffc: d\n", "a: b\r\n---\r\nc: |\r\n  d\r\n  e\r\n", "a: b\r---\rc: d\r",
	"k: |\n  a\u2028[a, a, a]\n", "k: |\n  a\u0085[a, a, a]\n", "{a: , : b, ? c, : , ::, \"d\":e, [f]: g}\n", "[: , ? , - , a: b, &x , *x , !y , !<z> ]\n",
	"? a\n: b\n? - - -\n: - -\n", "&a a: *a\n<<: *a\n", "a:\n- b\n- - c\n  - d\n", "\"a\" : b\n'c': d\n", "--- |\n a\n--- \"b\"\n--- # c\n---#\n", "a: - b\n", "- # x\n- #\n-\n", ":\n:\n", "a: |#\n [a]\n", "a: | # x\n [a]\n", "a: |3\n  [a, a]\n", "a: [b, c]: d\n", "-\t!-\t!", "a: -\t!\n", "[: a: b", "[-\t-",
	"a: [b, 'c', \"d\",\n  e, 2001:db8::1, f\n  ]\ng: [h, ::1]\n", "a: [\"b\" \"c\" 'd' ", "a: [b: c, d\n, e: , f, - g, -, ?, :, h #\n, i]\n",
}

func TestStructureBoundsTheParsersNodes(t *testing.T) {
	for _, seed := range seeds {
		checkAgainstParser(t, []byte(seed))
	}
}

// FuzzStructure compares with the parser: nodes, where documents begin and end, and what the parser allocates, also for
// text that it refuses in the end.
func FuzzStructure(f *testing.F) {
	for _, seed := range seeds {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		isControl := func(r rune) bool { return r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == 0x7f }
		if !utf8.Valid(data) || bytes.ContainsFunc(data, isControl) {
			t.Skip("callers refuse what is not text")
		}
		checkAgainstParser(t, data)
		checkAllocations(t, data)
	})
}

// checkAllocations repeats a text, so that constant costs do not matter.
func checkAllocations(t *testing.T, data []byte) {
	t.Helper()
	repeated := max(200, 1<<13/(len(data)+1))
	for _, between := range []string{"", "\n"} {
		text := bytes.Repeat(append(bytes.Clone(data), between...), repeated)
		limit := 64*len(text) + 1<<20
		for _, p := range partsOf(text) {
			limit += 500 * (Structure(p.text) + 2)
		}
		used := allocatedByParsing(text)
		for range 3 { // what others allocate meanwhile counts, too
			if used > limit {
				used = min(used, allocatedByParsing(text))
			}
		}
		if used > limit {
			t.Errorf("%d bytes allocated, estimated at most %d: %q, %d times", used, limit, data, repeated)
		}
	}
}

func allocatedByParsing(text []byte) int {
	before := allocated()
	loader, err := yaml.NewLoader(bytes.NewReader(text))
	for err == nil {
		var document yaml.Node
		err = loader.Load(&document)
	}
	return allocated() - before
}

func allocated() int {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return int(sample[0].Value.Uint64())
}

// Text counts little where the parser makes one scalar of it.
func TestStructureOfText(t *testing.T) {
	text := strings.Repeat("a, b: [c] # {\"d\"}\n\n", 1000)
	for name, document := range map[string]string{
		"block scalar":         "kind: file\ncontent: |\n  " + strings.ReplaceAll(text, "\n", "\n  ") + "\nmode: 0644\n",
		"in a list":            "kind: file\nlist:\n- content: >2-\n     " + strings.ReplaceAll(text, "\n", "\n    ") + "\n  mode: 0644\n",
		"double quotes":        "kind: file\ncontent: " + fmt.Sprintf("%q", text) + "\nmode: 0644\n",
		"single quotes":        "kind: file\ncontent: '" + strings.ReplaceAll(text, "\n", " ") + "' # ,\nmode: 0644\n",
		"after a flow list":    "kind: file\nlist: [1, {a: 2}]\ncontent: |\n  " + strings.ReplaceAll(text, "\n", "\n  ") + "\nmode: 0644\n",
		"with line ends CR LF": "kind: file\r\ncontent: |\r\n  " + strings.ReplaceAll(text, "\n", "\r\n  ") + "\r\nmode: 0644\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			var n yaml.Node
			if err := yaml.Load([]byte(document), &n); err != nil {
				t.Fatal(err)
			}
			if weight := Structure([]byte(document)); weight > 100 {
				t.Errorf("got %d", weight)
			}
		})
	}
}

func TestDocumentsOfAStreamThatTheParserRefuses(t *testing.T) {
	loader, err := yaml.NewLoader(strings.NewReader("k: 'a\n---\nb'\n"))
	if err == nil {
		err = loader.Load(new(yaml.Node))
	}
	if err == nil || errors.Is(err, io.EOF) {
		t.Error("the parser takes a separator in quotes for text", err)
	}
}

func BenchmarkStructure(b *testing.B) {
	document := "---\nkind: route\ndestination: 10.1.2.3/32\ngateway: 192.0.2.1\nmetric: 5\n"
	data := []byte(strings.Repeat(document, 100_000))
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		total := 0
		for _, part := range Documents(data) {
			total += Structure(part)
		}
		b.ReportMetric(float64(total)/100_000, "weight/document")
	}
}
