package file

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
)

// interest is the set of directory entries to watch: all entries of some directories,
// and single entries of others.
type interest struct {
	dirs    []string
	entries map[string]bool
}

// interestOf returns the entries that determine the files of the directory dir and their contents. What a link out of the
// directory leads to is not read, so it is not of interest either: it may change all the time, as /dev does.
func interestOf(dir string, files []string) interest {
	within, entries := trail(dir)
	in := interest{dirs: []string{within}, entries: map[string]bool{}}
	for _, path := range files {
		if info, err := os.Lstat(path); err == nil && info.Mode()&os.ModeSymlink != 0 {
			if end, more := trail(path); strings.HasPrefix(end, strings.TrimSuffix(within, "/")+"/") {
				entries = append(entries, more...)
			}
		}
	}
	for _, e := range entries {
		in.entries[e] = true
	}
	return in
}

// directories returns the existing directories to watch.
func (in interest) directories() map[string]os.FileInfo {
	found := map[string]os.FileInfo{}
	add := func(dir string) {
		if info, err := os.Stat(dir); err == nil && info.IsDir() {
			found[dir] = info
		}
	}
	for _, dir := range in.dirs {
		add(dir)
	}
	for e := range in.entries {
		add(filepath.Dir(e))
	}
	return found
}

// concerns reports whether an event on path is of interest.
func (in interest) concerns(path string) bool {
	return in.entries[path] || slices.Contains(in.dirs, path) || slices.Contains(in.dirs, filepath.Dir(path))
}

// watcher is notified of changes to the entries of interest. It belongs to one goroutine.
type watcher struct {
	in        interest
	watched   map[string]os.FileInfo
	notify    *fsnotify.Watcher // nil if the kernel could not provide one
	wake      <-chan struct{}   // ends a wait immediately
	directory *responder        // the directory of documents
	writes    map[string]bool   // paths of files whose writing was reported
}

// written returns the paths of files for which writes were reported since the last call.
func (w *watcher) written() map[string]bool {
	writes := w.writes
	w.writes = nil
	return writes
}

// note records that a file was written.
func (w *watcher) note(e fsnotify.Event) {
	if !e.Has(fsnotify.Write) {
		return
	}
	if w.writes == nil {
		w.writes = map[string]bool{}
	}
	w.writes[e.Name] = true
}

func (w *watcher) close() error {
	if w.notify == nil {
		return nil
	}
	return w.notify.Close()
}

// follow sets the entries of interest. Changes after it returns are noticed. If it
// returns an error, some of them may not be. If renewed is true, changes before it
// returned may have been missed.
func (w *watcher) follow(in interest) (renewed bool, err error) {
	wanted := in.directories()
	w.in = in
	if w.notify != nil && len(w.notify.WatchList()) == len(wanted) && maps.EqualFunc(wanted, w.watched, os.SameFile) {
		return false, nil
	}
	// A watch stays with the directory that existed when the watch was made, even if
	// another directory has its name now. So all watches are made anew.
	notify, err := fsnotify.NewWatcher()
	if err != nil {
		return false, fmt.Errorf("watch for changes: %w", err)
	}
	var errs []error
	for dir := range wanted {
		if err := notify.Add(dir); err != nil {
			errs = append(errs, fmt.Errorf("watch %s for changes: %w", dir, err))
		}
	}
	errs = append(errs, w.close())
	w.notify, w.watched = notify, wanted
	return true, errors.Join(errs...)
}

// wait returns when an entry of interest has changed and then nothing has changed for
// quiet, or changes have gone on for ten times quiet. It also returns when limit has
// passed, when ctx is done, or when wake is signaled.
func (w *watcher) wait(ctx context.Context, quiet, limit time.Duration) {
	latest := time.NewTimer(limit)
	defer latest.Stop()
	mounts := time.NewTicker(mountCheck)
	defer mounts.Stop()
	for what := ticked; what != happened; {
		what = w.next(ctx, latest.C, mounts.C)
		if what == ended || what == ticked && w.replaced(ctx) {
			return
		}
	}
	latest.Reset(min(limit, 10*quiet))
	calm := time.NewTimer(quiet)
	defer calm.Stop()
	for w.next(ctx, latest.C, calm.C) == happened {
		calm.Reset(quiet)
	}
}

// mountCheck is the interval of checks for changes that the kernel does not report: a watched
// directory was replaced by a mount or an unmount.
const mountCheck = time.Second

// replaced reports whether a watched directory has been replaced by another one, or does not
// respond.
func (w *watcher) replaced(ctx context.Context) bool {
	watched, replaced := w.watched, false
	responds := w.directory.responds(ctx, func() {
		for dir, before := range watched {
			now, err := os.Stat(dir)
			replaced = replaced || err != nil || !os.SameFile(before, now)
		}
	})
	return !responds || replaced
}

// news is the reason why a wait for the next event ended.
type news int

const (
	ended    news = iota // the whole wait is over
	ticked               // time has passed
	happened             // an entry of interest has changed, or events were lost
)

func (w *watcher) next(ctx context.Context, end, tick <-chan time.Time) news {
	var events chan fsnotify.Event
	var failures chan error
	if w.notify != nil {
		events, failures = w.notify.Events, w.notify.Errors
	}
	for {
		select {
		case <-ctx.Done():
			return ended
		case <-end:
			return ended
		case <-w.wake:
			return ended
		case <-tick:
			return ticked
		case e := <-events:
			if w.in.concerns(e.Name) {
				w.note(e)
				return happened
			}
		case err := <-failures: // events were lost or cannot be read, so scan
			if err == nil {
				return ended
			}
			return happened
		}
	}
}
