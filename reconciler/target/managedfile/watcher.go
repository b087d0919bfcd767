package managedfile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/target/mirror"
	"github.com/statehive/statehive/statedb"
)

const (
	// settle is how long events are collected, because most changes cause several.
	settle = 20 * time.Millisecond
	// checkInterval is how often to look for changes that the kernel does not report: a
	// directory was replaced because one above it was renamed, or something was mounted or
	// unmounted.
	checkInterval = time.Second
	// These limit how many are checked or looked at before events are handled again.
	checkedDirectories = 256
	checkedFiles       = 256
	lookedFiles        = 512
	// retryDelay is how long a watcher waits after a fault.
	retryDelay = time.Second
)

// Watcher maintains a table of [Seen]: what is at the paths of the declared files. While it
// runs it watches their directories; of a missing directory it watches the nearest one above.
type Watcher struct {
	target *Target
	db     *statedb.DB
	files  *statedb.Table[File]
	seen   *statedb.RWTable[Seen]
	source *statedb.Source
}

// NewWatcher returns a watcher, to be run once. Nobody else may write to seen.
func (t *Target) NewWatcher(db *statedb.DB, files *statedb.Table[File], seen *statedb.RWTable[Seen]) (*Watcher, error) {
	w := &Watcher{target: t, db: db, files: files, seen: seen}
	err := db.Update(context.Background(), func(txn *statedb.WriteTxn) (err error) {
		w.source, err = seen.RegisterSource(txn, "files")
		return err
	}, seen)
	return w, err
}

// Run maintains the table until ctx ends. It does not give up: faults are reported to health,
// and directories that cannot be watched are polled.
func (w *Watcher) Run(ctx context.Context, health reconciler.Health) error {
	for fault := w.follow(ctx, health); ctx.Err() == nil; fault = w.follow(ctx, health) {
		health.Degraded("changes of files by others are not noticed at once", fault)
		if err := w.incomplete(ctx, fault.Error()); err != nil {
			return err
		}
		if !pause(ctx, retryDelay) {
			break
		}
	}
	return nil
}

func (w *Watcher) incomplete(ctx context.Context, reason string) error {
	return w.db.Update(context.WithoutCancel(ctx), func(txn *statedb.WriteTxn) error {
		return w.source.Incomplete(txn, reason)
	}, w.seen)
}

// watching is one run of a watcher, which ends when no events can be received any more.
type watching struct {
	*Watcher
	notify   *notifier
	dirs     *directories
	dirty    map[Key]bool        // to be looked at
	moved    map[*directory]bool // may have moved; the value is whether the watch has ended
	cursor   *statedb.Cursor[File]
	accounts accounts
	complete bool   // the table was marked as complete
	told     string // the last report about directories that are not watched
}

// follow maintains the table until ctx ends or events cannot be received.
func (w *Watcher) follow(ctx context.Context, health reconciler.Health) error {
	notify, err := newNotifier()
	if err != nil {
		return explain("", err)
	}
	r := &watching{
		Watcher: w, notify: notify, dirs: newDirectories(notify, w.target.answers), dirty: map[Key]bool{}, moved: map[*directory]bool{},
		cursor: w.files.Changes(0), accounts: accountsIn(w.target.accounts),
	}
	defer r.cursor.Close()
	defer notify.close()
	if err := r.forgetUndeclared(ctx); err != nil {
		return err
	}
	check := time.NewTicker(checkInterval)
	defer check.Stop()
	for ctx.Err() == nil {
		if err := r.declared(ctx); err != nil {
			return err
		}
		r.watchMoved()
		if err := r.lookAtDirty(ctx, health); err != nil {
			return err
		}
		if err := r.wait(ctx, check.C); err != nil {
			return err
		}
	}
	return nil
}

// forgetUndeclared removes rows of files that are not declared, which an earlier run has left.
func (r *watching) forgetUndeclared(ctx context.Context) error {
	txn := r.db.ReadTxn()
	var gone []Seen
	for s := range r.seen.All(txn) {
		if _, _, found := r.files.Get(txn, ByKey.Query(Key(s.Path))); !found {
			gone = append(gone, s)
		}
	}
	return r.write(ctx, nil, gone)
}

