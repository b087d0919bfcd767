// Package yamlsize estimates how much a YAML parser makes of a text, without parsing it, so that a text of a few bytes
// cannot cost a lot of memory. Its functions are safe for concurrent use and keep nothing.
package yamlsize

import "bytes"

// Weights of what makes the parser allocate, about 100 bytes each.
const (
	lineWeight  = 1
	entryWeight = 2  // "- ", "]", "}"
	tokenWeight = 5  // most other indicators, and comments; commas in a plain list behind a name
	flowWeight  = 11 // commas, "[" and "{": the parser looks ahead for the end of what may be a name
)

// Structure returns an upper bound for the number of nodes that a parser makes of the part of a stream that
// [Documents] returns, less two for the document itself. Each line counts 1, each "- " 2, the colon behind a name, a
// quote, a comment and whatever else may be an indicator 5, but commas and opening brackets 11, unless they are in a list
// of plain values behind a name: [a, b]. Text in
// quotes on one line and in block scalars counts nothing where it is certainly that: everything is taken for
// structure from the first line on that is not plainly a name, a value or both. The text is UTF-8.
func Structure(part []byte) int {
	c := counter{inner: -1, open: true}
	c.doubt = otherBreaks(part)
	for len(part) > 0 {
		line, rest, _ := bytes.Cut(part, []byte("\n"))
		part = rest
		c.line(bytes.TrimSuffix(line, []byte("\r")))
	}
	return c.weight
}

// otherBreaks reports whether there are line breaks that are not LF or CRLF, or a byte order mark.
func otherBreaks(text []byte) bool {
	for _, breaks := range []string{"\u0085", "\u2028", "\u2029", "\ufeff"} {
		if bytes.Contains(text, []byte(breaks)) {
			return true
		}
	}
	for {
		at := bytes.IndexByte(text, '\r')
		if at < 0 {
			return false
		}
		if at+1 == len(text) || text[at+1] != '\n' {
			return true
		}
		text = text[at+1:]
	}
}

// letter reports whether a byte is neither an indicator nor next to one.
var letter = func() (is [256]bool) {
	for b := range is {
		is[b] = '0' <= b && b <= '9' || 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z'
	}
	return is
}()

// indicators are the bytes that may be of weight.
var indicators = func() (is [256]bool) {
	for _, b := range []byte(",[]{}:-?#&*!|>'\"%\r\u0085\u2028") {
		is[b] = true
	}
	return is
}()

// bound returns a weight that is enough for a line, or a piece of it, whatever the parser takes it for.
func bound(text []byte) (weight int) {
	for i, b := range text {
		if !indicators[b] {
			continue
		}
		afterLetter := i > 0 && letter[text[i-1]]
		beforeLetter := i+1 < len(text) && letter[text[i+1]]
		switch b {
		case ',', '[', '{':
			weight += flowWeight
		case ']', '}':
			weight += entryWeight
		case ':':
			if !afterLetter || !beforeLetter {
				weight += tokenWeight
			}
		case '-':
			if !beforeLetter {
				weight += entryWeight
			}
		case '?', '#', '&', '*', '!', '|', '>', '\'', '"', '%':
			if !afterLetter {
				weight += tokenWeight
			}
		default: // a line break, or a part of one
			weight += lineWeight
		}
	}
	return weight
}
