package file

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/statehive/statehive/internal/trusted"
)

// documentFile reports whether a file with this name is a file of documents. Temporary
// files of editors and other tools have hidden names or other extensions.
func documentFile(name string) bool {
	if strings.HasPrefix(name, ".") || strings.HasPrefix(name, "#") {
		return false
	}
	return slices.Contains([]string{".yaml", ".yml"}, filepath.Ext(name))
}

// temporaryFile reports whether a file with this name is what rsync writes before it renames it to a file of documents:
// a dot, the name, a dot and six characters.
func temporaryFile(name string) bool {
	hidden, is := strings.CutPrefix(name, ".")
	end := filepath.Ext(name)
	return is && len(end) == len(".123456") && documentFile(strings.TrimSuffix(hidden, end))
}

// readDir returns the entries and the information of a directory.
func readDir(dir string, p trusted.Policy) ([]os.DirEntry, os.FileInfo, error) {
	d, err := trusted.Open(dir, p)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = d.Close() }() // nothing was written
	info, err := d.Stat()
	if err != nil {
		return nil, nil, err
	}
	entries, err := readEntries(d, MaxFiles)
	return entries, info, err
}

// readEntries returns the entries of a directory, or an error if there are more than limit.
func readEntries(d *os.File, limit int) ([]os.DirEntry, error) {
	var all []os.DirEntry
	for {
		some, err := d.ReadDir(1024)
		all = append(all, some...)
		switch {
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil:
			return nil, err
		case len(all) > limit:
			return nil, fmt.Errorf("the directory has more than %d entries; put more documents into a file", limit)
		}
	}
}

// entries is what a directory has.
type entries struct {
	paths  []string // of the files that hold documents, sorted
	copies []string // of temporary files, see temporaryFile
	device uint64   // that the directory is on
	err    error
}

// listDir lists the directory, and looks up its files, or returns errSilent if its file system takes too long to answer: other processes can keep a directory
// busy for as long as they like. The kernel then knows the names of the files when these are read.
func (s *Source) listDir(ctx context.Context) entries {
	listed := make(chan entries, 1)
	if !s.directory.responds(ctx, func() { listed <- s.entries() }) {
		return entries{err: errSilent}
	}
	e := <-listed
	if e.err != nil {
		return e
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	total, answered := s.lookUp(ctx, e.paths)
	if answered {
		_, answered = s.lookUp(ctx, e.copies)
	}
	if !answered {
		return entries{err: errSilent}
	}
	if err := checkTotal(total, s.config.MaxTotalSize); err != nil {
		return entries{err: err}
	}
	return e
}

// lookUp looks up files, and returns their total size. It reports whether the file system has answered.
func (s *Source) lookUp(ctx context.Context, paths []string) (total int64, answered bool) {
	const atATime = 100 // that many may take as long as a directory with few files
	for some := range slices.Chunk(paths, atATime) {
		size := make(chan int64, 1)
		if !s.directory.responds(ctx, func() { size <- sizeOf(some, s.config.MaxFileSize) }) {
			return 0, false
		}
		total += <-size
	}
	return total, true
}

// entries returns what the directory has, without looking at the files.
func (s *Source) entries() (e entries) {
	all, info, err := s.readDir(s.config.Dir)
	if err != nil {
		return entries{err: err}
	}
	e.device = s.deviceOf(info)
	for _, entry := range all {
		if temporaryFile(entry.Name()) {
			e.copies = append(e.copies, filepath.Join(s.config.Dir, entry.Name()))
		}
	}
	e.paths = documentFiles(s.config.Dir, all)
	return e
}

// sizeOf returns the total size of files, before any of them is read. Files larger than maxFile are not counted, because they are refused on their own.
func sizeOf(paths []string, maxFile int64) (total int64) {
	for _, path := range paths {
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Size() <= maxFile {
			total += info.Size()
		}
	}
	return total
}

// checkTotal returns an error if the total size of files is more than maxTotal.
func checkTotal(total, maxTotal int64) error {
	if total > maxTotal {
		return fmt.Errorf("its files of documents have a total of %d bytes, expected at most %d", total, maxTotal)
	}
	return nil
}

// documentFiles returns the paths of the entries of a directory that hold documents, sorted.
func documentFiles(dir string, entries []os.DirEntry) []string {
	var paths []string
	for _, e := range entries {
		if documentFile(e.Name()) && !e.IsDir() {
			paths = append(paths, filepath.Join(dir, e.Name()))
		}
	}
	slices.Sort(paths)
	return paths
}

// deviceOf returns the device that a file is on, or 0 if it is unknown.
func deviceOf(info os.FileInfo) uint64 {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return stat.Dev
	}
	return 0
}

