package file

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"runtime"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"

	"github.com/statehive/statehive/internal/yamlsize"
)

// id identifies a row: its kind and its key, which must be unique over all documents.
type id struct {
	of  Kind
	key string
}

func (i id) String() string { return fmt.Sprintf("%s %q", i.of.Name(), i.key) }

// document is one row as a file declares it.
type document struct {
	id
	row any
	at  place // of the key field, or of the document
}

// taken returns the problem that another document has the same key.
func (d *document) taken(by place) problem {
	return problem{at: d.at, field: d.of.keyField(), message: fmt.Sprintf("%v is also declared at %v; neither takes effect", d.id, by)}
}

// content is the content of a file in one scan. It is immutable.
type content struct {
	sum      [sha256.Size]byte
	unread   bool // the file could not be read; sum is the sum of the problem
	size     int  // in bytes
	total    int  // number of documents, including invalid ones and those that filters drop
	docs     []*document
	problems []problem
	more     int // number of problems that were left out
	filtered []filteredKind
	claims   []claim // the invalid documents
	unclear  bool    // invalid documents may declare any row
}

func (c *content) good() bool { return len(c.problems) == 0 }

// unreadable is the content of a file that could not be read.
func unreadable(p problem) *content {
	return &content{sum: sha256.Sum256([]byte(p.String())), unread: true, problems: []problem{p}}
}

// parser turns files into documents of its kinds.
type parser struct {
	kinds map[string]Kind
	names []string // of the kinds, sorted

	filters filterSet     // replace those of the kinds
	known   knownContents // contents that Read need not parse again; may be nil
}

func newParser(kinds []Kind) parser {
	p := parser{kinds: make(map[string]Kind, len(kinds))}
	for _, k := range kinds {
		p.kinds[k.Name()] = k
	}
	p.names = slices.Sorted(maps.Keys(p.kinds))
	return p
}

func (p *parser) parse(file string, data []byte) *content {
	c := &content{sum: sha256.Sum256(data), size: len(data)}
	if bad, ok := notText(file, data); ok {
		c.report(bad)
		return c
	}
	parts, bad := runs(file, data)
	if bad != nil {
		c.report(*bad)
		return c
	}
	parsed := 0
	for _, r := range parts {
		cost := r.structure + len(r.data)/(maxDocumentSize/maxDocumentStructure)
		if parsed += cost; parsed > maxDocumentStructure {
			// On a busy machine the collector falls behind, and what several large documents took would be kept at once.
			runtime.GC()
			parsed = cost
		}
		p.run(c, file, r)
	}
	if bad, ok := cutOff(file, data); ok {
		if c.unclear = true; len(c.problems) == 0 { // the others may be because of that
			c.report(bad)
		}
	}
	if c.total == 0 && !bytes.ContainsRune(data, '#') { // such as the output of a generator that failed, or "null"
		c.report(problem{at: place{file: file}, message: "has no documents, which may be a failed write: expected documents, or a comment that there are none; or remove the file"})
		return c
	}
	c.refuseTwins()
	if c.more > 0 {
		c.problems = append(c.problems, problem{at: place{file: file}, message: fmt.Sprintf("errors left out: %d", c.more)})
	}
	return c
}

// run adds the documents of a run. After a document that is not YAML it continues with the next.
func (p *parser) run(c *content, file string, r run) {
	if r.refused != nil {
		c.total++
		c.unclear = true
		c.report(*r.refused)
		return
	}
	for data, line := r.data, r.line; ; {
		failure := p.stream(c, file, data, line)
		if failure == nil {
			return
		}
		c.total++
		c.unclear = true
		c.report(failure.problem)
		skipped, rest := nextDocument(data, failure.mark)
		if rest == nil || len(c.problems) >= maxProblems {
			return
		}
		data, line = rest, line+skipped
	}
}

// failure is a syntax error in the YAML. The rest of the document is lost.
type failure struct {
	problem
	mark yaml.Mark // relative to the start of the stream
}

