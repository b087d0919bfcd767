// Package filecell puts the source of documents into a hive.
//
// [Cell] reads the directory that --config-dir names into the tables of the
// kinds that any module contributes with [NewKind]. It adds the table
// "documents", the endpoint GET /v1/documents and a section to the status
// command. Its health is degraded while a file is refused. A directory that is
// not there fails the start; whatever happens to it later does not end the hive.
package filecell
