package managedfile

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// stamp distinguishes the versions of a file, as far as that is possible without reading it.
type stamp struct {
	Device       uint64
	Inode        uint64
	Kind         uint32 // S_IFREG and so on; 0 if there is nothing
	Mode         Mode
	Owner, Group uint32
	Size         int64
	Changed      int64 // when, in nanoseconds of Unix time
	Modified     int64
}

func stampOf(stat *unix.Stat_t) stamp {
	return stamp{
		Device: stat.Dev, Inode: stat.Ino, Kind: stat.Mode & unix.S_IFMT, Mode: Mode(stat.Mode) & maxMode,
		Owner: stat.Uid, Group: stat.Gid, Size: stat.Size, Changed: stat.Ctim.Nano(), Modified: stat.Mtim.Nano(),
	}
}

func (s stamp) exists() bool  { return s.Kind != 0 }
func (s stamp) regular() bool { return s.Kind == unix.S_IFREG }

// kind names the type of what is there.
func (s stamp) kind() string {
	switch s.Kind {
	case 0:
		return "nothing"
	case unix.S_IFREG:
		return "file"
	case unix.S_IFDIR:
		return "directory"
	case unix.S_IFLNK:
		return "symbolic link"
	case unix.S_IFIFO:
		return "pipe"
	case unix.S_IFSOCK:
		return "socket"
	}
	return "device"
}

// version is the state of a file at one time, with a hash of its content.
type version struct {
	stamp
	// These are empty if it is not a regular file, larger than MaxSize, or cannot be read.
	Hash string
	ACL  string // as the kernel encodes it; empty if there is none
}

// unread reports whether it could not be read, because of a lease or its permissions.
func (v version) unread() bool { return v.regular() && v.Size <= MaxSize && v.Hash == "" }

// versions caches the last seen version of each file, so that unchanged files are not read
// again. It is safe for concurrent use.
type versions struct {
	mu    sync.Mutex
	known map[Key]seenVersion
	made  map[Key]version // as written by operations, or found in sync
}

func newVersions() *versions {
	return &versions{known: map[Key]seenVersion{}, made: map[Key]version{}}
}

type seenVersion struct {
	version
	at   time.Time // when it was looked at
	firm bool
}

// freshFor is how long a file is not read again if its stamp stays the same. Writes through a mapping of a file do not always
// change its times.
const freshFor = time.Minute

// tick is longer than the granularity of the clock that file systems use: two changes within it
// may leave the same time.
const tick = 50 * time.Millisecond

// get returns the cached version of a file if it is valid for a stamp at a time.
func (v *versions) get(key Key, is stamp, now time.Time) (version, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	known := v.known[key]
	return known.version, known.firm && !known.unread() && known.stamp == is && now.Sub(known.at) < freshFor
}

// last returns the version that was seen last, and the one that an operation has written or
// found in sync.
func (v *versions) last(key Key) (seen, made version) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.known[key].version, v.made[key]
}

// noteMade remembers the version that an operation has written.
func (v *versions) noteMade(key Key, made version) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.made[key] = made
}

// note remembers a version that was seen at a time.
func (v *versions) note(key Key, seen version, at time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.known[key] = seenVersion{seen, at, at.UnixNano()-seen.Changed > int64(tick)}
}

func (v *versions) forget(key Key) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.known, key)
	delete(v.made, key)
}

// look returns what is at a path. It follows no symbolic link, and reads a file only if it has
// changed since it was last read.
func (t *Target) look(key Key, f *folder) (version, error) {
	return ask(t.answers, f, func(f *folder) (version, error) { return t.lookNow(key, f) })
}

