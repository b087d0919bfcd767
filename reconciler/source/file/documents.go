package file

import (
	"encoding/hex"
	"slices"
	"time"

	"github.com/statehive/statehive/statedb"
)

// TableName is the name of the table of files.
const TableName = "documents"

// State is the state of a file.
type State string

// The states.
const (
	// OK: the newest version of the file is in force.
	OK State = "ok"
	// Error: the newest version is invalid, and the last valid one, if any, is in force. Or it no longer declares rows that may be in
	// another file, which is invalid or being written, and these rows stay in force.
	Error State = "error"
	// Duplicate: another file has a document with the same key; the last version
	// without duplicates, if any, is in force.
	Duplicate State = "duplicate"
	// Writing: somebody has been writing the file for long, or since before the start; the
	// last version that was read, if any, is in force.
	Writing State = "writing"
)

// Document is a row of the table "documents": a file of documents, or the
// directory while it cannot be listed.
type Document struct {
	File      string    `json:"file"` // the absolute path: the primary key
	State     State     `json:"state"`
	Documents int       `json:"documents"`       // in the newest version, including those that filters drop
	Rows      int       `json:"rows"`            // in force
	SHA256    string    `json:"sha256"`          // of the newest version, in hexadecimal; empty while it could not be read
	Since     time.Time `json:"since"`           // the last change of any other field of this row
	Error     string    `json:"error,omitempty"` // all problems, one per line: "file:line:column: field: what"
}

func byFile() statedb.Index[Document, string] {
	return statedb.NewIndex("file", func(d Document) string { return d.File })
}

// shown is the published state of a file, in the table and in the log.
type shown struct {
	row      Document
	problems []problem
}

// unlessSame returns before if nothing but the time differs, or else next with the time now.
func (before shown) unlessSame(next shown, now time.Time) shown {
	next.row.Error = text(next.problems)
	next.row.Since = before.row.Since
	if next.row == before.row {
		return before
	}
	next.row.Since = now.UTC().Round(0)
	return next
}

// showStaying returns the state to publish of a file some of whose rows stay in force although it no longer declares them. Now is its
// state apart from that.
func showStaying(now shown, path string, rows int, elsewhere string) shown {
	message := "no longer declares all its rows, which may be in another file: " + elsewhere + "; " + staysInForce(rows) +
		" until that ends or this is approved (approve documents)"
	now.row.File, now.row.State = path, Error
	now.row.Rows += rows
	now.problems = append(slices.Clip(now.problems), problem{at: place{file: path}, message: message})
	return now
}

// show returns the state to publish of a file, which has been read or is shown as being written.
func (r resolution) show(f *fileState, at time.Time) shown {
	if f.now == nil {
		return shown{row: Document{File: f.path, State: Writing}}
	}
	d := Document{File: f.path, State: OK, Documents: f.now.total}
	if !f.now.unread {
		d.SHA256 = hex.EncodeToString(f.now.sum[:])
	}
	if kept := r.kept[f]; kept != nil {
		d.Rows = len(kept.docs)
	}
	problems := f.now.problems
	if len(problems) > 0 {
		d.State = Error
	} else if problems = r.problems[f]; len(problems) > 0 {
		d.State = Duplicate
	} else if f.writtenLong(at) {
		d.State = Writing
	}
	return shown{row: d, problems: problems}
}
