package ownership

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// markFile is the name of the file whose time of change is recorded.
const markFile = "mark"

// Mark marks the state directory anew, and reports whether it has the mark of the last call. A copy of it has not, such as one that was restored
// from a backup, in whatever way: nobody can set the time at which the kernel changed a file. Nor has one whose owner or modes were changed. A
// directory that was never marked, or whose mark is lost, is not a copy.
func (s *Store) Mark() (copied bool, err error) {
	marks, err := NewLastingRecords[string](s, "mark")
	if err != nil {
		return false, err
	}
	was, marked := marks.Get(markFile)
	is, err := timeOfChange(filepath.Join(marks.dir, markFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	copied = marked && was != is || marks.Damaged(markFile)
	if s.readOnly {
		return copied, nil
	}
	if err := marks.write(markFile, nil); err != nil {
		return copied, fmt.Errorf("mark the state directory: %w", err)
	}
	if is, err = timeOfChange(filepath.Join(marks.dir, markFile)); err != nil {
		return copied, err
	}
	return copied, marks.Put(markFile, is)
}

// timeOfChange returns when a file was changed last, in whatever way.
func timeOfChange(path string) (string, error) {
	var stat unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_CTIME, &stat); err != nil {
		return "", &fs.PathError{Op: "statx", Path: path, Err: err}
	}
	return fmt.Sprintf("%d.%09d", stat.Ctime.Sec, stat.Ctime.Nsec), nil
}
