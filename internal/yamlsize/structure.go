// Package yamlsize estimates the amount of data that a YAML parser makes of a text, without parsing it, so that a small text
// cannot cost a lot of memory. Its functions are safe for concurrent use and keep no state.
package yamlsize

import "bytes"

// Weights of tokens that make the parser allocate memory, in units of about 100 bytes.
const (
	lineWeight  = 1
	entryWeight = 2 // "- " at the beginning of a line, "]", "}"
	tokenWeight = 5 // most other indicators, and comments; commas in a plain list after a name

	// In brackets, or where brackets may be open, the parser looks ahead for the end of a possible name.
	dashWeight  = 6  // "-"
	colonWeight = 9  // ":"
	flowWeight  = 11 // commas, "[" and "{"
)

// Structure returns an upper bound for the number of nodes that a parser makes of the part of a stream that
// [Documents] yields, less two for the document itself. Each line counts 1 and each "- " 2. The colon after a name, a
// quote, a comment and any other possible indicator count 5. In brackets a colon counts 9, a comma or an opening bracket
// 11, but in a list of plain values after a name, such as [a, b], a comma counts 5. Text in quotes on one line and in block
// scalars counts nothing as long as it is certain: from the first line on that is not certainly a name, a value or both,
// all text is considered structure, as in brackets. The text is UTF-8.
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

// letter has the ASCII letters and digits, which are never indicators.
var letter = func() (is [256]bool) {
	for b := range is {
		is[b] = '0' <= b && b <= '9' || 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z'
	}
	return is
}()

// indicators has the bytes that may have a weight.
var indicators = func() (is [256]bool) {
	for _, b := range []byte(",[]{}:-?#&*!|>'\"%\r\u0085\u2028") {
		is[b] = true
	}
	return is
}()

// bound returns an upper bound of the weight of a line, or a piece of it, however the parser interprets it.
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
				weight += colonWeight
			}
		case '-':
			if !beforeLetter {
				weight += dashWeight
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
