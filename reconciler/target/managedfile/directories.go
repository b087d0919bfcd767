package managedfile

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"

	"github.com/fsnotify/fsnotify"
	"golang.org/x/sys/unix"
)

// directory is a directory of declared files.
type directory struct {
	path  string          // as in the rows
	files map[string]bool // names of the declared files
	// at is the watched directory without symbolic links: this one, or its nearest existing
	// ancestor. Empty if none is watched.
	at   string
	next string      // if at is an ancestor, the missing name in it
	info os.FileInfo // of at
	err  error       // why it is not watched
}

// directories are the directories of the declared files, with their watches. They belong to one
// goroutine.
type directories struct {
	notify  *fsnotify.Watcher
	answers *answers
	all     map[string]*directory
	at      map[string][]*directory // by the watched directory
	unsure  []string                // paths still to be checked in this turn
	files   []Key                   // files still to be checked in this turn
}

func newDirectories(notify *fsnotify.Watcher, a *answers) *directories {
	return &directories{notify: notify, answers: a, all: map[string]*directory{}, at: map[string][]*directory{}}
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
	rest := slices.DeleteFunc(d.at[dir.at], func(other *directory) bool { return other == dir })
	if len(rest) > 0 {
		d.at[dir.at] = rest
	} else if dir.at != "" {
		delete(d.at, dir.at)
		_ = d.notify.Remove(dir.at) // the kernel may have ended it by itself
	}
	dir.at, dir.next, dir.info = "", "", nil
}

// watch starts or renews the watch of a directory. Changes made after watch returns are
// noticed, unless dir.err is set. It returns the directories of which changes may have been
// missed: this one, and those that shared its watch.
func (d *directories) watch(dir *directory) (missed []*directory) {
	missed = []*directory{dir}
	for _, other := range d.at[dir.at] {
		if other != dir {
			missed = append(missed, other)
		}
	}
	for _, each := range missed {
		d.release(each) // the watched directory may have been renamed
	}
	for _, each := range missed {
		d.watchOne(each)
	}
	return missed
}

func (d *directories) watchOne(dir *directory) {
	found, err := d.find(dir.path)
	if err != nil {
		dir.err = explain(dir.path, err)
		return
	}
	at, next := found.at, found.next
	err = d.notify.Add(at)
	info, statErr := os.Stat(at)
	if err = errors.Join(err, statErr); err != nil {
		dir.err = explain(dir.path, err)
		if len(d.at[at]) == 0 {
			_ = d.notify.Remove(at) // it may not be watched
		}
		return
	}
	dir.at, dir.next, dir.info, dir.err = at, next, info, nil
	d.at[at] = append(d.at[at], dir)
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

// nearest returns the path of a directory without symbolic links; or that of its nearest
// ancestor that can be opened, and the missing name in it.
func nearest(dir string) (at, next string) {
	for dir != "/" {
		if f, err := openFolder(dir); err == nil {
			_ = f.close() // nothing was written to it
			return f.path, next
		}
		dir, next = path.Dir(dir), path.Base(dir)
	}
	return dir, next
}

// exists reports whether the directory itself is watched, and not an ancestor.
func (dir *directory) exists() bool { return dir.next == "" }

// changed reports whether the watched directory was replaced, or a nearer one exists now. A
// directory that does not respond has changed.
func (d *directories) changed(dir *directory) bool {
	found, err := d.find(dir.path)
	return err != nil || found.at != dir.at || found.next != dir.next || found.info == nil || !os.SameFile(found.info, dir.info)
}

// watchPoint is where to watch a directory: see nearest.
type watchPoint struct {
	at, next string
	info     os.FileInfo // of at; nil if it is gone
}

// find returns where to watch a directory, or an error if it does not respond.
func (d *directories) find(dir string) (watchPoint, error) {
	if err := d.answers.check(dir); err != nil {
		return watchPoint{}, err
	}
	return within(d.answers, d.answers.patience, dir, func() (p watchPoint, err error) {
		p.at, p.next = nearest(dir)
		if info, err := os.Stat(p.at); err == nil {
			p.info = info
		}
		return p, nil
	}, nil)
}

// concerned returns the declared files that an event is about, and the directories that may
// have been replaced.
func (d *directories) concerned(name string) (files []Key, dirs []*directory) {
	for _, dir := range d.at[path.Dir(name)] {
		switch base := path.Base(name); {
		case dir.exists() && dir.files[base]:
			files = append(files, Key(path.Join(dir.path, base)))
		case dir.next == base:
			dirs = append(dirs, dir)
		}
	}
	return files, append(dirs, d.at[name]...)
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
