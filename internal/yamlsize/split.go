package yamlsize

import (
	"bytes"
	"iter"
)

// Documents splits a stream where a line begins with "---", which always starts a document for the parser. It yields
// the number of lines before each part and the part, with its "---" and the directives before it. A part may have more
// than one document, but never only a piece of a document.
func Documents(data []byte) iter.Seq2[int, []byte] {
	return func(yield func(int, []byte) bool) {
		first, line, start, begin := 0, 0, 0, 0
		directive := false // the line before
		for end := range lineEnds(data) {
			directive = data[begin] == '%' || directive && (data[begin] == '#' || len(bytes.TrimSpace(data[begin:end])) == 0)
			line, begin = line+1, end
			if directive || !separator(data[end:]) {
				continue
			}
			if !yield(first, data[start:end]) {
				return
			}
			first, start = line, end
		}
		if start < len(data) {
			yield(first, data[start:])
		}
	}
}

// lineEnds yields the positions after the line feeds.
func lineEnds(data []byte) iter.Seq[int] {
	return func(yield func(int) bool) {
		for end := 0; ; {
			length := bytes.IndexByte(data[end:], '\n')
			if length < 0 {
				return
			}
			if end += length + 1; !yield(end) {
				return
			}
		}
	}
}

// separator reports whether a line separates documents.
func separator(line []byte) bool {
	if !bytes.HasPrefix(line, []byte("---")) {
		return false
	}
	return len(line) == 3 || line[3] == ' ' || line[3] == '\t' || line[3] == '\r' || line[3] == '\n'
}
