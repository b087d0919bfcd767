// Package filecell puts the source of documents into a hive.
//
// [Cell] reads the directory that --config-dir names into the tables of the kinds that
// modules declare with [Kind]. Without the cell, a hive with such a module does not start.
// The cell adds the table "documents", the endpoints GET /v1/documents and POST
// /v1/documents/approve, a section to the status command, and the commands "approve
// documents", "validate" and "schema"; the last two need neither an agent nor settings. Its
// health is degraded while a file is refused, and while rows stay in force although their
// directory is lost. If the directory does not exist, the start fails. Later problems with
// the directory do not stop the hive.
//
// A module that depends on the [file.Source] can choose which documents of a kind are stored,
// even of a kind that another module declares: it calls [file.SetFilter] before the start, in
// an invoked function, or at any time later.
//
// A [file.Memory] in the hive is optional. With it, an empty directory at the start does
// not end rows that were in force in the previous run.
package filecell
