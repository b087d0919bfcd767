package managedfile

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/statedb"
)

// renderings are the templates of rows as they were rendered last.
type renderings struct {
	mu      sync.Mutex
	byKey   map[Key]*rendering // they do not change
	changed chan struct{}      // closed and replaced when an operation has changed byKey
}

func newRenderings() *renderings {
	return &renderings{byKey: map[Key]*rendering{}, changed: make(chan struct{})}
}

// note is for operations: last is what one has rendered, nil if the row has no template.
func (r *renderings) note(key Key, last *rendering) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if last == nil {
		if _, known := r.byKey[key]; !known {
			return
		}
		delete(r.byKey, key)
	} else {
		r.byKey[key] = last
	}
	close(r.changed)
	r.changed = make(chan struct{})
}

// replace puts a rendering into the place of an older one, unless an operation was quicker.
func (r *renderings) replace(key Key, last, next *rendering) (replaced bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byKey[key] != last {
		return false
	}
	r.byKey[key] = next
	return true
}

// all returns a copy, and what is closed when operations have rendered more.
func (r *renderings) all() (map[Key]*rendering, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.byKey), r.changed
}

// quiet is how long the tables that templates read have to stay as they are, though
// not for longer than ten times that.
const quiet = 100 * time.Millisecond

// longestPause is how long templates are not rendered again at most: ten times as long
// as it took for all that had to be the last time.
const longestPause = 10 * time.Second

// pause waits, and reports whether ctx has not ended meanwhile.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// Related has rows updated whose template comes to something else, because a table has
// changed that it reads, and rows whose directory was made. It takes effect while
// [Target.FollowTables] and the [Watcher] run.
func (t *Target) Related() reconciler.Related[File] {
	return reconciler.Events(t.due, func(_ statedb.ReadTxn, key Key) iter.Seq[statedb.Query[File]] {
		return slices.Values([]statedb.Query[File]{ByKey.Query(key)})
	})
}

// announce has a row updated.
func (t *Target) announce(ctx context.Context, key Key) {
	select {
	case t.due <- key:
	case <-ctx.Done():
	}
}

// FollowTables renders templates again when a table changes that they have read, until
// ctx ends, and has those rows updated whose content is another one then.
func (t *Target) FollowTables(ctx context.Context, health reconciler.Health) error {
	health.OK("templates are up to date")
	for ctx.Err() == nil {
		began := time.Now()
		watches := t.renderOld(ctx)
		took := time.Since(began)
		_, ended := watches.Wait(ctx, quiet)
		if ended != nil || !pause(ctx, min(10*took, longestPause)) {
			break
		}
	}
	return nil //nolint:nilerr // that ctx ends is no error
}

// renderOld renders what may come to something else by now, and returns what to wait for
// until that is so again.
func (t *Target) renderOld(ctx context.Context) *statedb.WatchSet {
	last, changed := t.renderings.all()
	txn := t.db.ReadTxn()
	names := map[string]bool{}
	for key, r := range last {
		if r.isOld(t.db, txn) {
			r = t.renderAgain(ctx, txn, key, r)
		}
		for name := range r.used {
			names[name] = true
		}
	}
	watches := &statedb.WatchSet{}
	watches.Add(changed)
	for name := range names {
		if table, err := t.db.Table(txn, name); err == nil {
			watches.Add(table.Watch(txn))
		}
	}
	return watches
}

// isOld reports whether a template may come to something else in a snapshot.
func (r *rendering) isOld(db *statedb.DB, txn statedb.ReadTxn) bool {
	if r.err != nil || r.lacks != nil {
		return true
	}
	for name, revision := range r.used {
		table, err := db.Table(txn, name)
		if err != nil || table.Revision(txn) != revision {
			return true
		}
	}
	return false
}

// renderAgain renders a template in a newer snapshot. That a table is incomplete for the
// moment changes nothing.
func (t *Target) renderAgain(ctx context.Context, txn statedb.ReadTxn, key Key, last *rendering) *rendering {
	next, _ := t.render(ctx, txn, last.text)
	if next.lacks != nil {
		next.err, next.hash = last.err, last.hash
	}
	if ctx.Err() == nil && t.renderings.replace(key, last, next) && !next.isLike(last) {
		t.announce(ctx, key)
	}
	return next
}

// isLike reports whether two renderings have come to the same.
func (r *rendering) isLike(other *rendering) bool {
	if r.err != nil || other.err != nil {
		return fmt.Sprint(r.err) == fmt.Sprint(other.err)
	}
	return r.hash == other.hash
}
