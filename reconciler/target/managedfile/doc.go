// Package managedfile is the built-in target for regular files: documents of the kind
// "file".
//
// # Writing
//
// A file is written beside itself, under a name that begins with ".statehive-tmp-",
// given its owner and mode, synced to the disk, and renamed into place; then the
// directory is synced. So there is the old file or the new one, whole, at any moment and
// after a failure of the power. It is a new file each time: other names of the old one
// (hard links) keep that. What a killed process has left over is removed by Init.
//
// Directories are not made. A symbolic link under the path itself is never followed. One
// on the way is, if root or the user of the process owns it. Nothing is written below
// /proc, /sys and /dev, nor where such file systems are mounted besides.
//
// Rows whose paths lead to one file would undo each other's work: the first one has it, and
// the others are in error until it goes.
//
// # What is ours
//
// Files have no room for a mark, so what is there before is recorded in the state
// directory before a file is touched: nothing, or a file with its attributes, and what
// it held if it is up to [MaxSize]. The record holds in every boot. From then on the
// path is ours, and what others change there is drift, unless what they put there is no
// regular file: that is left alone.
//
// A file that others have made is left alone, and the row is in error. With
// [File].Adopt it is taken over. One that is exactly as declared is ours without that:
// otherwise a machine whose state directory is lost would be full of errors. But as
// nobody knows any more who made it, [Remove] leaves it then. To have it removed, adopt
// it.
//
// When the row goes, the file is removed ([Remove]), made what it was before
// ([Restore]), or left ([Keep]).
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
// text/template. A field that a row has not is an error; {{with index . "mtu"}} is for
// those that may be missing. A template is rendered again when a table that it has read
// changes ([Target.FollowTables]). While that has not all its rows the file is left as
// it is, and the row is in error if the template comes to something else. A rendering may take two seconds and make [MaxSize] bytes. Templates that call
// themselves are refused, and the tables "files" and "observed-files" cannot be read.
//
// # What is noticed
//
// A [Watcher] keeps a table of what is there, so that what others change is repaired at
// once: see [Target.Observed]. It watches the directories of the declared files. What
// has not changed, by the times, the inode and the size of a file, is not read again.
//
// A [Target] is safe for concurrent use on different rows. Its errors name the file and
// match the kernel's error numbers; those about files of others match [ErrForeign].
package managedfile