// stream reads the documents of data, up to the end or to a failure.
func (p *parser) stream(c *content, file string, data []byte, offset int) *failure {
	var d decoder
	loader, err := yaml.NewLoader(bytes.NewReader(data), loaderLimits)
	for err == nil {
		var n yaml.Node
		if err = loader.Load(&n); err == nil {
			p.document(c, &d, file, offset, &n)
		}
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	f := &failure{problem: problem{at: place{file: file, line: offset + 1, column: 1}}}
	var wrong *yaml.LoadError
	if !errors.As(err, &wrong) {
		f.message = fmt.Sprintf("not YAML: %v", err)
		return f
	}
	f.mark = wrong.Mark
	f.message = "not YAML: " + wrong.Message
	if wrong.ContextMsg != "" {
		f.message += ", " + wrong.ContextMsg
	}
	if begin := wrong.ContextMark; begin.Line > 0 && begin.Line != wrong.Mark.Line {
		f.message += fmt.Sprintf(" that begins at line %d, column %d", begin.Line+offset, begin.Column)
	}
	if wrong.Mark.Line > 0 {
		f.at.line, f.at.column = wrong.Mark.Line+offset, max(1, wrong.Mark.Column)
	}
	return f
}

// document adds one document, or its problems.
func (p *parser) document(c *content, d *decoder, file string, offset int, n *yaml.Node) {
	if n.Kind == yaml.DocumentNode && len(n.Content) == 1 {
		n = n.Content[0]
	}
	if n.ShortTag() == "!!null" {
		return
	}
	c.total++
	at := place{file: file, line: n.Line + offset, column: n.Column}
	if n.Kind != yaml.MappingNode {
		c.unclear = true
		c.report(problem{at: at, message: fmt.Sprintf("found %s, expected a document with a kind and fields", found(n))})
		return
	}
	k, bad := p.kindOf(n, at, offset)
	if k == nil {
		c.unclear = true
		c.report(bad)
		return
	}
	d.reset(file, offset, k, n)
	filter := p.filterOf(k)
	c.filteredBy(k, filter.version)
	row, key := k.decode(d, n, filter.keep)
	if d.failed() {
		c.report(d.problems...)
		c.more += d.more
		c.claimed(k, d, n)
		return
	}
	if row == nil {
		return
	}
	if of, given := d.placeOf(k.keyField()); given {
		at = of
	}
	if len(key) > maxKey {
		c.unclear = true
		c.report(problem{at: at, field: k.keyField(), message: fmt.Sprintf("found %s of %d bytes, expected at most %d", quote(key), len(key), maxKey)})
		return
	}
	c.docs = append(c.docs, &document{id: id{k, key}, row: row, at: at})
}

// kindOf finds the kind of a mapping.
func (p *parser) kindOf(n *yaml.Node, at place, offset int) (Kind, problem) {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value != kindField {
			continue
		}
		value := n.Content[i+1]
		at.line, at.column = value.Line+offset, value.Column
		if value.Kind == yaml.AliasNode {
			value = value.Alias
		}
		if k := p.kinds[value.Value]; k != nil && value.Kind == yaml.ScalarNode {
			return k, problem{}
		}
		return nil, problem{at: at, field: kindField, message: "unknown kind " + found(value) + "; " + instead(value.Value, "kinds", p.names)}
	}
	return nil, problem{at: at, field: kindField, message: "missing; the kinds are: " + strings.Join(p.names, ", ")}
}

// refuseTwins reports the documents of one file that have the same key.
func (c *content) refuseTwins() {
	byID := newClaims(len(c.docs))
	for _, d := range c.docs {
		byID.add(d)
	}
	if len(byID.second) == 0 {
		return
	}
	for _, d := range c.docs {
		other := byID.rivalOf(d)
		switch {
		case other == nil:
		case len(c.problems) < maxProblems:
			c.report(d.taken(other.at))
		default:
			c.more++
		}
	}
}

// notText returns a problem for the first byte that is not allowed in YAML in UTF-8. The
// errors of the yaml package do not have its place.
func notText(file string, data []byte) (problem, bool) {
	line, column := 1, 1
	for rest := data; len(rest) > 0; {
		r, size := utf8.DecodeRune(rest)
		switch {
		case r == utf8.RuneError && size == 1:
			return problem{at: place{file, line, column}, message: fmt.Sprintf("found the byte 0x%02x, expected text in UTF-8", rest[0])}, true
		case r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == 0x7f:
			return problem{at: place{file, line, column}, message: fmt.Sprintf("found the control character 0x%02x, expected text", r)}, true
		case r == '\n':
			line, column = line+1, 0
		}
		rest = rest[size:]
		column++
	}
	return problem{}, false
}

// cutOff returns a problem if a file ends in the middle of a line, as one does that was not written completely: YAML may be valid all the same.
// A document in brackets, such as JSON, is not, wherever it is cut off. A line "..." ends a document in any case.
func cutOff(file string, data []byte) (problem, bool) {
	last := data[bytes.LastIndexByte(data, '\n')+1:]
	if len(last) == 0 || len(bytes.Trim(data, "\ufeff \t\r\n")) == 0 || bytes.HasSuffix(data, []byte("\r")) || string(last) == "..." || inBrackets(data) {
		return problem{}, false
	}
	end := place{file: file, line: 1 + bytes.Count(data, []byte("\n")), column: 1 + utf8.RuneCount(last)}
	return problem{at: end, message: "the file ends in the middle of a line, which may be a failed write: expected a line break at the end"}, true
}

// inBrackets reports whether the last document of a file is in brackets.
func inBrackets(data []byte) bool {
	brackets, begun := false, false
	for line := range bytes.Lines(bytes.TrimPrefix(data, []byte("\ufeff"))) {
		rest, marked := bytes.CutPrefix(line, []byte("---"))
		if bytes.HasPrefix(line, []byte("...")) {
			rest, marked = nil, true
		}
		begun = begun && !marked
		if rest = bytes.TrimLeft(rest, " \t\r\n"); !begun && len(rest) > 0 && rest[0] != '#' {
			brackets, begun = rest[0] == '{' || rest[0] == '[', true
		}
	}
	return brackets
}

// nextDocument returns the data from the first document on that begins at or after the mark, but not at the first line,
// and the number of lines before it. It returns nil if there is no such document.
func nextDocument(data []byte, mark yaml.Mark) (lines int, rest []byte) {
	from := mark.Line - 1
	if mark.Column > 1 {
		from = mark.Line
	}
	start := 0
	for line, document := range yamlsize.Documents(data) {
		if line >= max(from, 1) {
			return line, data[start:]
		}
		start += len(document)
	}
	return 0, nil
}