var (
	errNoFile   = errors.New("there is no such file, or it is a directory")
	errDangling = errors.New("a symbolic link to a file that does not exist")
)

// read returns the contents of a file. The error is errNoFile if the file has vanished or
// is a directory, and a *busyError while it is being written.
func (s *Source) read(path string, f *fileState, c circumstances) ([]byte, error) {
	file, info, err := open(path, trusted.Policy{AllowWritable: s.config.AllowWritable, Within: s.config.Dir})
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // nothing was written
	before := stampOf(info)
	f.note(before, c)
	if s.writing(file) {
		return nil, &busyError{}
	}
	if left := f.unquiet(c.at, f.sizeInForce()); left > 0 {
		return nil, &busyError{min(left, fileQuiet)} // the wait becomes shorter if the file grows
	}
	data, err := readAll(file, info.Size(), s.config.MaxFileSize)
	if s.writing(file) {
		return nil, &busyError{}
	}
	if info, err := file.Stat(); err == nil && stampOf(info) != before {
		return nil, &busyError{fileQuiet}
	}
	return data, err
}

// isWritten reports whether somebody has a file open for writing.
func (s *Source) isWritten(path string) bool {
	file, _, err := open(path, trusted.Policy{AllowWritable: s.config.AllowWritable, Within: s.config.Dir})
	if err != nil {
		return false
	}
	defer func() { _ = file.Close() }() // nothing was written
	return s.writing(file)
}

// readAll reads a file of about the given size. A file larger than limit is an error.
func readAll(file *os.File, size, limit int64) ([]byte, error) {
	tooLarge := fmt.Errorf("it is larger than %d bytes", limit)
	if size > limit {
		return nil, tooLarge
	}
	data := bytes.NewBuffer(make([]byte, 0, size+bytes.MinRead))
	_, err := data.ReadFrom(io.LimitReader(file, limit+1))
	if err == nil && int64(data.Len()) > limit {
		err = tooLarge
	}
	return data.Bytes(), withoutPath(err)
}

// open opens a regular file for reading. The error is errNoFile if the file has vanished or is a
// directory.
func open(path string, p trusted.Policy) (*os.File, os.FileInfo, error) {
	f, err := trusted.Open(path, p)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Lstat(path); err == nil {
			return nil, nil, errDangling
		}
		return nil, nil, errNoFile
	}
	if err != nil {
		return nil, nil, withoutPath(err)
	}
	info, err := f.Stat()
	if err == nil && info.IsDir() {
		err = errNoFile
	}
	if err != nil {
		_ = f.Close() // nothing was written
		return nil, nil, withoutPath(err)
	}
	return f, info, nil
}

// withoutPath returns err without its path, which the message already names.
func withoutPath(err error) error {
	var wrapped *fs.PathError
	if errors.As(err, &wrapped) {
		return wrapped.Err
	}
	return err
}

// maxLinks is how many symbolic links a path may lead through, as in the kernel.
const maxLinks = 40

// trail follows an absolute path as the kernel would. It returns where the path ends, and
// the directory entries that determine it: the symbolic links on the way and the end.
func trail(path string) (end string, entries []string) {
	pending := strings.Split(path, "/")
	end = "/"
	for links := 0; len(pending) > 0; {
		name := pending[0]
		pending = pending[1:]
		if name == "" {
			continue
		}
		next := filepath.Join(end, name)
		target, err := os.Readlink(next)
		if err != nil { // not a link
			end = next
			continue
		}
		entries = append(entries, next)
		if links++; links > maxLinks {
			return next, entries
		}
		if filepath.IsAbs(target) {
			end = "/"
		}
		pending = append(strings.Split(target, "/"), pending...)
	}
	return end, append(entries, end)
}
