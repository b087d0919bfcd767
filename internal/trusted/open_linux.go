package trusted

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// maxLinks is how many symbolic links a path may lead through, as in the kernel.
const maxLinks = 40

// Open opens a file or directory for reading. The error is an [*Error], an error that wraps
// [ErrSpecial], or an error of the system.
func Open(path string, p Policy) (*os.File, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	w := &walk{policy: p, own: Owners()}
	defer w.close()
	if err := w.to(abs); err != nil {
		return nil, err
	}
	if p.Within != "" {
		within, err := filepath.EvalSymlinks(p.Within)
		if err == nil {
			within, err = filepath.Abs(within)
		}
		if err != nil {
			return nil, err
		}
		if at := w.at(); at != within && !strings.HasPrefix(at, strings.TrimSuffix(within, "/")+"/") {
			return nil, fmt.Errorf("a symbolic link leads out of %s, to %s: put the file itself there", Name(p.Within), Name(at))
		}
	}
	return w.open(path)
}

// OpenIn opens a regular file in a trusted directory. It does not follow a symbolic link. The flags are
// the flags of [os.OpenFile]; a new file has mode 0600.
func OpenIn(dir, name string, flags int) (*os.File, error) {
	path := filepath.Join(dir, name)
	f, err := os.OpenFile(path, flags|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY, 0o600)
	if err != nil {
		return nil, err
	}
	var stat unix.Stat_t
	err = unix.Fstat(int(f.Fd()), &stat) //nolint:gosec // a descriptor fits
	if err == nil && stat.Mode&unix.S_IFMT != unix.S_IFREG {
		err = ErrSpecial
	}
	if err == nil {
		err = judge(path, modeOf(stat.Mode), stat.Uid, Owners(), Policy{})
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// MkdirAll makes a directory and all missing directories above it, with mode 0700. It checks
// existing directories as [Open] does, and returns the same errors.
func MkdirAll(path string, p Policy) error {
	abs, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	w := &walk{policy: p, own: Owners(), create: true}
	defer w.close()
	if err := w.to(abs); err != nil {
		return err
	}
	if w.end != nil {
		return &fs.PathError{Op: "mkdir", Path: path, Err: syscall.ENOTDIR}
	}
	return nil
}

// Owners returns a function that reports whether a user is trusted: root and the user of this process.
func Owners() func(uint32) bool {
	self := uint32(os.Geteuid()) //nolint:gosec // never negative on Linux
	users, err := os.ReadFile("/proc/self/uid_map")
	unmapped := err == nil && !maps(string(users), overflowUID)
	return func(uid uint32) bool { return uid == 0 || uid == self || uid == overflowUID && unmapped }
}

// overflowUID is the user ID that the kernel shows for users that are not mapped.
const overflowUID = 65534

// maps reports whether a user ID may be mapped in this user namespace. It returns true if the
// mapping is unknown.
func maps(users string, uid uint64) bool {
	for line := range strings.Lines(users) {
		var first, outside, size uint64
		if n, _ := fmt.Sscan(line, &first, &outside, &size); n != 3 || first <= uid && uid-first < size {
			return true
		}
	}
	return users == ""
}

// walk follows a path, component by component.
type walk struct {
	policy  Policy
	own     func(uint32) bool
	create  bool     // missing directories are created
	dirs    []opened // from the root to the directory that was reached
	end     *opened  // the file that was reached, if it is not a directory
	links   int
	pending []string
}

// opened is a descriptor that only identifies a file (O_PATH).
type opened struct {
	name string
	fd   int
	stat unix.Stat_t
}

func (w *walk) close() {
	for _, o := range w.dirs {
		_ = unix.Close(o.fd) // nothing can be written with it
	}
	if w.end != nil {
		_ = unix.Close(w.end.fd)
	}
}

// at returns the path that was reached, without symbolic links.
func (w *walk) at() string {
	path := "/"
	for _, o := range w.dirs {
		path = filepath.Join(path, o.name)
	}
	if w.end != nil {
		path = filepath.Join(path, w.end.name)
	}
	return path
}

func (w *walk) to(path string) error {
	w.pending = strings.Split(path, "/")
	if err := w.root(); err != nil {
		return err
	}
	for len(w.pending) > 0 {
		name := w.pending[0]
		w.pending = w.pending[1:]
		if name == "" || name == "." {
			continue
		}
		if err := w.step(name); err != nil {
			return err
		}
	}
	return w.judgeEnd()
}

// root starts the walk at the root directory.
func (w *walk) root() error {
	for _, o := range w.dirs {
		_ = unix.Close(o.fd)
	}
	w.dirs = nil
	return w.enter(unix.AT_FDCWD, "/")
}

// step follows one component of the path.
func (w *walk) step(name string) error {
	if w.end != nil {
		return &fs.PathError{Op: "open", Path: w.at(), Err: syscall.ENOTDIR}
	}
	if name == ".." {
		if last := len(w.dirs) - 1; last > 0 {
			_ = unix.Close(w.dirs[last].fd)
			w.dirs = w.dirs[:last]
		}
		return nil
	}
	return w.enter(w.dirs[len(w.dirs)-1].fd, name)
}

// enter opens a directory entry, and follows it if it is a link.
func (w *walk) enter(dir int, name string) error {
	fail := func(err error) error {
		return &fs.PathError{Op: "open", Path: filepath.Join(w.at(), name), Err: err}
	}
	open := func() (int, error) { return unix.Openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0) }
	fd, err := retry(open)
	if w.create && errors.Is(err, syscall.ENOENT) {
		if err := unix.Mkdirat(dir, name, 0o700); err != nil && !errors.Is(err, syscall.EEXIST) {
			return fail(err)
		}
		fd, err = retry(open)
	}
	if err != nil {
		return fail(err)
	}
	o := opened{name: name, fd: fd}
	if err := unix.Fstat(fd, &o.stat); err != nil {
		return errors.Join(fail(err), unix.Close(fd))
	}
	switch o.stat.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		w.dirs = append(w.dirs, o)
		if len(w.pending) > 0 {
			return w.judge(&o, Policy{AllowSticky: true})
		}
	case unix.S_IFLNK:
		defer func() { _ = unix.Close(fd) }()
		if err := w.judge(&o, Policy{}); err != nil {
			return err
		}
		return w.follow(&o)
	default:
		w.end = &o
	}
	return nil
}

