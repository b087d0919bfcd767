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

	"github.com/statehive/statehive/internal/process"
	"github.com/statehive/statehive/internal/trusted"
)

// ErrInUse is returned by Listen, wrapped, when something listens on the socket already.
var ErrInUse = errors.New("another agent is listening there already")

// maxPath is the longest path of a unix socket.
const maxPath = len(unix.RawSockaddrUnix{}.Path) - 1

const (
	// probeTimeout is how long the listener of an existing socket has to accept; one that does not is busy, not dead.
	probeTimeout = time.Second
	// lockTimeout is enough for another agent that starts.
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

// Listen opens the unix socket at path with mode 0600. Missing directories are made with mode 0700; those that are there, also
// above, must belong to root or to this user, and nobody else may be able to write to them (unless they are sticky, as /tmp is). The socket of
// a dead agent, and of one that was killed and cannot end, is replaced; a living one is ErrInUse. Closing the listener removes the socket, if it is still there: a process
// that hands it on to another keeps its own open until the other ends.
func Listen(path string) (net.Listener, error) {
	l, err := listen(path)
	if err != nil {
		return nil, err
	}
	return l, nil
}

// socket is a listener with a place in a file system.
type socket struct {
	*net.UnixListener
	path string
	made fs.FileInfo
}

// inPlace reports whether clients that connect to the path reach this listener.
func (s *socket) inPlace() bool {
	now, err := os.Lstat(s.path)
	return err == nil && os.SameFile(now, s.made) // the kernel keeps the inode for as long as the listener is open
}

// Close removes the socket, but nothing else that has its name by now.
func (s *socket) Close() error {
	s.SetUnlinkOnClose(s.inPlace())
	return s.UnixListener.Close()
}

func listen(path string) (*socket, error) {
	l, err := listenAt(path)
	if err != nil {
		return nil, fmt.Errorf("cannot listen on %s: %w", path, err)
	}
	return l, nil
}

func listenAt(path string) (*socket, error) {
	if len(path) > maxPath {
		return nil, fmt.Errorf("the path has %d bytes, a socket's can have %d", len(path), maxPath)
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	dir := filepath.Dir(path)
	d, err := openDir(dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = d.Close() }() // nothing was written
	unlock, err := lock(path+".lock", lockTimeout)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := removeStale(path); err != nil {
		return nil, err
	}
	l, err := bind(path)
	if err != nil {
		return nil, err
	}
	s := &socket{UnixListener: l, path: path}
	if s.made, err = os.Lstat(path); err == nil {
		err = stillThere(d)
	}
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return s, nil
}

// bind makes the socket. The file has the mode from the beginning.
func bind(path string) (*net.UnixListener, error) {
	config := net.ListenConfig{Control: func(network, address string, raw syscall.RawConn) error {
		var modeErr error
		err := raw.Control(func(fd uintptr) { modeErr = unix.Fchmod(int(fd), 0o600) })
		return errors.Join(err, modeErr, process.RefuseFiles(network, address, raw))
	}}
	l, err := config.Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, err
	}
	return l.(*net.UnixListener), nil
}

// openDir opens a directory in which no other user can replace the socket, nor redirect its path by a directory above. A missing
// directory is created.
func openDir(dir string) (*os.File, error) {
	policy := trusted.Policy{AllowSticky: true}
	if err := trusted.MkdirAll(dir, policy); err != nil {
		return nil, err
	}
	return trusted.Open(dir, policy)
}

// stillThere returns an error if the path of a directory leads to another one by now.
func stillThere(d *os.File) error {
	before, err := d.Stat()
	if err != nil {
		return err
	}
	now, err := os.Stat(d.Name())
	if err == nil && !os.SameFile(before, now) {
		err = fmt.Errorf("the directory %s was replaced meanwhile", d.Name())
	}
	return err
}

// lock keeps two agents from replacing each other's fresh sockets, by a file that is removed with the lock. It is one that
// nobody else can open: whoever may read a directory could hold a lock of the directory itself for ever.
func lock(path string, patience time.Duration) (unlock func(), err error) {
	for began := time.Now(); ; <-time.After(lockRetry) {
		f, err := openLock(path)
		if err != nil {
			return nil, err
		}
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil && isAt(path, f) {
			return func() { _ = errors.Join(os.Remove(path), f.Close()) }, nil // a file that is left over does no harm
		}
		_ = f.Close() // nothing was written
		switch {
		case err != nil && !errors.Is(err, unix.EWOULDBLOCK):
			return nil, fmt.Errorf("cannot lock %s: %w", path, err)
		case time.Since(began) > patience:
			return nil, fmt.Errorf("somebody holds the lock of %s: choose another socket", path)
		}
	}
}

// openLock opens or makes a file that belongs to root or this user, and that nobody else can open.
func openLock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY, 0o600)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil {
		owner := int(info.Sys().(*syscall.Stat_t).Uid)
		if !info.Mode().IsRegular() || info.Mode().Perm()&0o077 != 0 || owner != 0 && owner != os.Getuid() {
			err = fmt.Errorf("%s, of mode %v and uid %d, is not a lock of this user: remove it or choose another socket", path, info.Mode(), owner)
		}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// isAt reports whether a path still leads to an open file.
func isAt(path string, f *os.File) bool {
	there, err := os.Lstat(path)
	open, openErr := f.Stat()
	return err == nil && openErr == nil && os.SameFile(there, open)
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
	dialer := net.Dialer{Control: process.RefuseFiles}
	conn, err := dialer.DialContext(ctx, "unix", path)
	var timeout net.Error
	switch {
	case err == nil:
		peer := killed(conn)
		process.Discard(conn)
		if peer == nil {
			return ErrInUse
		}
		return os.Remove(path)
	case errors.As(err, &timeout) && timeout.Timeout():
		return ErrInUse
	case errors.Is(err, syscall.ECONNREFUSED):
		return os.Remove(path)
	}
	return err
}
