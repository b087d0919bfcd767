package managedfile

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// directory is a directory of declared files.
type directory struct {
	path  string          // as in the rows
	files map[string]bool // names of the declared files
	watchPoint
	err error // why it is not watched
}

// watchPoint is where a directory is watched.
type watchPoint struct {
	// at is the watched directory without symbolic links: this one, or its nearest existing
	// ancestor. Empty if none is watched.
	at     string
	next   string // if at is an ancestor, the missing name in it
	device uint64 // of at
	inode  uint64 // of at
	watch  int32
}

// directories are the directories of the declared files, with their watches. They belong to one
// goroutine.
type directories struct {
	notify  *notifier
	answers *answers
	all     map[string]*directory
	watched map[int32]map[*directory]bool
	unsure  []string // paths still to be checked in this turn
	files   []Key    // files still to be checked in this turn
}

func newDirectories(notify *notifier, a *answers) *directories {
	return &directories{notify: notify, answers: a, all: map[string]*directory{}, watched: map[int32]map[*directory]bool{}}
}

// add declares a file, and returns its directory if it is new.
func (d *directories) add(key Key) (fresh *directory) {
	name := path.Dir(string(key))
	dir, known := d.all[name]
	if !known {
		dir = &directory{path: name, files: map[string]bool{}}
		d.all[name] = dir
		fresh = dir
	}
	dir.files[path.Base(string(key))] = true
	return fresh
}

// has reports whether a file is declared.
func (d *directories) has(key Key) bool {
	dir, known := d.all[dirOf(key)]
	return known && dir.files[baseOf(key)]
}

// remove removes a file that is no longer declared.
func (d *directories) remove(key Key) {
	dir, known := d.all[path.Dir(string(key))]
	if !known {
		return
	}
	delete(dir.files, path.Base(string(key)))
	if len(dir.files) == 0 {
		d.release(dir)
		delete(d.all, dir.path)
	}
}

// release ends the watch of a directory, unless another directory shares it.
func (d *directories) release(dir *directory) {
	if delete(d.watched[dir.watch], dir); len(d.watched[dir.watch]) == 0 && dir.at != "" {
		delete(d.watched, dir.watch)
		d.notify.remove(dir.watch)
	}
	dir.watchPoint = watchPoint{}
}

// watch starts or renews the watches of directories. Changes made after watch returns are
// noticed, unless their err is set. It returns the directories of which changes may have been
// missed: these, and those that shared their watches.
func (d *directories) watch(dirs ...*directory) (missed []*directory) {
	shared := map[int32]bool{}
	for _, dir := range dirs {
		missed = append(missed, dir)
		if !shared[dir.watch] {
			shared[dir.watch] = true
			missed = slices.AppendSeq(missed, maps.Keys(d.watched[dir.watch]))
		}
	}
	slices.SortFunc(missed, func(a, b *directory) int { return strings.Compare(a.path, b.path) })
	missed = slices.Compact(missed)
	for _, each := range missed {
		d.release(each) // the watched directory may have been renamed
	}
	found, errs := make([]watchPoint, len(missed)), make([]error, len(missed))
	byDirectory(len(missed), func(i int) *directory { return missed[i] }, func(i int) {
		found[i], errs[i] = d.find(missed[i].path, d.notify.add)
	})
	for i, dir := range missed {
		if dir.err = nil; errs[i] != nil {
			dir.err = explain(dir.path, errs[i])
			continue
		}
		dir.watchPoint = found[i]
		if d.watched[dir.watch] == nil {
			d.watched[dir.watch] = map[*directory]bool{}
		}
		d.watched[dir.watch][dir] = true
	}
	return missed
}

// explain adds advice to the error of a directory that cannot be watched.
func explain(dir string, err error) error {
	switch {
	case errors.Is(err, unix.ENOSPC):
		return fmt.Errorf("directory %s is not watched: the user's watches are used up: raise the sysctl fs.inotify.max_user_watches: %w", dir, err)
	case errors.Is(err, unix.EMFILE):
		return fmt.Errorf("no directory is watched: the user's watchers are used up: raise the sysctl fs.inotify.max_user_instances: %w", err)
	}
	return fmt.Errorf("directory %s is not watched: %w", dir, err)
}

