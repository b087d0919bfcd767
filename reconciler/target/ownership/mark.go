package ownership

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// birth identifies a file and tells it from its copies, which are created later: nobody can set the time at which a file was created.
type birth struct {
	Created string `json:"created"` // empty if the file system does not record it
	Inode   uint64 `json:"inode"`
}

func (b birth) isOf(other birth) bool {
	if b.Created != "" && other.Created != "" {
		return b.Created == other.Created
	}
	return b.Inode == other.Inode
}

// births are those of the file that they are the content of, and of its directory, of which there are no hard links.
type births struct {
	File      birth `json:"file"`
	Directory birth `json:"directory"`
}

func (b births) isOf(other births) bool {
	return b.File.isOf(other.File) && b.Directory.isOf(other.Directory)
}

// mark tells a state directory from copies of it: it is the record of a file that has the births of that file and its directory as its content.
// With each change of records, another file takes its place: a backup that does not have the change has another mark.
type mark struct {
	records *Records[births]
	found   births    // of the file that is there, as this process has found or written it; zero if there is none
	renewed time.Time // when it was written
	copied  bool
}

// markInterval is the least time between two marks, so that many changes together need few. A backup with the first of them, and without changes
// that follow it sooner, would have to be made in that time.
const markInterval = 100 * time.Millisecond

const (
	markKind = "mark"
	markKey  = "mark"
)

// path returns the path of the file.
func (m *mark) path() string { return filepath.Join(m.records.dir, fileName(markKey)) }

// openMark looks for the mark of the store's directory. One that a power failure has emptied counts as none.
func (s *Store) openMark() error {
	path := filepath.Join(s.dir, markKind, fileName(markKey))
	file, err := os.Lstat(path)
	emptied := err == nil && file.Size() == 0
	if emptied && !s.readOnly {
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	if s.mark.records, err = NewLastingRecords[births](s, markKind); err != nil {
		return err
	}
	if emptied {
		return nil
	}
	is, says, err := s.mark.read()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		s.mark.copied = s.mark.records.Damaged(markKey)
	case is == births{}:
		return err
	default: // an agent that runs may have written another one since, which a store that is only read takes as it is
		s.mark.found, s.mark.copied = is, err != nil || !is.isOf(says)
	}
	return nil
}

// read returns the births of the file that is there, and those that are its content. The error is about the content unless the former are zero.
func (m *mark) read() (is, says births, err error) {
	err = withFile(m.path(), func(f *os.File) error {
		if is, err = birthsOf(f); err != nil {
			return err
		}
		data, err := readAll(f)
		if err == nil {
			_, says, err = m.records.decode(m.path(), data)
		}
		return err
	})
	return is, says, err
}

// IsCopy reports whether the directory was a copy when it was opened, such as one that was restored from a backup as a whole or over what was there, and has
// not been marked since. A directory that was never marked is not recognized, nor is one whose file system was rolled back to a snapshot. It is safe for
// concurrent use.
func (s *Store) IsCopy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mark.copied
}

// Mark marks the directory, so that [Store.IsCopy] recognizes copies that are made from now on, and earlier ones that are restored. From then on, each
// change of records marks it, too. But what is copied while it changes may have the new mark and a record as it was before: call Mark again some time
// after changes. It does nothing if no record was put or removed since the last call. It returns an error if others have replaced the mark since
// the store was opened, and errors of the file system; IsCopy then returns the same as before. It is safe for concurrent use.
func (s *Store) Mark() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.changed {
		return nil
	}
	if err := s.mark.renew(true); err != nil {
		return err
	}
	s.mark.copied, s.changed = false, false
	return nil
}

// noteChange marks the directory after records have changed, unless it was never marked or is a copy.
func (s *Store) noteChange() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changed = true
	if s.mark.found == (births{}) || s.mark.copied || time.Since(s.mark.renewed) < markInterval {
		return
	}
	_ = s.mark.renew(false) // Mark will fail, too, and say so
}

// renew replaces the file by a new one, if it is still the one that was found.
func (m *mark) renew(sync bool) error {
	is, says, err := m.read()
	switch {
	case is == births{} && err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	case !is.isOf(m.found), !m.copied && is != births{} && (err != nil || !is.isOf(says)):
		return fmt.Errorf("%s was removed or replaced since this process has started, as by restoring a backup: restart it", m.path())
	}
	if err := m.write(sync); err != nil {
		return fmt.Errorf("mark the state directory: %w", err)
	}
	return nil
}

// write replaces the file by a new one.
func (m *mark) write(sync bool) error {
	if err := m.records.writable(); err != nil {
		return err
	}
	var written births
	err := m.records.create(fileName(markKey), sync, func(f *os.File) (data []byte, err error) {
		if written, err = birthsOf(f); err != nil {
			return nil, err
		}
		return m.records.encode(markKey, written)
	})
	if err != nil {
		return err
	}
	if m.found, m.renewed = written, time.Now(); !sync {
		return nil
	}
	return m.records.sync()
}

// birthsOf returns the births of an open file and of the directory that it has been opened in.
func birthsOf(f *os.File) (births, error) {
	file, err := birthOf(int(f.Fd()), "")
	if err != nil {
		return births{}, err
	}
	dir, err := birthOf(unix.AT_FDCWD, filepath.Dir(f.Name()))
	if err != nil {
		return births{}, err
	}
	return births{file, dir}, nil
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
