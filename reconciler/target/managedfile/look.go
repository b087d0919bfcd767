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

// stamp tells one version of a file from another, as far as that can be told without
// reading it.
type stamp struct {
	Device       uint64
	Inode        uint64
	Kind         uint32 // S_IFREG and the like; 0: there is nothing
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

// kind says what there is.
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

// version is a file at a moment, with a hash of what it held.
type version struct {
	stamp
	Hash string // empty of what is no file, or larger than MaxSize
}

// versions are files as they were seen last, so that what has not changed is not read
// again. It is safe for concurrent use.
type versions struct {
	mu    sync.Mutex
	known map[Key]seenVersion
	made  map[Key]version // by operations: what the files are to be
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

// tick is longer than the clock stands still that file systems take their times from:
// within it a file may change twice and show it once.
const tick = 50 * time.Millisecond

// get returns what is known of a file that has a stamp at a time.
func (v *versions) get(key Key, is stamp, now time.Time) (version, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	known := v.known[key]
	return known.version, known.firm && known.stamp == is && now.Sub(known.at) < freshFor
}

// last returns what was seen last, and what an operation has made or found to be right.
func (v *versions) last(key Key) (seen, made version) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.known[key].version, v.made[key]
}

// noteMade remembers what an operation has made.
func (v *versions) noteMade(key Key, made version) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.made[key] = made
}

// note remembers a version that was there at a time.
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

// look returns what there is under a path. It follows no symbolic link, and reads only
// what has changed since it was read last.
func (t *Target) look(key Key, f *folder) (version, error) {
	return ask(t.answers, f, func(f *folder) (version, error) { return t.lookNow(key, f) })
}

func (t *Target) lookNow(key Key, f *folder) (version, error) {
	var stat unix.Stat_t
	name := path.Base(string(key))
	err := unix.Fstatat(f.fd, name, &stat, unix.AT_SYMLINK_NOFOLLOW)
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
		case errors.Is(err, unix.EAGAIN): // somebody has a lease on it, which may last as long as it is renewed
			return version{stamp: stampOf(&stat)}, nil
		}
		if err != nil {
			return version{}, fmt.Errorf("read file %s: %w", key, err)
		}
	}
	t.versions.note(key, is, time.Now())
	return is, nil
}

// read reads a file of at most MaxSize bytes. Of what is no file, or larger, it returns
// the stamp alone.
func read(f *folder, name string) ([]byte, version, error) {
	// O_NONBLOCK, because opening a pipe would wait for its writer.
	fd, err := unix.Openat(f.fd, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENXIO) {
		err = unix.ENOENT // it is something else by now: the next look tells
	}
	if err != nil {
		return nil, version{}, err
	}
	file := os.NewFile(uintptr(fd), name)
	defer func() { _ = file.Close() }() // nothing was written
	for tries := 1; ; tries++ {
		var before, after unix.Stat_t
		if err := unix.Fstat(fd, &before); err != nil {
			return nil, version{}, err
		}
		is := version{stamp: stampOf(&before)}
		if !is.regular() || is.Size > MaxSize {
			return nil, is, nil
		}
		data, err := io.ReadAll(io.NewSectionReader(file, 0, MaxSize+1))
		if err == nil {
			err = unix.Fstat(fd, &after)
		}
		if err != nil {
			return nil, version{}, cause(err)
		}
		const enough = 3 // it is written all the time: what was read is as good as anything
		if stampOf(&after) == is.stamp && int64(len(data)) == is.Size || tries == enough {
			is.Hash = hashOf(data)
			return data, is, nil
		}
	}
}

// cause takes the path out of an error that names it anyway.
func cause(err error) error {
	var wrapped *os.PathError
	if errors.As(err, &wrapped) {
		return wrapped.Err
	}
	return err
}

// describe says what there is, for people.
func (v version) describe() string {
	text := v.kind() + " of user " + strconv.FormatUint(uint64(v.Owner), 10)
	if v.regular() {
		text += ", mode " + v.Mode.String() + ", " + v.content()
	}
	return text
}

// content tells one content from another, without showing it: it may be a secret.
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
