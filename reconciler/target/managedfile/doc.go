// Package managedfile is the built-in target for regular files: documents of the kind
// "file".
//
// # Writing
//
// A file is written to a temporary file in the same directory, whose name begins with
// ".statehive-tmp-", given its owner and mode, synced to the disk, and renamed into place;
// then the directory is synced. So at any moment, and after a power failure, there is either
// the old file or the new one. It is a new file each time: hard links to the old one
// keep the old content. Init removes temporary files that a killed process has left.
//
// Directories are not made. The path itself may not be a symbolic link. Symbolic links to
// directories on the way are followed if root or the user of the process owns them. Nothing
// is written below /proc, /sys and /dev, nor where such file systems are mounted elsewhere.
//
// Rows whose paths lead to one file would undo each other's work: the first one has it, and
// the others are in error until it goes.
//
// # What is ours
//
// Files have no room for a mark. Before a file is touched, the previous state of the path is
// recorded in the state directory: nothing, or a file with its attributes and, up to
// [MaxSize], its content. The record is valid in every boot. From then on the
// path is ours, and changes by others are drift, unless they put something there that is not
// a regular file: that is left alone.
//
// The record names the directory in which the file was written, without symbolic links, and has
// checksums of the content. A file in another directory to which the path leads now is somebody
// else's, and so is one of other content in a directory that was replaced or mounted.
//
// A file that others have made is left alone, and the row is in error. With
// [File].Adopt it is taken over. One that is exactly as declared is accepted without that:
// otherwise a machine whose state directory is lost would be full of errors. But because
// nobody knows who made it, [Remove] then leaves it. To have it removed, adopt
// it.
//
// When the row is deleted, the file is removed ([Remove]), restored to its previous state
// ([Restore]), or left ([Keep]). If others have changed its content since it was written, it is
// left, too, and a warning is logged.
//
// # Templates
//
// A template is one of package text/template. It reads rows of the tables of the
// database, and nothing else of the machine than its name:
//
//	hostname              the host name
//	rows "TABLE"          the rows of a table in the order of their keys, as maps of the
//	                      fields of their JSON
//	row "TABLE" "KEY"     one of them; nothing if there is none: {{with row …}}
//	join LIST SEPARATOR   the elements of a list as text
//	indent N TEXT         a text with N spaces before each line
//	trim TEXT             a text without white space around it
//
// and and, or, not, len, index, slice, eq, printf and the other functions of
// text/template. Using a field that a row does not have is an error; test for one that may be
// missing with {{with index . "mtu"}}. A template is rendered again when a table that it has
// read changes ([Target.FollowTables]). While that table is incomplete the file is left as
// it is, and the row is in error if the result differs from it. A rendering may take two
// seconds and make [MaxSize] bytes. Templates that call themselves are refused, and the
// tables "files" and "observed-files" cannot be read.
//
// # What is noticed
//
// A [Watcher] keeps a table of the declared files as they are, so that changes by others are
// repaired at once: see [Target.Observed]. It watches their directories. A file is not read
// again while its times, inode and size are unchanged.
//
// A [Target] is safe for concurrent use on different rows. Its errors name the file and
// match the kernel's error numbers; those about files of others match [ErrForeign].
package managedfile
