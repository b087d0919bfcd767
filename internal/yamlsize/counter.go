package yamlsize

import "bytes"

// counter adds up the weights of lines. Unless doubt is set, the parser is in a block collection, or at the start of the
// document, when a line begins.
type counter struct {
	weight int
	doubt  bool // from here on, any text may be structure

	// inner is the column of the last name or "-", which is the indentation of the parser; -1 before the first. If open is
	// set, its value may follow on the next lines; otherwise lines that are indented deeper continue a scalar.
	inner int
	open  bool

	block blockScalar

	list      bool // inside a list of plain values in brackets after a name
	listValue bool // there was a value after the last comma
}

// blockScalar is a scalar after "|" or ">".
type blockScalar struct {
	inside bool
	indent int // the indentation of its lines; 0 before the first line that is not empty
	blank  int // the longest line of spaces before that line
}

func (c *counter) line(line []byte) {
	indent := spaces(line)
	if c.block.inside && c.within(line, indent) {
		return
	}
	c.weight += lineWeight
	switch {
	case c.doubt:
	case c.list:
		c.doubt = !c.listed(line)
	default:
		c.doubt = !c.plain(line, indent)
	}
	if c.doubt {
		c.weight += bound(line)
	}
}

// within reports whether a line belongs to the block scalar.
func (c *counter) within(line []byte, indent int) bool {
	b := &c.block
	empty := indent == len(line)
	if b.indent == 0 && empty {
		b.blank = max(b.blank, indent)
		return true
	}
	if b.indent == 0 && indent > c.inner {
		b.indent = max(1, indent)
		if b.blank > indent || indent == 0 {
			c.doubt = true
		}
	}
	if !c.doubt && (empty || b.indent > 0 && indent >= b.indent) {
		return true
	}
	b.inside = false
	return false
}

// plain counts a line that is certainly a name, a value or both, after any number of "- ". It returns false if the line is, or
// may be, anything else.
func (c *counter) plain(line []byte, at int) bool {
	if at == len(line) {
		return true
	}
	if line[at] == '#' {
		c.weight += tokenWeight
		return true
	}
	if separator(line) {
		return c.end(line[3:], true)
	}
	if at == 0 && (line[0] == '%' || bytes.HasPrefix(line, []byte("..."))) || !c.open && at > c.inner {
		return false
	}
	entry := false
	for isEntry(line[at:]) {
		c.weight += entryWeight
		c.inner, entry = at, true
		at++
		at += spaces(line[at:])
		if at == len(line) || line[at] == '#' {
			return c.end(line[at:], true)
		}
	}
	length, ok := scalar(line[at:])
	if ok && colon(line[at+length:]) {
		c.weight += tokenWeight
		c.inner = at
		at += length + 1
		at += spaces(line[at:])
		if at < len(line) && line[at] == '[' {
			before := *c
			c.list, c.listValue = true, false
			if c.listed(line[at+1:]) {
				return true
			}
			*c = before
		}
		return c.value(line[at:])
	}
	if !entry && (!c.open || at <= c.inner) {
		return false
	}
	return c.value(line[at:])
}

// value counts the text after a name or "-" on its line.
func (c *counter) value(text []byte) bool {
	if len(text) == 0 || text[0] == '#' {
		return c.end(text, true)
	}
	switch text[0] {
	case '|', '>':
		return c.header(text[1:])
	case '[', '{':
		length, ok := flow(text)
		c.weight += bound(text[:length])
		return ok && c.end(text[length:], false)
	}
	length, ok := scalar(text)
	return ok && c.end(text[length:], false)
}

// listed counts a piece of a list of plain values, each on one line.
func (c *counter) listed(text []byte) bool {
	for at := spaces(text); at < len(text); at += spaces(text[at:]) {
		switch text[at] {
		case ',':
			c.weight += tokenWeight
			c.listValue = false
			at++
		case ']':
			c.list = false
			return c.end(text[at+1:], false)
		default:
			length, ok := listedScalar(text[at:])
			if !ok || c.listValue {
				return false
			}
			c.listValue = true
			at += length
		}
	}
	return true
}

