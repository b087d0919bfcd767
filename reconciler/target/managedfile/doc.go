// Package managedfile is the built-in target for regular files: documents of the kind
// "file".
//
// # Writing
//
// A file is written to a temporary file in the same directory, whose name begins with
// ".statehive-tmp-", given its owner and mode, synced to the disk, and renamed into place; then
// the directory is synced. So at any moment, and after a power failure, there is either the old
// file or the new one. Each change makes a new file, so hard links to the old one keep the old
// content. Init removes temporary files that a killed process has left.
//
// Directories are not created. The path itself must not be a symbolic link. Symbolic links to
// directories in the path are followed if root or the user of the process owns them and others
// cannot rename them. A directory inside one of another user must be that user's. Nothing is
// written below /proc, /sys and /dev, nor where such file systems are mounted elsewhere.
//
// Rows whose paths lead to the same file would undo each other's work: the first one gets the
// file, and the others are in error until that row is deleted.
//
// # Ownership
//
// Files have no room for a mark. Before a file is touched, the previous state of the path is
// recorded in the state directory: nothing, or a file with its attributes and, up to [MaxSize],
// its content. The record is valid in every boot. From then on the path is the agent's, and
// changes by others are drift. If they put something there that is not a regular file, it is
// left alone.
//
// The record names the directory in which the file was written, without symbolic links, and has
// checksums of the content. If the path leads to another directory now, a file there counts as
// somebody else's, and so does a file with other content in a directory that was replaced or
// mounted over.
//
// A file that others have made is left alone, and the row is in error. With [File].Adopt it is
// taken over. A file that is exactly as declared is accepted without that, since otherwise all
// rows would be in error on a machine that lost its state directory. But nobody knows who made
// it, so [Remove] leaves it there, unless it is adopted.
//
// When the row is deleted, the file is removed ([Remove]), restored to its previous state
// ([Restore]), or left ([Keep]). If others have changed its content, it is left in all cases,
// and a warning is logged. While a lease (fcntl F_SETLEASE) or its permissions keep it
// from being read, the row is in error.
//
// # Templates
//
// Templates are those of package text/template. They can read the rows of tables and the host
// name, and nothing else of the machine:
//
//	hostname              the host name
//	rows "TABLE"          the rows of a table in the order of their keys, as maps of the
//	                      fields of their JSON
//	row "TABLE" "KEY"     one of them; nothing if there is none: {{with row …}}
//	join LIST SEPARATOR   the elements of a list as text
//	indent N TEXT         a text with N spaces before each line
//	trim TEXT             a text without white space around it
//
// They can also use and, or, not, len, index, slice, eq, printf and the other functions of
// text/template. It is an error to use a field that a row does not have; test for an optional
// field with {{with index . "mtu"}}. A template is rendered again when a table that it has read
// changes, or the host name does ([Target.FollowTables]). While the table is incomplete the
// file is left as it is, and the row is in error if the result differs from it. A rendering is
// limited to two seconds and [MaxSize] bytes, and a template to 10,000 actions. Templates that
// call themselves are refused, and the tables "files" and "observed-files" cannot be read.
//
// # Drift
//
// A [Watcher] watches the directories of the declared files and keeps a table of their present
// state, so that changes by others are repaired at once: see [Target.Observed]. The kernel does
// not notify of changes through other hard links or by other machines, so the watcher also
// looks at 256 files each second. While the times, inode and size of a file are unchanged, it
// is read again only by full passes, and at most once a minute. A file that cannot be read
// counts as changed.
//
// A [Target] is safe for concurrent use on different rows. Its errors name the file and
// match the kernel's error numbers; those about files of others match [ErrForeign].
package managedfile
