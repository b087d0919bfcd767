package file

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v4"
	"go.yaml.in/yaml/v4/plugin/loaderlimits"

	"github.com/statehive/statehive/internal/yamlsize"
)

// Limits on the cost of documents, checked before they are parsed or before rows are made of them. The structure of a
// document is the result of [yamlsize.Structure].
const (
	maxDocumentSize      = 8 << 20
	maxDocumentStructure = 512 << 10
	maxFileStructure     = 4 << 20
	maxFileDocuments     = 250_000
	maxRunStructure      = 8 << 10 // of documents that are parsed together

	maxText = 2 << 20 // bytes of a value
	maxName = 256     // bytes of the name of a field
	maxKey  = 4096    // bytes of the primary key of a row
)

// Limits on the values of one document, against aliases that multiply or form cycles.
const (
	maxValues = 1 << 18
	maxDepth  = 100
)

// Limits on the problems reported in the log and in tables.
const (
	maxProblems     = 100 // of one file
	maxMessage      = 600 // bytes
	maxProblemField = 160 // bytes
)

// run is a part of a file that is parsed in one call: a document, or several small ones. The parser must not get more at a
// time, because it looks ahead without bound for the end of brackets, across documents.
type run struct {
	line      int // number of lines before it
	data      []byte
	structure int
	refused   *problem // why it is not parsed
}

// runs divides a file into runs, or returns a problem if the whole file is refused.
func runs(file string, data []byte) ([]run, *problem) {
	var all []run
	documents, structure, end := 0, 0, 0
	for line, document := range yamlsize.Documents(data) {
		at := place{file: file, line: line + 1, column: 1}
		size, refused := measure(at, document)
		documents++
		structure += size
		switch {
		case documents > maxFileDocuments:
			return nil, tooLarge(place{file: file}, "the file holds more than %d documents; divide it", maxFileDocuments)
		case structure > maxFileStructure:
			return nil, tooLarge(place{file: file}, "the file holds too many names and values: its structure counts more than %d; divide it", maxFileStructure)
		}
		end += len(document)
		if last := len(all) - 1; last >= 0 && refused == nil && all[last].refused == nil && all[last].structure+size <= maxRunStructure {
			all[last].structure += size
			all[last].data = data[end-len(document)-len(all[last].data) : end]
			continue
		}
		all = append(all, run{line, document, size, refused})
	}
	return all, nil
}

// measure returns the structure of a document, or the problem for which it is refused.
func measure(at place, document []byte) (structure int, refused *problem) {
	if len(document) > maxDocumentSize {
		return 0, tooLarge(at, "the document has %d bytes, expected at most %d", len(document), maxDocumentSize)
	}
	structure = yamlsize.Structure(document)
	if structure > maxDocumentStructure {
		return 0, tooLarge(at, "the document holds too many names and values: its structure counts %d, expected at most %d", structure, maxDocumentStructure)
	}
	return structure, nil
}

func tooLarge(at place, format string, args ...any) *problem {
	return &problem{at: at, message: fmt.Sprintf(format, args...)}
}

// loaderLimits bounds the values that the yaml package makes of a document.
var loaderLimits = yaml.WithPlugin(loaderlimits.New(
	loaderlimits.DepthValue(maxDepth),
	loaderlimits.AliasFunc(func(_, values int) error {
		if values > maxValues {
			return fmt.Errorf("more than %d values, aliases included", maxValues)
		}
		return nil
	}),
))

// clip returns a text. If it is longer than limit bytes, clip returns its beginning and its length.
func clip(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "") + fmt.Sprintf("… (%d bytes)", len(text))
}

// short returns the problem with its texts clipped.
func (p problem) short() problem {
	p.field, p.message = clip(p.field, maxProblemField), clip(p.message, maxMessage)
	return p
}

// report adds problems, up to maxProblems, and counts the others.
func (c *content) report(problems ...problem) {
	for _, p := range problems {
		if len(c.problems) < maxProblems {
			c.problems = append(c.problems, p.short())
		} else {
			c.more++
		}
	}
}
