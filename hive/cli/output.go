package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/spf13/pflag"
)

// Format is how a command prints. It is a pflag.Value. The zero Format is FormatTable.
type Format string

// The formats.
const (
	FormatTable Format = "table"
	FormatJSON  Format = "json"
)

// AddFlag adds -o, --output to the flags of a command.
func (f *Format) AddFlag(fs *pflag.FlagSet) {
	if *f == "" {
		*f = FormatTable
	}
	fs.VarP(f, "output", "o", "how to print: table or json")
}

// Set implements pflag.Value.
func (f *Format) Set(text string) error {
	switch Format(text) {
	case FormatTable, FormatJSON:
		*f = Format(text)
		return nil
	}
	return fmt.Errorf("expected %s or %s", FormatTable, FormatJSON)
}

// String implements pflag.Value.
func (f *Format) String() string { return string(*f) }

// Type implements pflag.Value.
func (f *Format) Type() string { return "format" }

// Print writes v as indented JSON, or the header and the rows as a table.
func (f *Format) Print(w io.Writer, v any, header []string, rows [][]string) error {
	if *f != FormatJSON {
		return WriteTable(w, header, rows)
	}
	return WriteJSON(w, v, "  ")
}

// WriteJSON writes v as JSON and a line break; with an indent, each field is a line of its own. What could disturb a terminal
// is escaped, so that its value stays the same.
func WriteJSON(w io.Writer, v any, indent string) error {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetIndent("", indent)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return err
	}
	_, err := w.Write(escapedJSON(text.Bytes()))
	return err
}

// escapedJSON escapes what is not printable. JSON has that in strings only.
func escapedJSON(text []byte) []byte {
	if bytes.IndexFunc(text, disturbs) < 0 {
		return text
	}
	escaped := make([]byte, 0, len(text))
	for _, r := range string(text) {
		if !disturbs(r) {
			escaped = utf8.AppendRune(escaped, r)
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			escaped = fmt.Appendf(escaped, `\u%04x`, unit)
		}
	}
	return escaped
}

// WriteTable writes the rows below the header in aligned columns. Of a cell of several lines the first is written; what
// could disturb a terminal becomes spaces. An empty cell is written as "-"; spaces before the text stay.
func WriteTable(w io.Writer, header []string, rows [][]string) error {
	return (&TableWriter{Out: w}).Write(append([][]string{header}, rows...))
}

// TableWriter writes a table whose rows come bit by bit. The columns are as wide as the widest cell so far.
type TableWriter struct {
	Out    io.Writer
	widths []int
}

// Write writes rows, as WriteTable does; the first one may be a header. Its errors are those of Out.
func (t *TableWriter) Write(rows [][]string) error {
	table := make([][]string, 0, len(rows))
	for _, row := range rows {
		clean := make([]string, len(row))
		for i, cell := range row {
			clean[i] = oneLine(cell)
			if i == len(t.widths) {
				t.widths = append(t.widths, 0)
			}
			t.widths[i] = max(t.widths[i], utf8.RuneCountInString(clean[i]))
		}
		table = append(table, clean)
	}
	var text strings.Builder
	for _, row := range table {
		var line strings.Builder
		for i, cell := range row {
			line.WriteString(cell + strings.Repeat(" ", t.widths[i]-utf8.RuneCountInString(cell)+2))
		}
		text.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	_, err := io.WriteString(t.Out, text.String())
	return err
}

func oneLine(cell string) string {
	line, _, more := strings.Cut(strings.TrimRight(strings.TrimLeft(cell, "\t\r\n"), " \t\r\n"), "\n")
	line = Printable(line)
	switch {
	case more:
		return line + " …"
	case line == "":
		return "-"
	}
	return line
}

// Printable has spaces for what could disturb a terminal, such as escape sequences and marks that turn the direction of
// writing. Line breaks stay.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if disturbs(r) {
			return ' '
		}
		return r
	}, text)
}

func disturbs(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }

// Age is a duration for people, in two units at most, such as "3m12s" or "2d4h".
func Age(d time.Duration) string {
	d = max(d, 0)
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh%dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd%dh", int(d.Hours())/24, int(d.Hours())%24)
}
