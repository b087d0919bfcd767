package dbcell

import (
	"encoding/json"
	"strings"
	"unicode"

	"github.com/statehive/statehive/statedb"
)

// received is a listing as decoded by a client.
type received struct {
	Columns []string      `json:"columns"`
	Rows    []receivedRow `json:"rows"`
}

type receivedRow struct {
	receivedObject
	Cells []string `json:"cells"`
}

// receivedObject is a row as `get -o json` prints it: the object as the agent wrote it.
type receivedObject struct {
	Key      string           `json:"key"`
	Revision statedb.Revision `json:"revision"`
	Object   json.RawMessage  `json:"object"`
	Error    string           `json:"error,omitempty"`
}

func (r received) objects() []receivedObject {
	objects := make([]receivedObject, len(r.Rows))
	for i, row := range r.Rows {
		objects[i] = row.receivedObject
	}
	return objects
}

func (r received) headings() []string {
	names := make([]string, len(r.Columns))
	for i, column := range r.Columns {
		names[i] = heading(column)
	}
	return names
}

func (r received) cells() [][]string {
	rows := make([][]string, len(r.Rows))
	for i, row := range r.Rows {
		rows[i] = row.Cells
	}
	return rows
}

// heading is the name of a column in upper case with dashes between its words: LastError is LAST-ERROR, and MTUMax MTU-MAX.
func heading(name string) string {
	letters := []rune(name)
	var text strings.Builder
	for i, letter := range letters {
		if i > 0 && beginsWord(letters, i) {
			text.WriteByte('-')
		}
		text.WriteRune(unicode.ToUpper(letter))
	}
	return text.String()
}

// beginsWord reports whether a capital follows a small letter, or ends an abbreviation; the P of IPv4 does not.
func beginsWord(letters []rune, i int) bool {
	if !unicode.IsUpper(letters[i]) {
		return false
	}
	afterSmall := !unicode.IsUpper(letters[i-1])
	beforeSmall := i+1 < len(letters) && unicode.IsLower(letters[i+1])
	beforeVersion := i+2 < len(letters) && unicode.IsDigit(letters[i+2])
	return afterSmall || beforeSmall && !beforeVersion
}