func (t *Target) lookNow(key Key, f *folder) (version, error) {
	name := path.Base(string(key))
	stat, err := f.stat(name)
	if errors.Is(err, unix.ENOENT) {
		t.versions.note(key, version{}, time.Now())
		return version{}, nil
	}
	if err != nil {
		return version{}, fmt.Errorf("look at file %s: %w", key, err)
	}
	is := version{stamp: stampOf(&stat)}
	if is.regular() && is.Size <= MaxSize {
		if known, ok := t.versions.get(key, is.stamp, time.Now()); ok {
			return known, nil
		}
		_, is, err = read(f, name)
		switch {
		case errors.Is(err, unix.ENOENT):
			is, err = version{}, nil
		case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EACCES): // a lease or its permissions, which may last: it is not waited for
			is, err = version{stamp: stampOf(&stat)}, nil
		}
		if err != nil {
			return version{}, fmt.Errorf("read file %s: %w", key, err)
		}
	}
	t.versions.note(key, is, time.Now())
	return is, nil
}

// read reads a file of at most MaxSize bytes. If it is larger or not a regular file, read
// returns only the stamp.
func read(f *folder, name string) ([]byte, version, error) {
	at, err := f.openPath(name)
	if err != nil {
		return nil, version{}, err
	}
	defer func() { _ = unix.Close(at) }()
	var there unix.Stat_t
	if err := unix.Fstat(at, &there); err != nil || !stampOf(&there).regular() {
		return nil, version{stamp: stampOf(&there)}, err
	}
	// O_NONBLOCK, because a lease would be waited for.
	fd, err := unix.Open("/proc/self/fd/"+strconv.Itoa(at), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, version{}, err
	}
	// No os.File, because that asks a file system in user space whether the file can be polled, in a
	// call that stops the whole process until it answers.
	defer func() { _ = unix.Close(fd) }() // nothing was written
	for tries := 1; ; tries++ {
		var before, after unix.Stat_t
		if err := unix.Fstat(fd, &before); err != nil {
			return nil, version{}, err
		}
		is := version{stamp: stampOf(&before)}
		if !is.regular() || is.Size > MaxSize {
			return nil, is, nil
		}
		data, err := io.ReadAll(io.NewSectionReader(descriptor(fd), 0, MaxSize+1))
		if err == nil {
			is.ACL, err = readACL(fd)
		}
		if err == nil {
			err = unix.Fstat(fd, &after)
		}
		if err != nil {
			return nil, version{}, cause(err)
		}
		const enough = 3 // it is being written continuously: this content is as good as any
		if stampOf(&after) == is.stamp && int64(len(data)) == is.Size || tries == enough {
			is.Hash = hashOf(data)
			return data, is, nil
		}
	}
}

// descriptor reads from an open file.
type descriptor int

// ReadAt implements io.ReaderAt.
func (d descriptor) ReadAt(data []byte, offset int64) (n int, err error) {
	for n < len(data) {
		more := 0
		err := ignoringInterrupts(func() (err error) { more, err = unix.Pread(int(d), data[n:], offset+int64(n)); return err })
		if err != nil {
			return n, err
		}
		if more == 0 {
			return n, io.EOF
		}
		n += more
	}
	return n, nil
}

// cause strips the path from an error that will name it anyway.
func cause(err error) error {
	var wrapped *os.PathError
	if errors.As(err, &wrapped) {
		return wrapped.Err
	}
	return err
}

// describe describes the version for people.
func (v version) describe() string {
	text := v.kind() + " of user " + strconv.FormatUint(uint64(v.Owner), 10)
	if v.regular() {
		text += ", mode " + v.Mode.String() + ", " + v.content()
		if v.ACL != "" {
			text += ", with an access control list"
		}
	}
	return text
}

// content identifies the content without showing it, because it may be secret.
func (v version) content() string {
	if v.Hash == "" {
		return fmt.Sprintf("%d bytes", v.Size)
	}
	return contentText(v.Hash, v.Size)
}

func contentText(hash string, size int64) string {
	const shown = 16
	return fmt.Sprintf("%d bytes, sha256 %s…", size, hash[:shown])
}
