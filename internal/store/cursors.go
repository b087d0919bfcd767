package store

import "github.com/statehive/statehive/internal/store/window"

// removeCursor removes a cursor and reports whether it was the last one.
func (t *Table) removeCursor(c *Cursor) (last bool) {
	t.changes.mu.Lock()
	defer t.changes.mu.Unlock()
	_, following := t.changes.cursors[c]
	delete(t.changes.cursors, c)
	return following && len(t.changes.cursors) == 0
}

// dropWindow drops the window of a table that no longer has any cursors, without waiting for
// the next commit. Readers see no difference: the rows, revision and watch stay the same.
func (t *Table) dropWindow() {
	t.db.publishMu.Lock()
	defer t.db.publishMu.Unlock()
	v := t.newest()
	if v == nil || v.changes == nil || t.followed() {
		return
	}
	lean := &version{of: t, rev: v.rev, deleted: v.deleted, sources: v.sources}
	lean.makeTrees(len(v.trees))
	copy(lean.trees, v.trees)
	watch := v.watch.channel()
	lean.watch.ch.Store(&watch) // closed by the transaction that replaces either version
	next := t.db.nextLocked(0)
	next.commit-- // the state is the same
	next.versions[t.slot] = lean
	t.db.current.Store(next)
}

func (t *Table) followed() bool {
	t.changes.mu.Lock()
	defer t.changes.mu.Unlock()
	return len(t.changes.cursors) > 0
}

// slowestLocked returns the revision that all cursors have passed.
func (t *Table) slowestLocked(head Revision) uint64 {
	slowest := uint64(head)
	for c := range t.changes.cursors {
		slowest = min(slowest, c.passed.Load())
	}
	return slowest
}

// recordLagLocked records, for each cursor whose first unseen change is no longer in the
// window, when that change was committed. Only the previous window has that time.
func (t *Table) recordLagLocked(before, now window.Window[Entry]) {
	if before.Base() == now.Base() {
		return
	}
	for c := range t.changes.cursors {
		if passed := c.passed.Load(); passed < now.Base() {
			if at, known := before.Committed(passed + 1); known {
				c.late.Store(&at)
			}
		}
	}
}

// current reports whether e is the newest entry of its row in a version that holds
// it in its window.
func (e *Entry) current(v *version) bool {
	dead := Revision(e.dead.Load())
	return dead == 0 || dead > v.rev
}

// SetMinWindow sets how many dead rows and deletes are kept for slow cursors of a small
// table, for tests. It must not be called while the table is written.
func (t *Table) SetMinWindow(changes int) { t.changes.minWindow = changes }
