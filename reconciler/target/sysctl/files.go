package sysctl

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
)

// files are the parameters below a directory, by their dotted names. No name
// leads out of the directory.
type files struct{ root string }

// read returns the text of a parameter without the final line end.
func (f files) read(name string) (string, error) {
	file, err := f.open(name, os.O_RDONLY)
	if err != nil {
		return "", err
	}
	data, err := io.ReadAll(file)
	if err := errors.Join(err, file.Close()); err != nil {
		return "", fmt.Errorf("read sysctl %s: %w", name, cause(err))
	}
	return strings.TrimSuffix(string(data), "\n"), nil
}

// write sets a parameter with a single write call, as the kernel requires.
func (f files) write(name, value string) error {
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

func (f files) open(name string, flags int) (*os.File, error) {
	root, err := os.OpenRoot(f.root)
	if err != nil {
		return nil, fmt.Errorf("open sysctl %s: %w", name, err)
	}
	file, err := root.OpenFile(pathOf(name), flags, 0)
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
	info, statErr := root.Stat(pathOf(name))
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
