package file

import (
	"fmt"
	"log/slog"
	"strings"

	"github.com/statehive/statehive/internal/trusted"
)

// place is a position in a file. Line and column count from 1; they are 0 for the
// file as a whole.
type place struct {
	file         string
	line, column int
}

func (p place) String() string {
	if p.line == 0 {
		return trusted.Name(p.file)
	}
	return fmt.Sprintf("%s:%d:%d", trusted.Name(p.file), p.line, p.column)
}

// problem is an error in a file.
type problem struct {
	at      place
	field   string // as the document spells it; empty: the document as a whole
	message string // what was found and what was expected
}

// cannotBeRead returns the problem of a file that cannot be read.
func cannotBeRead(path string, err error) problem {
	return problem{at: place{file: path}, message: fmt.Sprintf("cannot be read: %v", err)}
}

func (p problem) String() string {
	if p.field == "" {
		return fmt.Sprintf("%v: %s", p.at, p.message)
	}
	return fmt.Sprintf("%v: field %q: %s", p.at, p.field, p.message)
}

func (p problem) attributes() []any {
	attributes := []any{slog.String("file", p.at.file)}
	if p.at.line > 0 {
		attributes = append(attributes, slog.Int("line", p.at.line), slog.Int("column", p.at.column))
	}
	if p.field != "" {
		attributes = append(attributes, slog.String("field", p.field))
	}
	return append(attributes, slog.String("error", p.message))
}

// text returns a text with a line for each problem.
func text(problems []problem) string {
	lines := make([]string, len(problems))
	for i, p := range problems {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}