// follow continues the walk at the target of a symbolic link.
func (w *walk) follow(link *opened) error {
	target := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(link.fd, "", target)
	if w.links++; err == nil && w.links > maxLinks {
		err = syscall.ELOOP
	}
	if err != nil {
		return &fs.PathError{Op: "open", Path: filepath.Join(w.at(), link.name), Err: err}
	}
	w.pending = append(strings.Split(string(target[:n]), "/"), w.pending...)
	if target[0] == '/' {
		return w.root()
	}
	return nil
}

// judgeEnd checks the file or directory that was reached.
func (w *walk) judgeEnd() error {
	if w.end == nil {
		return w.judge(&w.dirs[len(w.dirs)-1], w.policy)
	}
	if err := w.special(); err != nil {
		return err // do not suggest to change the mode of such a file
	}
	return w.judge(w.end, Policy{})
}

func (w *walk) judge(o *opened, allow Policy) error {
	if w.policy.AllowWritable {
		return nil
	}
	path := w.at()
	if o.stat.Mode&unix.S_IFMT == unix.S_IFLNK {
		path = filepath.Join(path, o.name)
	}
	return judge(path, modeOf(o.stat.Mode), o.stat.Uid, w.own, allow)
}

func modeOf(bits uint32) fs.FileMode {
	mode := fs.FileMode(bits & 0o777)
	switch bits & unix.S_IFMT {
	case unix.S_IFLNK:
		mode |= fs.ModeSymlink
	case unix.S_IFDIR:
		mode |= fs.ModeDir
	}
	if bits&unix.S_ISVTX != 0 {
		mode |= fs.ModeSticky
	}
	return mode
}

// open opens the file or directory that was reached for reading, under the caller's name for it.
func (w *walk) open(name string) (*os.File, error) {
	at, dir, flags := ".", w.dirs[len(w.dirs)-1], unix.O_DIRECTORY
	reached := dir
	if w.end != nil {
		at, reached, flags = w.end.name, *w.end, unix.O_NOFOLLOW
	}
	fail := func(err error) error { return &fs.PathError{Op: "open", Path: name, Err: err} }
	fd, err := retry(func() (int, error) {
		return unix.Openat(dir.fd, at, flags|unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return nil, fail(err)
	}
	var stat unix.Stat_t
	if err = unix.Fstat(fd, &stat); err == nil && (stat.Dev != reached.stat.Dev || stat.Ino != reached.stat.Ino) {
		err = syscall.ESTALE // it has been replaced in the meantime
	}
	if err != nil {
		return nil, errors.Join(fail(err), unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), name), nil
}

// special returns an error for anything but a regular file on a disk. Files of kernel file
// systems look like regular ones, but may block or have no end.
func (w *walk) special() error {
	if w.end.stat.Mode&unix.S_IFMT != unix.S_IFREG {
		return ErrSpecial
	}
	var system unix.Statfs_t
	if err := unix.Fstatfs(w.end.fd, &system); err != nil {
		return err
	}
	switch system.Type {
	case unix.PROC_SUPER_MAGIC, unix.SYSFS_MAGIC, unix.DEBUGFS_MAGIC, unix.TRACEFS_MAGIC, unix.CGROUP2_SUPER_MAGIC, unix.SECURITYFS_MAGIC:
		return fmt.Errorf("a file of the kernel: %w", ErrSpecial)
	}
	return nil
}

// retry repeats a call that a signal has interrupted.
func retry(call func() (int, error)) (int, error) {
	for {
		n, err := call()
		if !errors.Is(err, syscall.EINTR) {
			return n, err
		}
	}
}
