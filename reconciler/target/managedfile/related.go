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

// renderings holds the last rendering of each row's template.
type renderings struct {
	mu      sync.Mutex
	byKey   map[Key]*rendering // renderings are immutable
	changed chan struct{}      // closed and replaced when an operation has changed byKey
}

func newRenderings() *renderings {
	return &renderings{byKey: map[Key]*rendering{}, changed: make(chan struct{})}
}

// note stores the rendering of an operation; nil if the row has no template.
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

// replace replaces an older rendering, unless an operation was quicker.
func (r *renderings) replace(key Key, last, next *rendering) (replaced bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byKey[key] != last {
		return false
	}
	r.byKey[key] = next
	return true
}

// all returns a copy, and a channel that is closed at the next change by an operation.
func (r *renderings) all() (map[Key]*rendering, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.byKey), r.changed
}

// quiet is how long the tables that templates read have to be unchanged before rendering; the
// wait is limited to ten times that.
const quiet = 100 * time.Millisecond

// longestPause limits the pause between renderings, which is ten times as long as the last
// round took.
const longestPause = 10 * time.Second

// pause waits, and reports whether ctx has not ended in the meantime.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// Related triggers updates of rows whose template has a new result because a table has changed,
// and of rows whose directory was created. It takes effect while [Target.FollowTables] and the
// [Watcher] run.
func (t *Target) Related() reconciler.Related[File] {
	return reconciler.Events(t.due, func(_ statedb.ReadTxn, key Key) iter.Seq[statedb.Query[File]] {
		return slices.Values([]statedb.Query[File]{ByKey.Query(key)})
	})
}

// announce triggers an update of a row.
func (t *Target) announce(ctx context.Context, key Key) {
	select {
	case t.due <- key:
	case <-ctx.Done():
	}
}

// hostnameInterval is how often to look whether the host name has changed.
const hostnameInterval = 10 * time.Second

// FollowTables renders templates again when a table that they have read or the host name
// changes, and triggers updates of the rows whose content is different then. It returns when ctx
// ends.
func (t *Target) FollowTables(ctx context.Context, health reconciler.Health) error {
	health.OK("templates are up to date")
	for ctx.Err() == nil {
		began := time.Now()
		watches := t.renderOld(ctx)
		took := time.Since(began)
		t.waitForChange(ctx, watches)
		if !pause(ctx, min(10*took, longestPause)) {
			break
		}
	}
	return nil
}

// waitForChange waits until a table or a host name that was read changes.
func (t *Target) waitForChange(ctx context.Context, watches *statedb.WatchSet) {
	for ctx.Err() == nil {
		wait, stop := context.WithTimeout(ctx, hostnameInterval)
		closed, _ := watches.Wait(wait, quiet)
		stop()
		if len(closed) > 0 || t.isRenamed() {
			return
		}
	}
}

// isRenamed reports whether a template was rendered with another host name.
func (t *Target) isRenamed() bool {
	host, _ := t.hostname() // the error is that of the rendering
	all, _ := t.renderings.all()
	for _, r := range all {
		if r.host != "" && r.host != host {
			return true
		}
	}
	return false
}

// renderOld renders the templates for which a table or the host name has changed, and returns
// what to watch for the next change of a table.
func (t *Target) renderOld(ctx context.Context) *statedb.WatchSet {
	last, changed := t.renderings.all()
	txn := t.db.ReadTxn()
	names := map[string]bool{}
	host, _ := t.hostname() // the error is that of the rendering
	for key, r := range last {
		if r.isOld(t.db, txn) || r.host != "" && r.host != host {
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

// isOld reports whether a template may have another result in a snapshot.
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

// renderAgain renders a template in a newer snapshot. If a table is incomplete, the last
// rendering stays.
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

// isLike reports whether two renderings have the same result.
func (r *rendering) isLike(other *rendering) bool {
	if r.err != nil || other.err != nil {
		return fmt.Sprint(r.err) == fmt.Sprint(other.err)
	}
	return r.hash == other.hash
}