// nearest opens a directory; or its nearest ancestor that can be opened, and returns the missing
// name in it.
func nearest(dir string) (f *folder, next string, err error) {
	for {
		if f, err = openFolder(dir); err == nil || dir == "/" {
			return f, next, err
		}
		dir, next = path.Dir(dir), path.Base(dir)
	}
}

// exists reports whether the directory itself is watched, and not an ancestor.
func (dir *directory) exists() bool { return dir.next == "" }

// changed reports whether the watched directory was replaced, or a nearer one exists now. A
// directory that does not respond has changed. It is safe for concurrent use.
func (d *directories) changed(dir *directory) bool {
	found, err := d.find(dir.path, func(int) (int32, error) { return dir.watch, nil })
	return err != nil || found != dir.watchPoint
}

// find returns where to watch a directory, or an error if it does not respond. It calls watch with
// the descriptor of what is to be watched.
func (d *directories) find(dir string, watch func(fd int) (int32, error)) (watchPoint, error) {
	if err := d.answers.check(dir); err != nil {
		return watchPoint{}, err
	}
	return within(d.answers, d.answers.patience, dir, func() (watchPoint, error) {
		f, next, err := nearest(dir)
		if err != nil {
			return watchPoint{}, err
		}
		defer func() { _ = f.close() }() // nothing was written to it
		var stat unix.Stat_t
		if err := unix.Fstat(f.fd, &stat); err != nil {
			return watchPoint{}, err
		}
		number, err := watch(f.fd)
		return watchPoint{f.path, next, stat.Dev, stat.Ino, number}, err
	}, nil) // a watch that was added too late stays, and is found again
}

// concerned returns the declared files that a notification is about, and the directories that may
// have been replaced.
func (d *directories) concerned(n notification) (files []Key, dirs []*directory) {
	if n.name == "" {
		return nil, slices.Collect(maps.Keys(d.watched[n.watch]))
	}
	for dir := range d.watched[n.watch] {
		switch {
		case dir.exists() && dir.files[n.name]:
			files = append(files, Key(path.Join(dir.path, n.name)))
		case dir.next == n.name:
			dirs = append(dirs, dir)
		}
	}
	return files, dirs
}

// keys returns the declared files of a directory.
func (dir *directory) keys() []Key {
	keys := make([]Key, 0, len(dir.files))
	for name := range dir.files {
		keys = append(keys, Key(path.Join(dir.path, name)))
	}
	return keys
}

// turn returns the next n directories to check; all of them get their turn.
func (d *directories) turn(n int) (dirs []*directory) {
	if len(d.unsure) == 0 {
		d.unsure = slices.Collect(maps.Keys(d.all))
	}
	n = min(n, len(d.unsure))
	for _, name := range d.unsure[:n] {
		if dir, known := d.all[name]; known {
			dirs = append(dirs, dir)
		}
	}
	d.unsure = d.unsure[n:]
	return dirs
}

// turnOfFiles returns the next n files to check; all of them get their turn.
func (d *directories) turnOfFiles(n int) []Key {
	if len(d.files) == 0 {
		for _, dir := range d.all {
			d.files = append(d.files, dir.keys()...)
		}
	}
	n = min(n, len(d.files))
	next := d.files[:n]
	d.files = d.files[n:]
	return next
}

// fault returns an error if a directory is not watched.
func (d *directories) fault() error {
	var first error
	count := 0
	for _, dir := range d.all {
		if dir.err != nil {
			count++
			if first == nil || dir.err.Error() < first.Error() {
				first = dir.err
			}
		}
	}
	if count > 1 {
		return fmt.Errorf("%w (and %d more)", first, count-1)
	}
	return first
}
