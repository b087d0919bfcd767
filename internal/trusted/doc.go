// Package trusted opens files and directories that only root and this user can have made
// what they are, as sshd wants its files to be: each directory on the way, each symbolic link
// and the file itself belongs to one of the two, and nobody else may write to it. A directory
// above may be writable by others if it is sticky, as /tmp is: they cannot replace what is
// not theirs.
//
// Everything is checked by descriptors, so that nothing can be exchanged between the check
// and the use. Only directories and regular files on a disk are opened, without blocking and
// never as a controlling terminal. In a user namespace that does not map the user nobody (65534),
// users that are not mapped count as root: the kernel shows all of them as that one.
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

// Policy says what is opened.
type Policy struct {
	// AllowWritable opens what others may have written, too.
	AllowWritable bool
	// AllowSticky opens a directory that others may write to if it is sticky: they can add files to it, but not
	// replace what is not theirs.
	AllowSticky bool
	// Within, if not empty, is a directory that files must be in, however symbolic links lead
	// there.
	Within string
}

// ErrSpecial is returned, wrapped, for what is neither a directory nor a regular file on a disk.
var ErrSpecial = errors.New("not a regular file")

// Error says that somebody else may have made something what it is.
type Error struct {
	Path   string // of what is not trusted, which may be a directory above
	Reason string
	Remedy string // a command that mends it
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s %s: run %s, if what it holds is right", Name(e.Path), e.Reason, e.Remedy)
}

// Name is a path as messages show it: in quotes if it holds what is not printable, such as a line
// break, by which the name of a file would pass for a line of its own.
func Name(path string) string {
	if utf8.ValidString(path) && !strings.ContainsFunc(path, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return path
	}
	return strconv.Quote(path)
}

// judge returns an error for what is not trusted. A directory on the way to something may be
// sticky.
func judge(path string, mode fs.FileMode, owner uint32, own func(uint32) bool, onTheWay bool) error {
	switch {
	case !own(owner):
		return &Error{path, fmt.Sprintf("belongs to uid %d, who may write to it", owner), fmt.Sprintf("chown root %q", path)}
	case mode&fs.ModeSymlink != 0, onTheWay && mode&fs.ModeSticky != 0:
		return nil
	case mode.Perm()&0o022 != 0:
		return &Error{path, fmt.Sprintf("can be written to by others (mode %v)", mode), fmt.Sprintf("chmod go-w %q", path)}
	}
	return nil
}
