package dbcell

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"iter"
	"net/http"

	"github.com/statehive/statehive/statedb"
)

// listing is the response to GET /v1/tables/{name} without the rows. They are written one by one, so that a large table is never in
// memory as JSON.
type listing struct {
	Table    string           `json:"table"`
	Revision statedb.Revision `json:"revision"` // of the table
	Columns  []string         `json:"columns"`
	Rows     [0]struct{}      `json:"rows"`
}

type listedRow struct {
	Kind     string           `json:"kind,omitempty"` // of the line, in a watched listing
	Key      string           `json:"key"`
	Revision statedb.Revision `json:"revision"`
	Cells    []string         `json:"cells"` // as many as there are columns
	Object   any              `json:"object"`
	Error    string           `json:"error,omitempty"` // why Object is null
}

const streamBuffer = 64 << 10

// writeListing writes a listing to a client. It ignores write errors, which mean that the client has gone.
func writeListing(w http.ResponseWriter, head listing, rows iter.Seq[statedb.AnyRow]) {
	w.Header().Set("Content-Type", "application/json")
	buffered := bufio.NewWriterSize(w, streamBuffer)
	if err := stream(buffered, head, rows); err == nil {
		_ = buffered.Flush()
	}
}

// stream writes a listing. It returns the errors of w.
func stream(w io.Writer, head listing, rows iter.Seq[statedb.AnyRow]) error {
	begin, err := json.Marshal(head)
	if err != nil {
		return err
	}
	const end = "]}" // the rows are written before it
	if _, err := w.Write(bytes.TrimSuffix(begin, []byte(end))); err != nil {
		return err
	}
	row := newRowEncoder()
	separator := "\n"
	for r := range rows {
		if err := row.write(w, "", separator, r); err != nil {
			return err
		}
		separator = ","
	}
	_, err = io.WriteString(w, end+"\n")
	return err
}

// rowEncoder encodes rows in a reused buffer.
type rowEncoder struct {
	text bytes.Buffer
	json *json.Encoder
}

func newRowEncoder() *rowEncoder {
	e := &rowEncoder{}
	e.json = json.NewEncoder(&e.text)
	e.json.SetEscapeHTML(false)
	return e
}

// write writes a row and a line break.
func (e *rowEncoder) write(w io.Writer, kind, separator string, row statedb.AnyRow) error {
	listed := listedRow{Kind: kind, Key: row.Key, Revision: row.Revision, Cells: row.Cells, Object: row.Object}
	e.text.Reset()
	e.text.WriteString(separator)
	if err := e.json.Encode(listed); err != nil { // nothing was written to the buffer
		listed.Object, listed.Error = nil, err.Error()
		if err := e.json.Encode(listed); err != nil {
			return err
		}
	}
	_, err := w.Write(e.text.Bytes())
	return err
}
