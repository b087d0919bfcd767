// Package trusted opens files and directories that only root and this user can have changed,
// as sshd requires for its files: each directory on the path, each symbolic link and the file
// itself must belong to one of the two, and nobody else may write to it. A directory on the
// path may be writable by others if it is sticky, as /tmp is, because others cannot replace
// files in it that are not theirs.
//
// Everything is checked by descriptors, so that nothing can be exchanged between the check
// and the use. Only directories and regular files on a disk are opened, without blocking and
// never as a controlling terminal. In a user namespace that does not map the user nobody (65534),
// users that are not mapped count as root: the kernel shows all of them as nobody.
//
// On systems other than Linux nothing but the type of a file is checked.
package trusted

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Policy defines which files and directories may be opened.
type Policy struct {
	// AllowWritable allows files and directories that others may have written.
	AllowWritable bool
	// AllowSticky allows a directory that others may write to if it is sticky: they can add files to it, but not
	// replace files that are not theirs.
	AllowSticky bool
	// Below makes the error about a directory suggest a command for all directories below it as well. It leaves the files as they are: others
	// may have written them, and each is checked when it is opened.
	Below bool
	// Within, if not empty, is a directory that files must be in after all symbolic links
	// have been followed.
	Within string
}

// ErrSpecial is wrapped by the error for anything but a directory or a regular file on a disk.
var ErrSpecial = errors.New("not a regular file")

// Error is the error for a file or directory that somebody else may have changed.
type Error struct {
	Path   string // the path that is not trusted, which may be a directory above the file
	Reason string
	Remedy string // a command that fixes it
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s %s: if what it holds is right, run %s", Name(e.Path), e.Reason, e.Remedy)
}

// Name returns a path for messages. It is quoted if it contains characters that are not printable,
// such as a line break, with which a file name could imitate a line of its own.
func Name(path string) string {
	if utf8.ValidString(path) && !strings.ContainsFunc(path, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return path
	}
	return strconv.Quote(path)
}

// judge returns an error if a file or directory is not trusted. A sticky directory may be.
func judge(path string, mode fs.FileMode, owner uint32, own func(uint32) bool, allow Policy) error {
	remedy := func(command, argument string) string {
		if allow.Below && mode.IsDir() {
			return fmt.Sprintf("find %[1]q -type d -exec %[2]s %[3]s {} + (with %[2]s -R %[3]s %[1]q, files that others may have written are believed, too)", path, command, argument)
		}
		return fmt.Sprintf("%s %s %q", command, argument, path)
	}
	switch {
	case !own(owner):
		return &Error{path, fmt.Sprintf("belongs to uid %d, who may write to it", owner), remedy("chown", "root")}
	case mode&fs.ModeSymlink != 0, allow.AllowSticky && mode&fs.ModeSticky != 0:
		return nil
	case mode.Perm()&0o022 != 0:
		return &Error{path, fmt.Sprintf("can be written to by others (mode %v)", mode), remedy("chmod", "go-w")}
	}
	return nil
}