// declared reads which files are declared.
func (r *watching) declared(ctx context.Context) error {
	var gone []Seen
	var fresh []*directory
	for change := range r.cursor.Next(r.db.ReadTxn()) {
		key := change.Object.Key()
		switch change.Kind {
		case statedb.Delete:
			r.dirs.remove(key)
			delete(r.dirty, key)
			gone = append(gone, Seen{Path: string(key)})
		case statedb.Reset:
			return errors.New("the table of files has changed too much at once") // it is read again from the start
		default:
			if r.dirs.has(key) {
				continue
			}
			if dir := r.dirs.add(key); dir != nil {
				fresh = append(fresh, dir)
			}
			r.dirty[key] = true
		}
	}
	if err := r.cursor.Err(); err != nil {
		return err
	}
	r.watch(slices.DeleteFunc(fresh, func(dir *directory) bool { return r.dirs.all[dir.path] != dir })...)
	return r.write(ctx, nil, gone)
}

// write writes rows to the table and removes others.
func (r *watching) write(ctx context.Context, put, gone []Seen) error {
	if len(put)+len(gone) == 0 {
		return nil
	}
	return r.db.Update(ctx, func(txn *statedb.WriteTxn) error { return mirror.Write(txn, r.seen, put, gone) }, r.seen)
}

// lookAtDirty looks at some of the files that may have changed, and calls tell when there are
// none left.
func (r *watching) lookAtDirty(ctx context.Context, health reconciler.Health) error {
	o := r.target.begin(nil)
	defer o.close()
	var keys []Key
	for key := range r.dirty {
		if len(keys) == lookedFiles {
			break
		}
		delete(r.dirty, key)
		keys = append(keys, key)
	}
	found := make([]version, len(keys))
	byDirectory(len(keys), func(i int) string { return dirOf(keys[i]) }, func(i int) {
		found[i] = r.lookAt(o, keys[i])
	})
	var put, gone []Seen
	for i, key := range keys {
		is := found[i]
		if is.exists() {
			put = append(put, seenOf(key, is))
		} else {
			gone = append(gone, Seen{Path: string(key)})
		}
		r.retry(ctx, key, is)
	}
	if err := r.write(ctx, put, gone); err != nil {
		return err
	}
	if len(r.dirty) > 0 {
		return nil
	}
	return r.tell(ctx, health)
}

// lookAt returns what is there. A file that the target may not write is not looked at. What cannot be looked at counts as absent, so that
// the row is updated, which reports why.
func (r *watching) lookAt(o *operation, key Key) version {
	if f, err := o.open(string(key)); err == nil {
		if is, err := r.target.look(key, f); err == nil || unanswered(err) {
			return is
		}
	}
	r.target.versions.note(key, version{}, time.Now())
	return version{}
}

// retry triggers an update of a row that is in error if its file has changed, since what was in
// the way may be gone.
func (r *watching) retry(ctx context.Context, key Key, is version) {
	txn := r.db.ReadTxn()
	before, _, _ := r.seen.Get(txn, SeenByKey.Query(key))
	row, _, found := r.files.Get(txn, ByKey.Query(key))
	if found && row.Status.Kind() == reconciler.Error && before.version != is {
		r.target.announce(ctx, key)
	}
}

// tell marks the table as complete once all files were looked at, and reports directories that
// are not watched, which are polled.
func (r *watching) tell(ctx context.Context, health reconciler.Health) error {
	if fault := r.dirs.fault(); fmt.Sprint(fault) != r.told {
		r.told = fmt.Sprint(fault)
		if fault != nil {
			health.Degraded("changes of some files by others are noticed late", fault)
		} else {
			health.OK("up to date")
		}
	}
	if r.complete {
		return nil
	}
	err := r.db.Update(ctx, func(txn *statedb.WriteTxn) error {
		return errors.Join(r.source.Initialized(txn), r.source.Complete(txn))
	}, r.seen)
	r.complete = err == nil
	return err
}

