//go:build !linux

package trusted

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
)

// OpenIn opens a file of a directory.
func OpenIn(dir, name string, flags int) (*os.File, error) {
	return os.OpenFile(filepath.Join(dir, name), flags, 0o600)
}

// MkdirAll makes a directory and those above it that are missing, with mode 0700.
func MkdirAll(path string, _ Policy) error { return os.MkdirAll(path, 0o700) }

// Open opens a file or directory for reading. It does not check owners and modes.
func Open(path string, _ Policy) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || !info.IsDir() && !info.Mode().IsRegular() {
		return nil, errors.Join(err, ErrSpecial, f.Close())
	}
	return f, nil
}
