package statedb

import (
	"slices"
	"time"

	"github.com/statehive/statehive/statedb/internal/window"
)

// changeLog is what a write transaction has changed, in the order of revisions.
type changeLog[Obj any] struct {
	records  []window.Record[entry[Obj]]
	replaced []*entry[Obj] // those that are no longer current
}

// wrote notes the entry of a new revision and the one whose place it took, if any.
func (l *changeLog[Obj]) wrote(e, old *entry[Obj]) {
	l.records = append(l.records, window.Record[entry[Obj]]{Row: e})
	if old != nil {
		l.replaced = append(l.replaced, old)
	}
}

// deleted notes the entry that a revision removed.
func (l *changeLog[Obj]) deleted(old *entry[Obj]) {
	l.records = append(l.records, window.Record[entry[Obj]]{Row: old, Deleted: true})
	l.replaced = append(l.replaced, old)
}

// maxSpareLog is for how many changes a table keeps memory between transactions.
const maxSpareLog = 1 << 11

// emptied returns the memory of the log for the next one, if that is not much.
func (l *changeLog[Obj]) emptied() changeLog[Obj] {
	if max(cap(l.records), cap(l.replaced)) > maxSpareLog {
		return changeLog[Obj]{}
	}
	clear(l.records)
	clear(l.replaced)
	return changeLog[Obj]{l.records[:0], l.replaced[:0]}
}

// minWindow is how many dead rows, and how many deletes, are kept for slow
// cursors of a small table; for those of a large one it is a quarter of its rows.
const minWindow = 1 << 14

// recordLocked adds the changes of a commit that leads to revision head to the
// window, or nothing when nobody follows, and stamps the entries in the window
// that the commit replaces. publishMu is held, and the commit will be published.
func (t *table[Obj]) recordLocked(log *changeLog[Obj], head Revision) window.Window[entry[Obj]] {
	t.followMu.Lock()
	defer t.followMu.Unlock()
	before := t.newest()
	if len(t.followers) == 0 {
		return before.changes.Skip(log.records)
	}
	bound := max(t.minWindow, before.trees[0].Len()/4)
	w := before.changes.Trim(window.Bounds{
		Passed:  t.slowestLocked(before.rev),
		Dead:    bound,
		Deletes: bound,
		Records: len(log.records),
	})
	t.noteFallenLocked(before.changes, w)
	w = w.Append(log.records, time.Now())
	for _, e := range log.replaced {
		if uint64(e.rev) > w.Base() { // otherwise nobody will ask
			e.dead.Store(uint64(head))
			w = w.Bury(uint64(e.rev))
		}
	}
	return w
}

// unfollow takes a cursor off the list and says whether it was the last one.
func (t *table[Obj]) unfollow(c *Cursor[Obj]) (last bool) {
	t.followMu.Lock()
	defer t.followMu.Unlock()
	_, following := t.followers[c]
	delete(t.followers, c)
	return following && len(t.followers) == 0
}

// forget empties the window of a table that nobody follows any more, so that
// it need not wait for a commit. Nobody notices: it has the same rows, revision
// and watch.
func (t *table[Obj]) forget() {
	db := t.lock.db
	db.publishMu.Lock()
	defer db.publishMu.Unlock()
	current := db.current.Load()
	v := t.committed(current)
	if v == nil || v.changes.Empty() || t.followed() {
		return
	}
	forgetful, next := *v, *current
	forgetful.changes = v.changes.Skip(nil)
	forgetful.makeTrees(len(v.trees)) // or else it would keep all of v
	copy(forgetful.trees, v.trees)
	next.versions = slices.Clone(current.versions)
	next.versions[t.lock.slot] = &forgetful
	db.current.Store(&next)
}

func (t *table[Obj]) followed() bool {
	t.followMu.Lock()
	defer t.followMu.Unlock()
	return len(t.followers) > 0
}

// slowestLocked is how far all cursors have come.
func (t *table[Obj]) slowestLocked(head Revision) uint64 {
	slowest := uint64(head)
	for c := range t.followers {
		slowest = min(slowest, c.passed.Load())
	}
	return slowest
}

// noteFallenLocked lets the cursors that a window does not reach any more know
// how late they are: only the one before tells.
func (t *table[Obj]) noteFallenLocked(before, now window.Window[entry[Obj]]) {
	if before.Base() == now.Base() {
		return
	}
	for c := range t.followers {
		if passed := c.passed.Load(); passed < now.Base() {
			if at, known := before.Committed(passed + 1); known {
				c.late.Store(&at)
			}
		}
	}
}

// current says whether e is the newest entry of its row in a version that holds
// it in its window.
func (e *entry[Obj]) current(v *version[Obj]) bool {
	dead := Revision(e.dead.Load())
	return dead == 0 || dead > v.rev
}
