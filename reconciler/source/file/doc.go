// Package file turns documents in a directory into rows of tables.
//
// The files *.yaml and *.yml directly in the directory are read, symbolic links
// followed, hidden files left out. A file holds any number of documents
// separated by "---". Each has a field "kind", which names a registered [Kind]
// and by that a table; its other fields are those of the table's row type.
// A field that is unknown, missing, of the wrong type or given twice is an error
// that names file, line, column and field; all errors of a file are reported.
//
// The unit is the file. It takes effect as a whole or not at all: as long as
// one of its documents is invalid, the last good version stays in force. When two
// documents have the same key, neither file takes effect and the row in force stays;
// when one of them is removed the other takes effect, without a delete in between.
//
// Everything that one look at the directory finds is applied in one transaction
// over the tables of all kinds. The source only touches the rows that its documents
// declare, or declared; nobody else should write these. The first look, broken files included, makes the source initialized
// on all tables. While there is a file of which no version was ever in force, or
// the directory cannot be listed, the source is incomplete and says why.
//
// That documents are absent does not always mean that nothing is wanted. When the directory is
// gone, is on another device than before, or holds no documents any more, all rows stay in force and the source is incomplete
// until there are documents again or [Source.Approve] is called. A [Memory] extends that
// to restarts.
//
// A kind may have a filter and a transformation ([KindConfig]). A document is decoded and
// normalized, and its file refused if that fails; then the filter decides whether a row is
// made of it, and the transformation and another normalization make the row that is stored.
// Nothing is kept of a document that the filter drops, neither its row nor its key, so that
// a few rows of many documents take as much memory as those rows alone, besides a few
// hundred bytes for each file. [SetFilter] replaces a filter at run time.
//
// Nothing depends on seeing each event of the file system: each look lists the
// whole directory and compares contents. A file that somebody has open for writing is
// not read, nor is one that was changed in place a moment ago: its last version stays in
// force. The first listing waits for such files for a second, and is incomplete without
// them. A file that becomes valid takes effect at once; one that becomes invalid, empty or
// absent does when a second look a moment later finds it the same.
//
// Files can also be read once, without a [Source] and without writing to any table: [Load]
// and [Read] return what they declare and what is wrong with them. [Schema] is a JSON Schema of
// documents, for editors.
package file
