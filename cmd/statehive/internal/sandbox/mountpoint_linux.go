package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

const mountPointPattern = "statehive-sandbox-*"

// mountPoint is an empty directory outside, on which the child mounts its tmpfs. As it is new, the mount hides no files. It is
// locked while in use, because removing a directory detaches what other namespaces have mounted there: systemd-tmpfiles spares
// locked directories, and so does sweep.
type mountPoint struct {
	path string
	lock *os.File
}

// errSwept is the error of a directory that another process removed before it was locked.
var errSwept = errors.New("another process has removed it")

// newMountPoint makes a mount point in dir.
func newMountPoint(dir string) (*mountPoint, error) {
	const attempts = 10
	var point *mountPoint
	err := errSwept
	for i := 0; i < attempts && errors.Is(err, errSwept); i++ {
		point, err = tryMountPoint(dir)
	}
	if err != nil {
		return nil, fmt.Errorf("making a directory for the sandbox (set TMPDIR to use another place): %w", err)
	}
	return point, nil
}

func tryMountPoint(dir string) (*mountPoint, error) {
	path, err := os.MkdirTemp(dir, mountPointPattern)
	if err != nil {
		return nil, err
	}
	lock, err := lockDirectory(path, unix.LOCK_SH)
	if errors.Is(err, os.ErrNotExist) {
		return nil, errSwept
	}
	if err != nil {
		return nil, errors.Join(err, os.Remove(path))
	}
	if _, err := os.Stat(path); err != nil {
		return nil, errors.Join(errSwept, lock.Close())
	}
	return &mountPoint{path: path, lock: lock}, nil
}

// remove removes the directory, which must be empty.
func (m *mountPoint) remove() error {
	return errors.Join(os.Remove(m.path), m.lock.Close())
}

// sweep removes this user's mount points in dir that no process uses any more, because their parents were killed.
func sweep(dir string) error {
	paths, err := filepath.Glob(filepath.Join(dir, mountPointPattern))
	if err != nil {
		return fmt.Errorf("looking for left-over directories of sandboxes in %s: %w", dir, err)
	}
	var failed []error
	for _, path := range paths {
		failed = append(failed, sweepOne(path))
	}
	return errors.Join(failed...)
}

func sweepOne(path string) error {
	var stat unix.Stat_t
	if err := unix.Lstat(path, &stat); err != nil || stat.Mode&unix.S_IFMT != unix.S_IFDIR || int(stat.Uid) != os.Geteuid() {
		return nil //nolint:nilerr // gone meanwhile, or not ours: nothing to remove
	}
	lock, err := lockDirectory(path, unix.LOCK_EX|unix.LOCK_NB)
	switch {
	case errors.Is(err, unix.EWOULDBLOCK), errors.Is(err, os.ErrNotExist): // in use, or gone
		return nil
	case err != nil:
		return err
	}
	err = os.Remove(path)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ENOTEMPTY) {
		err = nil // ENOTEMPTY: someone uses the name for something else
	}
	return errors.Join(err, lock.Close())
}

func lockDirectory(path string, how int) (*os.File, error) {
	dir, err := os.OpenFile(path, unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(dir.Fd()), how); err != nil {
		return nil, errors.Join(fmt.Errorf("locking %s: %w", path, err), dir.Close())
	}
	return dir, nil
}
