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
// one of its documents is invalid, the last valid version stays in force. When two
// documents have the same key, neither file takes effect and the row in force stays;
// when one of them is removed the other takes effect, without a delete in between.
//
// All changes that one scan of the directory finds are applied in one transaction over the
// tables of all kinds. The source only changes rows that its documents declare or have
// declared; nobody else should write these. After the first scan, even if it finds
// invalid files, the source is initialized in all tables. While no version of a file has
// been in force yet, or the directory cannot be listed, the source is incomplete and has a
// reason.
//
// The absence of documents does not always mean that no rows are desired. When the
// directory is gone, is on another device than before, or no longer has any documents, all
// rows stay in force and the source is incomplete until there are documents again or
// [Source.Approve] is called. With a [Memory] this also applies across restarts.
//
// While a file is invalid or being written, in a version that is newer than the first scan, the documents of a file that has become
// absent or empty may be there. The rows of that stay in force until no such file is left or [Source.Approve] is called. The same is
// true of single documents that are gone from a file, if one that is invalid may declare the same key: because it does, because the
// fields of an invalid document of the same kind allow that key, or because it is not known what the invalid file declares.
//
// A file with nothing in it, not even a comment, is invalid: it may be a failed write. Empty means a file without documents here.
//
// A file that is absent, empty or invalid counts as such after [Config].Settle, also if it was invalid before. Until then, new versions of other files wait, too,
// for at most ten times as long: what was done after a file was removed is not in force before its removal is.
//
// A kind may have a filter and a transformation ([KindConfig]). A document is decoded and
// normalized, and its file refused if that fails; then the filter decides whether a row is
// made of it, and the transformation and another normalization make the row that is stored.
// Nothing is kept of a document that the filter drops, neither its row nor its key. Memory is
// needed only for the rows that are stored, and a few hundred bytes for each file.
// [SetFilter] replaces a filter at run time.
//
// File system events may be missed, because each scan lists the whole directory and
// compares contents. A file that somebody has open for writing is not read, nor is a file
// that was changed in place a moment ago: its last version stays in force. The first listing
// waits up to a second for such files, and is incomplete without them. A file that becomes
// valid takes effect immediately. A file that becomes invalid, empty or absent takes effect
// when a second scan a moment later finds the same.
//
// Files can also be read once, without a [Source] and without writing to any table: [Load]
// and [Read] return their rows and problems. [Schema] is a JSON Schema of documents, for
// editors.
package file