// listedScalar returns the length of a value in a list, if it is plain or in quotes.
func listedScalar(text []byte) (length int, ok bool) {
	if text[0] == '"' || text[0] == '\'' {
		length, ok = quoted(text)
		return length, ok && (length == len(text) || bytes.IndexByte([]byte(" ,]"), text[length]) >= 0)
	}
	for i, b := range text {
		switch {
		case b == ',' || b == ']':
			return i, true
		case b == ':' && (i == 0 || i+1 == len(text) || !letter[text[i+1]] && text[i+1] != ':'),
			b == '-' && (i == 0 || text[i-1] == ' ') && isEntry(text[i:]),
			b != ':' && b != '-' && indicators[b] && b < 0x80, b == '\t', b == '@', b == '`':
			return 0, false
		}
	}
	return len(text), true
}

// header counts the text after "|" or ">".
func (c *counter) header(text []byte) bool {
	b := blockScalar{inside: true}
	for len(text) > 0 && bytes.IndexByte([]byte("+-123456789"), text[0]) >= 0 {
		if '1' <= text[0] && text[0] <= '9' {
			if b.indent > 0 {
				return false
			}
			b.indent = c.inner + int(text[0]-'0')
		}
		text = text[1:]
	}
	c.weight += tokenWeight
	if c.inner < 0 || !c.end(text, false) {
		return false
	}
	c.block = b
	return true
}

// end counts the text after a value, or at a place after which a value may begin on the next line: nothing or a comment.
func (c *counter) end(text []byte, open bool) bool {
	at := spaces(text)
	if at < len(text) {
		if text[at] != '#' || at == 0 && !open {
			return false
		}
		c.weight += tokenWeight
	}
	c.open = open
	return true
}

func spaces(text []byte) int {
	for i, b := range text {
		if b != ' ' {
			return i
		}
	}
	return len(text)
}

// isEntry reports whether text begins with "- ".
func isEntry(text []byte) bool {
	return text[0] == '-' && (len(text) == 1 || text[1] == ' ')
}

// colon reports whether text begins with the colon after a name.
func colon(text []byte) bool {
	return len(text) > 0 && text[0] == ':' && (len(text) == 1 || text[1] == ' ')
}

// scalar returns the length of the scalar that text begins with, if it ends on the line.
func scalar(text []byte) (length int, ok bool) {
	switch text[0] {
	case '"', '\'':
		return quoted(text)
	case '-':
		return plainScalar(text), len(text) > 1 && text[1] != ' ' && text[1] != '\t'
	case ',', '[', ']', '{', '}', ':', '?', '#', '&', '*', '!', '|', '>', '%', '@', '`', '\t', 0:
		return 0, false
	}
	return plainScalar(text), true
}

// plainScalar returns the length of a scalar without quotes: up to a colon or a comment, if any.
func plainScalar(text []byte) int {
	for i, b := range text {
		switch b {
		case ':':
			if i+1 == len(text) || text[i+1] == ' ' || text[i+1] == '\t' {
				return i
			}
		case '#':
			if i > 0 && (text[i-1] == ' ' || text[i-1] == '\t') {
				return i - 1
			}
		}
	}
	return len(text)
}

// quoted returns the length of a scalar in quotes.
func quoted(text []byte) (length int, ok bool) {
	for i := 1; i < len(text); i++ {
		switch {
		case text[i] == '\\' && text[0] == '"':
			i++
		case text[i] != text[0]:
		case text[0] == '\'' && i+1 < len(text) && text[i+1] == '\'':
			i++
		default:
			return i + 1, true
		}
	}
	return 0, false
}

// flow returns the length of a collection in brackets, if it ends on the line and has nothing in it that could hide brackets.
func flow(text []byte) (length int, ok bool) {
	depth := 0
	for i, b := range text {
		switch b {
		case '"', '\'', '#':
			return 0, false
		case '[', '{':
			depth++
		case ']', '}':
			depth--
		}
		if depth == 0 {
			return i + 1, true
		}
	}
	return 0, false
}
