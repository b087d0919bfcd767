package agent

import (
	"fmt"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// filesDir returns the only directory in which documents can write files in a sandbox. It is in memory.
func (s *surroundings) filesDir() string { return filepath.Join(s.prepared.StateDir, "files") }

// allowFile refuses paths that the agent itself reads or writes and, in a sandbox, all paths
// outside of it.
func (s *surroundings) allowFile(path string) error {
	if s.sandboxed {
		if !strings.HasPrefix(path, s.filesDir()+"/") {
			return fmt.Errorf("%s is outside: in the sandbox files can be written below %s only", path, s.filesDir())
		}
		return nil
	}
	for _, own := range s.own {
		if own.path != "" && within(path, own.path) {
			return fmt.Errorf("%s is %s (%s), where documents cannot write", path, own.what, own.path)
		}
	}
	return nil
}

// within reports whether a path leads to own or to something below it, by whatever name. A link at its end is not followed, as files
// are not written through one.
func within(path, own string) bool {
	own, err := filepath.Abs(own)
	if err != nil {
		return false
	}
	for follow := false; !same(path, own, follow); follow = true {
		if path == "/" {
			return false
		}
		path = filepath.Dir(path)
	}
	return true
}

// same reports whether two paths lead to the same file, or would if their missing parts were created.
func same(a, b string, follow bool) bool {
	is, err := inodeOf(a, follow)
	other, otherErr := inodeOf(b, true)
	if err == nil || otherErr == nil {
		return err == nil && otherErr == nil && is == other
	}
	return a == b || filepath.Base(a) == filepath.Base(b) && same(filepath.Dir(a), filepath.Dir(b), true)
}

// inode identifies a file.
type inode struct {
	major, minor uint32
	number       uint64
}

// inodeOf returns the file that a path leads to, as far as the kernel knows without asking a file system for news, which need not answer.
func inodeOf(path string, follow bool) (inode, error) {
	flags := unix.AT_STATX_DONT_SYNC | unix.AT_NO_AUTOMOUNT
	if !follow {
		flags |= unix.AT_SYMLINK_NOFOLLOW
	}
	var is unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, path, flags, unix.STATX_INO, &is)
	return inode{is.Dev_major, is.Dev_minor, is.Ino}, err
}
