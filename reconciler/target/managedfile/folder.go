package managedfile

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/statehive/statehive/internal/trusted"
)

// folder is an open directory.
type folder struct {
	path string // without symbolic links
	fd   int
	// others is whether another user can change what is in it, and user is whether it is such a user's own, with the number owner.
	others, user bool
	owner        uint32
	device       uint64
	trusts       func(uid uint32) bool // whether a user may do all that the agent may
	identity
}

// checkOriginal returns an error if what was found in the directory once must not be put there again, because another user could have made it look
// like somebody else's, or like a program with the rights of one: by a file system of that user's own.
func (f *folder) checkOriginal(found *original) error {
	hasSetID := found.Mode&(unix.S_ISUID|unix.S_ISGID) != 0
	if f.others && hasSetID || f.user && found.Owner != f.owner {
		return fmt.Errorf("it was of user %d with mode %04o, in a directory in which other users could have made it look so", found.Owner, uint32(found.Mode))
	}
	return nil
}

// identity identifies a directory, also after a reboot.
type identity struct {
	Path  string `json:"path"` // without symbolic links
	Inode uint64 `json:"inode"`
	// Born is the time of creation in nanoseconds of Unix time, because inode numbers are
	// reused. Filesystem is the identifier of the file system if that does not record the time.
	Born       int64  `json:"born,omitempty"`
	Filesystem string `json:"filesystem,omitempty"`
}

// identify returns the identity of a directory with a path.
func identify(path string, stat *unix.Statx_t, disk *unix.Statfs_t) identity {
	if int64(disk.Type) == unix.OVERLAYFS_SUPER_MAGIC { //nolint:unconvert // not everywhere is it one
		return identity{Path: path, Inode: stat.Ino} // the first write creates the directory again in the upper layer
	}
	id := identity{Path: path, Inode: stat.Ino, Born: stat.Btime.Sec*1e9 + int64(stat.Btime.Nsec)}
	if id.Born == 0 {
		id.Filesystem = fmt.Sprintf("%08x%08x", uint32(disk.Fsid.Val[0]), uint32(disk.Fsid.Val[1]))
	}
	return id
}

// maxLinks limits the symbolic links in a path, as the kernel does.
const maxLinks = 40

// openFolder opens the directory that a path leads to. Others must not choose where files are
// written: symbolic links are followed only if root or the user of the process has made them and
// nobody else can rename them, and a directory in one of another user must be that user's.
func openFolder(name string) (*folder, error) {
	f, err := walkTo(name)
	if err != nil {
		return nil, err
	}
	if err := f.checkDisk(); err != nil {
		return nil, errors.Join(err, f.close())
	}
	return f, nil
}

func (f *folder) close() error { return unix.Close(f.fd) }

// pathWalk follows a path from directory to directory.
type pathWalk struct {
	*folder
	exchanges bool // others can rename the directory or what is in it
}

// walkTo opens one directory after the other.
func walkTo(name string) (_ *folder, err error) {
	w := &pathWalk{folder: &folder{path: "/", fd: -1, trusts: trusted.Owners()}}
	if err := w.move("/", unix.AT_FDCWD, "/"); err != nil {
		return nil, fmt.Errorf("open directory /: %w", err)
	}
	pending := strings.Split(name, "/")
	for links := 0; len(pending) > 0; {
		part := pending[0]
		pending = pending[1:]
		if part == "" || part == "." {
			continue
		}
		target, err := w.enter(part)
		if err == nil && target != "" {
			if links++; links > maxLinks {
				err = fmt.Errorf("directory %s: %w", name, unix.ELOOP)
			}
			pending = append(strings.Split(target, "/"), pending...)
			if err == nil && path.IsAbs(target) {
				err = w.move("/", unix.AT_FDCWD, "/")
			}
		}
		if err != nil {
			return nil, errors.Join(err, w.close())
		}
	}
	w.others, w.user = w.exchanges, !w.trusts(w.owner)
	return w.folder, nil
}

// enter moves to a subdirectory. If part is a symbolic link, it stays where it is, and returns the
// link's target.
func (w *pathWalk) enter(part string) (target string, err error) {
	above, owner := w.path, w.owner
	at := path.Join(above, part)
	err = w.move(at, w.fd, part)
	switch {
	case err == nil && !w.trusts(owner) && w.owner != owner:
		return "", fmt.Errorf("directory %s belongs to user %d, but %s to user %d, who could put another one there: expected both to be that user's: %w", at, w.owner, above, owner, fs.ErrPermission)
	case err == nil:
		return "", nil
	case errors.Is(err, unix.ENOENT):
		return "", fmt.Errorf("directory %s does not exist, and is not made: %w", at, err)
	case !errors.Is(err, unix.ELOOP) && !errors.Is(err, unix.ENOTDIR):
		return "", fmt.Errorf("open directory %s: %w", at, err)
	}
	var stat unix.Stat_t
	if statErr := unix.Fstatat(w.fd, part, &stat, unix.AT_SYMLINK_NOFOLLOW); statErr != nil {
		return "", fmt.Errorf("look at %s: %w", at, statErr)
	}
	switch {
	case stat.Mode&unix.S_IFMT != unix.S_IFLNK:
		return "", fmt.Errorf("%s is not a directory: %w", at, unix.ENOTDIR)
	case !w.trusts(stat.Uid):
		return "", fmt.Errorf("%s is a symbolic link of user %d, who could lead it anywhere: expected one of root or a directory: %w", at, stat.Uid, fs.ErrPermission)
	case w.exchanges:
		return "", fmt.Errorf("%s is a symbolic link that others can replace, because they can write to a directory above it: expected a directory: %w", at, fs.ErrPermission)
	}
	text := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(w.fd, part, text)
	if err != nil {
		return "", fmt.Errorf("read symbolic link %s: %w", at, err)
	}
	return string(text[:n]), nil
}