// wait returns when there is something to do.
func (r *watching) wait(ctx context.Context, check <-chan time.Time) error {
	patience := make(<-chan time.Time)
	if len(r.dirty) > 0 {
		over := make(chan time.Time)
		close(over)
		patience = over // take what is there, and go on
	}
	collecting := false
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-r.cursor.Watch():
			return nil
		case <-patience:
			return nil
		case <-check:
			r.check()
			r.checkAccounts(ctx)
			return nil
		case n := <-r.notify.events:
			r.happened(n)
		case err := <-r.notify.errors:
			if err := r.failed(ctx, err); err != nil {
				return err
			}
		}
		if len(r.dirty)+len(r.moved) > 0 && !collecting {
			collecting = true
			patience = time.After(settle)
		}
	}
}

// happened notes what to look at after a notification.
func (r *watching) happened(n notification) {
	if strings.HasPrefix(n.name, temporaryPrefix) {
		return
	}
	files, dirs := r.dirs.concerned(n)
	for _, key := range files {
		r.dirty[key] = true
	}
	for _, dir := range dirs {
		r.moved[dir] = r.moved[dir] || n.ended
	}
}

// watchMoved renews the watches of directories that have moved. It checks each of them once, however many notifications there were, because
// others can cause any number of them.
func (r *watching) watchMoved() {
	var again []*directory
	for dir, ended := range r.moved {
		// The watch of a directory ends with it. A directory made since then may have the same
		// inode number.
		if r.dirs.all[dir.path] == dir && (ended || r.dirs.changed(dir)) {
			again = append(again, dir)
		}
	}
	clear(r.moved)
	r.watch(again...)
}

// watch watches directories, and marks all files of which changes may have been missed.
func (r *watching) watch(dirs ...*directory) {
	for _, missed := range r.dirs.watch(dirs...) {
		for _, key := range missed.keys() {
			r.dirty[key] = true
		}
	}
}

// failed handles an error of receiving events.
func (r *watching) failed(ctx context.Context, err error) error {
	if !errors.Is(err, errLost) {
		return fmt.Errorf("receive notifications: %w", err)
	}
	for _, dir := range r.dirs.all {
		for _, key := range dir.keys() {
			r.dirty[key] = true
		}
	}
	r.complete = false
	return r.incomplete(ctx, "notifications of the kernel were lost, and everything is about to be looked at again")
}

// check looks whether some of the directories are still the same, and marks files of those that
// are not watched. It also marks files that have changed without a notification, such as through
// another hard link.
func (r *watching) check() {
	dirs, files := r.dirs.turn(checkedDirectories), r.dirs.turnOfFiles(checkedFiles)
	changed := make([]bool, len(dirs))
	byDirectory(len(dirs), func(i int) *directory { return dirs[i] }, func(i int) {
		changed[i] = dirs[i].err != nil || dirs[i].at == "" || r.dirs.changed(dirs[i])
	})
	var again []*directory
	for i, dir := range dirs {
		if changed[i] {
			again = append(again, dir)
		}
	}
	r.watch(again...)
	o, txn := r.target.begin(nil), r.db.ReadTxn()
	defer o.close()
	differs := make([]bool, len(files))
	byDirectory(len(files), func(i int) string { return dirOf(files[i]) }, func(i int) {
		key := files[i]
		f, err := o.open(string(key))
		if err != nil {
			return // what becomes of a directory is noticed above
		}
		is, err := r.target.lookAtName(f, string(key))
		seen, _, _ := r.seen.Get(txn, SeenByKey.Query(key))
		differs[i] = !unanswered(err) && seen.version.stamp != is && r.dirs.has(key) // what cannot be looked at has no stamp
	})
	for i, key := range files {
		if differs[i] {
			r.dirty[key] = true
		}
	}
}

// checkAccounts triggers updates of the files whose owner or group has another ID after users or
// groups have changed.
func (r *watching) checkAccounts(ctx context.Context) {
	now := accountsIn(r.target.accounts)
	if now == r.accounts {
		return
	}
	r.accounts = now
	o := newOwners()
	for row := range r.files.All(r.db.ReadTxn()) {
		owner, err := o.user(row.Owner)
		group, err2 := o.group(row.Group)
		_, made := r.target.versions.last(row.Key())
		if made.exists() && (err != nil || err2 != nil || made.Owner != owner || made.Group != group) {
			r.target.announce(ctx, row.Key())
		}
	}
}
