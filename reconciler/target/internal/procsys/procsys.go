// Package procsys reads and writes kernel parameters, without waiting long for a directory of theirs that others keep busy.
//
// A process that may list a directory of /proc/sys can block lookups in it of names that the kernel has not cached, for as long as it likes:
// by listing the directory into memory that is mapped from a file system that does not answer.
package procsys

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Default is the directory of all parameters. /proc/sys/net follows the network namespace of the calling thread: the whole process must live in
// one.
const Default = "/proc/sys"

// patience is how long the kernel may take to look up a parameter.
const patience = 2 * time.Second

// maxBusy limits the directories with abandoned calls, each of which blocks a thread.
const maxBusy = 100

// ErrBusy matches the error for a parameter that the kernel does not look up in time.
var ErrBusy = errors.New("the kernel does not look it up: another process may keep its directory busy")

// Files are the parameters below a directory, by their dotted names. No name leads out of the directory. Files is safe for concurrent use.
type Files struct {
	root string

	mu   sync.Mutex
	busy map[string]int // number of abandoned calls that have not returned, by directory
}

// New returns the parameters below a directory.
func New(root string) *Files { return &Files{root: root, busy: map[string]int{}} }

// swapSeparators turns the dotted spelling into a path and back: a dot inside a part of
// the path (eth0.100) is a slash in the dotted spelling (eth0/100).
var swapSeparators = strings.NewReplacer(".", "/", "/", ".")

// PathOf returns the path of a dotted name below the directory of all, and NameOf the name of a path.
func PathOf(name string) string { return swapSeparators.Replace(name) }

// NameOf returns the dotted name of a path. See PathOf.
func NameOf(path string) string { return swapSeparators.Replace(path) }

// IsSecret reports whether the kernel does not let a parameter be read before it was set for the first time. After that it always has a value.
func IsSecret(name string) bool { return path.Base(PathOf(name)) == "stable_secret" }

// Read returns the text of a parameter without the final line end, which is empty for a secret that was never set. Errors match those of the file
// system, or ErrBusy.
func (f *Files) Read(name string) (string, error) {
	file, err := f.open(name, os.O_RDONLY)
	if err != nil {
		return "", err
	}
	data, err := io.ReadAll(file)
	if errors.Is(err, syscall.EIO) && IsSecret(name) {
		err = nil
	}
	if err := errors.Join(err, file.Close()); err != nil {
		return "", fmt.Errorf("read sysctl %s: %w", name, cause(err))
	}
	return strings.TrimSuffix(string(data), "\n"), nil
}

// Write sets a parameter with a single write call, as the kernel requires. Its errors are as those of Read. After an error that matches ErrBusy
// it is not set later.
func (f *Files) Write(name, value string) error {
	file, err := f.open(name, os.O_WRONLY|os.O_TRUNC)
	if err != nil {
		return err
	}
	_, err = file.WriteString(value + "\n")
	if err := errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("set sysctl %s to %q: %w", name, value, cause(err))
	}
	return nil
}

// open opens a parameter, unless that takes too long.
func (f *Files) open(name string, flags int) (*os.File, error) {
	dir := path.Dir(PathOf(name))
	if f.isBusy(dir) {
		return nil, fmt.Errorf("open sysctl %s: %w", name, ErrBusy)
	}
	type result struct {
		file *os.File
		err  error
	}
	results, abandoned := make(chan result), make(chan struct{})
	go func() {
		file, err := f.openNow(name, flags)
		select {
		case results <- result{file, err}:
		case <-abandoned:
			f.count(dir, -1)
			if file != nil {
				_ = file.Close() // nothing was written
			}
		}
	}()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case r := <-results:
		return r.file, r.err
	case <-timer.C:
		f.count(dir, 1)
		close(abandoned)
		return nil, fmt.Errorf("open sysctl %s: %w", name, ErrBusy)
	}
}

// isBusy reports whether a call for a directory has not returned yet, or calls for too many others.
func (f *Files) isBusy(dir string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.busy[dir] > 0 || len(f.busy) >= maxBusy
}

func (f *Files) count(dir string, delta int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.busy[dir] += delta; f.busy[dir] == 0 {
		delete(f.busy, dir)
	}
}

func (f *Files) openNow(name string, flags int) (*os.File, error) {
	root, err := os.OpenRoot(f.root)
	if err != nil {
		return nil, fmt.Errorf("open sysctl %s: %w", name, err)
	}
	file, err := root.OpenFile(PathOf(name), flags, 0)
	if errors.Is(err, fs.ErrPermission) {
		err = forbidden(root, name, err)
	}
	if closeErr := root.Close(); err == nil && closeErr != nil {
		err = errors.Join(closeErr, file.Close())
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("sysctl %s does not exist: %w", name, cause(err))
	case err != nil:
		return nil, fmt.Errorf("open sysctl %s: %w", name, cause(err))
	}
	return file, nil
}

// forbidden says whom a parameter is open to.
func forbidden(root *os.Root, name string, err error) error {
	info, statErr := root.Stat(PathOf(name))
	if statErr != nil {
		return err
	}
	return fmt.Errorf("%w for user %d: its mode is %v", cause(err), os.Geteuid(), info.Mode())
}

// cause removes the path from an error, because messages name the sysctl anyway.
func cause(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}