// move moves to a directory, whose name is relative to another one.
func (w *pathWalk) move(to string, from int, name string) error {
	fd, err := unix.Openat(from, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return errors.Join(err, unix.Close(fd))
	}
	if w.fd >= 0 {
		err = w.close() // of a descriptor that nothing was written to
	}
	if err == nil && stat.Dev != w.device && isServedByOthers(fd, stat.Dev, w.trusts) {
		err = fmt.Errorf("it is on a file system that another user has mounted, who would get what is written: expected another directory: %w", fs.ErrPermission)
	}
	w.fd, w.path, w.owner, w.device = fd, to, stat.Uid, stat.Dev
	if !w.trusts(stat.Uid) || stat.Mode&0o022 != 0 && stat.Mode&unix.S_ISVTX == 0 {
		w.exchanges = true
	}
	return err
}

// kernelDisks are file systems whose files are the kernel's own, wherever they are mounted.
var kernelDisks = map[int64]string{
	unix.PROC_SUPER_MAGIC: "proc", unix.SYSFS_MAGIC: "sysfs", unix.DEVPTS_SUPER_MAGIC: "devpts", unix.CGROUP_SUPER_MAGIC: "cgroup",
	unix.CGROUP2_SUPER_MAGIC: "cgroup2", unix.DEBUGFS_MAGIC: "debugfs", unix.TRACEFS_MAGIC: "tracefs", unix.SECURITYFS_MAGIC: "securityfs",
	unix.BPF_FS_MAGIC: "bpf", unix.PSTOREFS_MAGIC: "pstore", unix.EFIVARFS_MAGIC: "efivarfs", unix.SELINUX_MAGIC: "selinuxfs",
	unix.NSFS_MAGIC: "nsfs", unix.BINFMTFS_MAGIC: "binfmt_misc", unix.BINDERFS_SUPER_MAGIC: "binder",
}

// errNoDisk matches the error for a directory in which no files can be kept.
var errNoDisk = errors.New("the kernel and not the disk keeps files there: expected a path elsewhere")

// checkDisk refuses directories that are the kernel's own.
func (f *folder) checkDisk() error {
	var dir unix.Statx_t
	err := unix.Statx(f.fd, "", unix.AT_EMPTY_PATH, unix.STATX_INO|unix.STATX_BTIME, &dir)
	if err != nil {
		return fmt.Errorf("look at directory %s: %w", f.path, err)
	}
	var stat unix.Statfs_t
	if err := unix.Fstatfs(f.fd, &stat); err != nil {
		return fmt.Errorf("look at the file system of directory %s: %w", f.path, err)
	}
	f.identity = identify(f.path, &dir, &stat)
	if name, kernels := kernelDisks[int64(stat.Type)]; kernels { //nolint:unconvert // not everywhere is it one
		return fmt.Errorf("directory %s is on a file system of type %s: %w", f.path, name, errNoDisk)
	}
	if checkTree(f.path) != nil {
		return fmt.Errorf("the path leads to directory %s: %w", f.path, errNoDisk)
	}
	return nil
}

// isAbsent reports whether a directory could not be opened because it does not exist.
func isAbsent(err error) bool { return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) }

// sync makes added and removed names survive a power failure. A directory that may not be read
// cannot be synced.
func (f *folder) sync() error {
	fd, err := unix.Openat(f.fd, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.EACCES) {
		return nil
	}
	if err == nil {
		err = errors.Join(ignoringInterrupts(func() error { return unix.Fsync(fd) }), unix.Close(fd))
	}
	if err != nil {
		return fmt.Errorf("sync directory %s: %w", f.path, err)
	}
	return nil
}

// ignoringInterrupts repeats a call that a signal has interrupted.
func ignoringInterrupts(do func() error) error {
	for {
		if err := do(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// folders are the directories that one operation works in, each opened once.
// It is safe for concurrent use for different directories.
type folders struct {
	answers *answers

	mu     sync.Mutex
	opened map[string]opened
}

type opened struct {
	folder *folder
	err    error
}

// of opens the directory of a file.
func (all *folders) of(file string) (*folder, error) {
	dir := path.Dir(file)
	all.mu.Lock()
	known, ok := all.opened[dir]
	all.mu.Unlock()
	if ok {
		return known.folder, known.err
	}
	f, err := all.answers.open(dir)
	all.mu.Lock()
	defer all.mu.Unlock()
	all.opened[dir] = opened{f, err}
	return f, err
}

// close closes them all. There is no error to return, because nothing was written to them.
func (all *folders) close() {
	for _, each := range all.opened {
		if each.folder != nil {
			_ = each.folder.close()
		}
	}
}
