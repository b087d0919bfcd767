package inspect

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ErrInUse is returned by Listen, wrapped, when something listens on the socket already.
var ErrInUse = errors.New("another agent is listening there already")

// maxPath is the longest path of a unix socket.
const maxPath = len(unix.RawSockaddrUnix{}.Path) - 1

const (
	// probeTimeout is how long the listener of an existing socket has to accept; one that does not is busy, not dead.
	probeTimeout = time.Second
	// lockTimeout is enough for another agent that starts. In a directory for all, such as /tmp, anyone can hold the lock.
	lockTimeout = 3 * probeTimeout
	lockRetry   = 10 * time.Millisecond
)

// DefaultSocket is where the agent of that name listens if nothing else is said: /run/NAME/NAME.sock for root, else
// NAME/NAME.sock in $XDG_RUNTIME_DIR, else NAME-UID/NAME.sock in the directory of temporary files.
func DefaultSocket(name string) string {
	return defaultSocket(name, os.Getuid(), os.Getenv("XDG_RUNTIME_DIR"), os.TempDir())
}

func defaultSocket(name string, uid int, runtimeDir, tempDir string) string {
	file := name + ".sock"
	switch {
	case uid == 0:
		return filepath.Join(string(filepath.Separator), "run", name, file)
	case runtimeDir != "":
		return filepath.Join(runtimeDir, name, file)
	}
	return filepath.Join(tempDir, name+"-"+strconv.Itoa(uid), file)
}

// Listen opens the unix socket at path with mode 0600. A missing directory is made with mode 0700; one that is there must
// belong to root or to this user, and nobody else may be able to write to it (unless it is sticky, as /tmp is). The socket of
// a dead agent is replaced, a living one is ErrInUse. Closing the listener removes the socket: a process that hands it on to
// another keeps its own open until the other ends.
func Listen(path string) (net.Listener, error) {
	l, err := listen(path)
	if err != nil {
		return nil, fmt.Errorf("cannot listen on %s: %w", path, err)
	}
	return l, nil
}

func listen(path string) (net.Listener, error) {
	if len(path) > maxPath {
		return nil, fmt.Errorf("the path has %d bytes, a socket's can have %d", len(path), maxPath)
	}
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if err := checkDir(dir); err != nil {
		return nil, err
	}
	unlock, err := lockDir(dir, lockTimeout)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := removeStale(path); err != nil {
		return nil, err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// checkDir refuses a directory in which somebody else could replace the socket, links to it included.
func checkDir(dir string) error {
	for _, stat := range []func(string) (fs.FileInfo, error){os.Lstat, os.Stat} {
		info, err := stat(dir)
		if err != nil {
			return err
		}
		owner := int(info.Sys().(*syscall.Stat_t).Uid)
		if owner != 0 && owner != os.Getuid() {
			return fmt.Errorf("the directory %s belongs to uid %d: expected root or uid %d; choose another socket", dir, owner, os.Getuid())
		}
		link := info.Mode()&fs.ModeSymlink != 0
		if !link && info.Mode().Perm()&0o022 != 0 && info.Mode()&fs.ModeSticky == 0 {
			return fmt.Errorf("others may write to the directory %s (mode %v): run chmod 700 on it, or choose another socket", dir, info.Mode())
		}
	}
	return nil
}

// lockDir keeps two agents from replacing each other's fresh sockets.
func lockDir(dir string, patience time.Duration) (unlock func(), err error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	for began := time.Now(); ; <-time.After(lockRetry) {
		err := unix.Flock(int(d.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil:
			return func() { _ = d.Close() }, nil // nothing was written
		case !errors.Is(err, unix.EWOULDBLOCK):
			return nil, errors.Join(fmt.Errorf("cannot lock %s: %w", dir, err), d.Close())
		case time.Since(began) > patience:
			return nil, errors.Join(fmt.Errorf("somebody holds the lock of the directory %s: choose another socket", dir), d.Close())
		}
	}
}

func removeStale(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode().Type() != fs.ModeSocket {
		return errors.New("there is something else than a socket; remove it or choose another place")
	}
	ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "unix", path)
	var timeout net.Error
	switch {
	case err == nil:
		return errors.Join(ErrInUse, conn.Close())
	case errors.As(err, &timeout) && timeout.Timeout():
		return ErrInUse
	case errors.Is(err, syscall.ECONNREFUSED):
		return os.Remove(path)
	}
	return err
}
