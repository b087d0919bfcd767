package ownership

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// birth identifies a file and tells it from its copies, which are created later: nobody can set the time at which a file was created.
type birth struct {
	Created string `json:"created"` // empty if the file system does not record it
	Inode   uint64 `json:"inode"`
}

func (b birth) sameFile(other birth) bool {
	if b.Created != "" && other.Created != "" {
		return b.Created == other.Created
	}
	return b.Inode == other.Inode
}

// mark tells a state directory from copies of it: it is the record of a file that has the birth of that file as its content.
type mark struct {
	records *Records[birth]
	found   birth // of the file that is there, as this process has found or written it; zero if there is none
	copied  bool
}

const markKey = "mark"

// path returns the path of the file.
func (m *mark) path() string { return filepath.Join(m.records.dir, fileName(markKey)) }

// openMark looks for the mark of the store's directory.
func (s *Store) openMark() error {
	var err error
	if s.mark.records, err = NewLastingRecords[birth](s, "mark"); err != nil {
		return err
	}
	if s.mark.found, err = birthOf(unix.AT_FDCWD, s.mark.path()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	is, marked := s.mark.records.Get(markKey)
	s.mark.copied = marked && !is.sameFile(s.mark.found) || s.mark.records.Damaged(markKey)
	return nil
}

// IsCopy reports whether the directory was a copy when it was opened, such as one that was restored from a backup as a whole or over what was there, and has
// not been marked since. A directory that was never marked is not recognized, nor is one whose file system was rolled back to a snapshot. It is safe for
// concurrent use.
func (s *Store) IsCopy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mark.copied
}

// Mark marks the directory, so that [Store.IsCopy] recognizes copies that are made from now on, and earlier ones that are restored. It does nothing if
// no lasting record was put or removed since the last call. It returns an error if others have replaced the mark since the store was opened,
// and errors of the file system; IsCopy then returns the same as before. It is safe for concurrent use.
func (s *Store) Mark() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.changed.Load() {
		return nil
	}
	is, err := birthOf(unix.AT_FDCWD, s.mark.path())
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	case is != s.mark.found:
		return fmt.Errorf("%s was removed or replaced since this process has started, as by restoring a backup: restart it", s.mark.path())
	}
	s.changed.Store(false)
	if err := s.mark.write(); err != nil {
		s.changed.Store(true)
		return fmt.Errorf("mark the state directory: %w", err)
	}
	s.mark.copied = false
	return nil
}

// write replaces the file by a new one.
func (m *mark) write() error {
	if err := m.records.writable(); err != nil {
		return err
	}
	var written birth
	err := m.records.create(fileName(markKey), func(f *os.File) (data []byte, err error) {
		if written, err = birthOf(int(f.Fd()), ""); err != nil {
			return nil, err
		}
		return m.records.encode(markKey, written)
	})
	if err != nil {
		return err
	}
	m.found = written
	return m.records.sync()
}

// birthOf returns the birth of the file at a path relative to the directory fd, or of the open file fd if the path is empty.
func birthOf(fd int, path string) (birth, error) {
	var is unix.Statx_t
	flags := unix.AT_SYMLINK_NOFOLLOW
	if path == "" {
		flags |= unix.AT_EMPTY_PATH
	}
	if err := unix.Statx(fd, path, flags, unix.STATX_INO|unix.STATX_BTIME, &is); err != nil {
		return birth{}, &fs.PathError{Op: "statx", Path: path, Err: err}
	}
	b := birth{Inode: is.Ino}
	if is.Mask&unix.STATX_BTIME != 0 && is.Btime != (unix.StatxTimestamp{}) {
		b.Created = fmt.Sprintf("%d.%09d", is.Btime.Sec, is.Btime.Nsec)
	}
	return b, nil
}
