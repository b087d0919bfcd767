package hold

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/statehive/statehive/internal/store"
)

// ErrCycle is returned by New of package reconciler when a table depends on itself through other
// tables of the group.
var ErrCycle = errors.New("tables depend on each other in a cycle")

// Group connects the reconcilers of a process ([Params].Group). It finds cycles of
// dependencies, and makes sure that dependents are deleted first: the Delete of a row waits
// while a reconciler of the group that depends on the row's table ([DependsOn]) still has to
// delete a row that names it, even if both were removed in the same commit. It does not wait
// for reconcilers that have not started, that are waiting for their sources, or that stopped more than
// five minutes ago, nor for rows of its own table that wait for it in turn, and never for
// longer than five minutes. (The reconcilers of a process stop one after the other: the last ones must not
// delete what the rows of the first still need.) The delete of an orphan also waits until the other reconcilers
// have searched for theirs. The limit does not apply while the other reconciler has deletes that are paused
// or need an approval, even after it has stopped: deleting what those rows depend on would delete them, too.
// Nor does it apply, to any delete, while a source of the other reconciler is incomplete and it has not searched for
// orphans yet: rows that the source has not delivered may depend on what is deleted.
//
// The zero value is an empty group. It is safe for concurrent use.
type Group struct {
	mu      sync.Mutex
	members []*Member
}

// Member is a reconciler in a [Group]. A nil Member is in no group. It is safe for concurrent
// use.
type Member struct {
	group   *Group
	table   *store.Table
	on      []Dependency
	depends []*store.Table // of on
	wake    func()

	// Guarded by group.mu.
	active     bool           // it is running, and its sources are initialized
	left       time.Time      // when it stopped for good; zero: it has not
	searched   bool           // it knows its orphans
	knew       bool           // it has known its orphans since it joined
	recalled   bool           // it does not, and some of their deletes are held
	incomplete bool           // rows may be missing in its table
	missed     bool           // that was so since it last knew its orphans
	blocked    bool           // some of its deletes wait for deletes of other members, or for its own
	unread     bool           // some of its deletes wait for changes to be read
	read       store.Revision // it has read its table's changes up to here
	deletes    deleteSet      // the rows that it has to delete
	// parked are the rows that it must not delete until they are resumed or approved, and those whose
	// deletes wait for such rows, by encoded key.
	parked map[string]bool
	// awaiting are the rows whose deletes wait for a pending row, or for such deletes, by encoded key.
	awaiting map[string]bool
}

// Join adds a reconciler to a group. If g is nil, the reconciler is in no group, or in a group of
// its own if its table depends on itself. Join returns [ErrCycle] if the dependencies form a
// cycle. Wake is called when held deletes may be able to run; it must not block.
func Join(g *Group, table *store.Table, on []Dependency, wake func()) (*Member, error) {
	m := &Member{
		group: g, table: table, on: on, wake: wake, deletes: newDeleteSet(table), parked: map[string]bool{}, awaiting: map[string]bool{},
	}
	for _, d := range on {
		m.depends = append(m.depends, d.Table)
	}
	if g == nil {
		if !slices.Contains(m.depends, table) {
			return nil, nil
		}
		g = new(Group)
		m.group = g
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.members = slices.DeleteFunc(g.members, func(other *Member) bool {
		return !other.left.IsZero() && (isAgain(other.table, table) || other.isGoneLocked() && len(other.parked) == 0 && !other.recalled)
	})
	g.members = append(g.members, m)
	if path := g.pathLocked(table, table, nil); path != nil {
		g.members = g.members[:len(g.members)-1]
		return nil, fmt.Errorf("%w: %s", ErrCycle, strings.Join(append([]string{table.Name()}, path...), " -> "))
	}
	return m, nil
}

// isAgain reports whether table is before, or what was made in its place after before was dropped.
func isAgain(before, table *store.Table) bool {
	return before.DB() == table.DB() && before.Name() == table.Name()
}

// pathLocked returns the names of the tables on a path of dependencies, or nil if there is none.
// The dependency of a table on itself is not part of a path.
func (g *Group) pathLocked(from, to *store.Table, seen []*store.Table) []string {
	if slices.Contains(seen, from) {
		return nil
	}
	seen = append(seen, from)
	for _, m := range g.members {
		if m.table != from || !m.left.IsZero() {
			continue
		}
		for _, next := range m.depends {
			if next == from {
				continue
			}
			if next == to {
				return []string{to.Name()}
			}
			if path := g.pathLocked(next, to, seen); path != nil {
				return append([]string{next.Name()}, path...)
			}
		}
	}
	return nil
}

// dependentsLocked returns the members that depend on m and are active, were so until lately, or have parked deletes.
func (g *Group) dependentsLocked(m *Member) (dependents []*Member) {
	for _, other := range g.members {
		if (other.active && !other.isGoneLocked() || len(other.parked) > 0) && slices.Contains(other.depends, m.table) {
			dependents = append(dependents, other)
		}
	}
	return dependents
}

// Leave records that m has stopped. Others go on waiting for its deletes for MaxOrderDelay, and for those that are parked, known or
// not, until another reconciler of the table joins.
func (m *Member) Leave() {
	if m == nil {
		return
	}
	m.group.mu.Lock()
	defer m.group.mu.Unlock()
	if m.left.IsZero() {
		m.left = time.Now()
	}
}

// isGoneLocked reports whether m stopped so long ago that the process is not about to stop.
func (m *Member) isGoneLocked() bool { return !m.left.IsZero() && time.Since(m.left) >= MaxOrderDelay }

// SetRead records that m has read the changes of its table up to a revision.
func (m *Member) SetRead(rev store.Revision) {
	if m == nil {
		return
	}
	m.group.mu.Lock()
	defer m.group.mu.Unlock()
	if m.read != rev {
		m.read = rev
		m.wakeLocked(func(other *Member) bool { return other.unread })
	}
}

// SetActive sets whether other members have to wait for m.
func (m *Member) SetActive(active bool) {
	if m == nil {
		return
	}
	m.group.mu.Lock()
	defer m.group.mu.Unlock()
	if m.active != active {
		m.active = active
		m.wakeLocked(func(other *Member) bool { return other.blocked || other.unread })
	}
}

// wakeLocked wakes the members that m depends on and that may be waiting for it.
func (m *Member) wakeLocked(waiting func(*Member) bool) {
	for _, other := range m.group.members {
		if waiting(other) && slices.Contains(m.depends, other.table) {
			other.blocked, other.unread = false, false
			other.wake()
		}
	}
}

// deletesChangedLocked wakes the members that may be waiting for a delete of m.
func (m *Member) deletesChangedLocked() {
	m.wakeLocked(func(other *Member) bool { return other.blocked })
}

// SetSearched records that m knows its orphans, so that other members may delete theirs.
func (m *Member) SetSearched() {
	if m == nil {
		return
	}
	m.group.mu.Lock()
	defer m.group.mu.Unlock()
	if !m.searched {
		m.searched, m.knew, m.recalled, m.missed = true, true, false, m.incomplete
		m.wakeLocked(func(other *Member) bool { return other.unread })
	}
}

// SetUnsearched records that m does not know its orphans, and whether the deletes of some are held: then nothing that they may
// depend on is deleted.
func (m *Member) SetUnsearched(held bool) {
	if m == nil {
		return
	}
	m.group.mu.Lock()
	defer m.group.mu.Unlock()
	m.searched, m.recalled = false, held
}

// SetIncomplete sets whether rows may be missing in the table of m. If they were, what seems to be orphaned may still be declared, so
// nothing that it may depend on is deleted until its orphans are known.
func (m *Member) SetIncomplete(incomplete bool) {
	if m == nil {
		return
	}
	m.group.mu.Lock()
	defer m.group.mu.Unlock()
	if m.incomplete != incomplete {
		m.incomplete, m.missed = incomplete, m.missed || incomplete
		m.wakeLocked(func(other *Member) bool { return other.unread })
	}
}

// keepsLocked reports whether nothing may be deleted from a table that rows of m may depend on until its orphans are known.
func (m *Member) keepsLocked(table *store.Table) bool {
	return m.recalled || m.missed && !m.isGoneLocked() && m.loses(table)
}

// loses reports whether the target loses rows of m with those of a table that they depend on.
func (m *Member) loses(table *store.Table) bool {
	return slices.ContainsFunc(m.on, func(d Dependency) bool { return d.Table == table && !d.Kept })
}

// notSearchedLocked returns a member that depends on m and whose orphans, which are not known, have to be deleted before a row
// of m, which may be an orphan itself, or nil. Just after a start, any delete waits: the orphans may be too many to be deleted.
func (m *Member) notSearchedLocked(orphan bool) *Member {
	for _, other := range m.group.members {
		first := other.active && !other.knew && other.loses(m.table)
		waits := (orphan || first) && !other.isGoneLocked() || other.keepsLocked(m.table)
		if other != m && !other.searched && waits && slices.Contains(other.depends, m.table) {
			return other
		}
	}
	return nil
}

// revisions returns the revisions up to which the members that depend on m have to read their
// tables to know all deletes of a snapshot.
func (m *Member) revisions(txn store.ReadTxn) map[*Member]store.Revision {
	m.group.mu.Lock()
	defer m.group.mu.Unlock()
	revisions := map[*Member]store.Revision{}
	for _, other := range m.group.dependentsLocked(m) {
		revisions[other] = other.table.Revision(txn)
	}
	return revisions
}

// obstacle is what has to happen before a row may be deleted.
type obstacle struct {
	text   string
	delete bool // it is the delete of another row
	parked bool // the wait is unlimited, because deletes of the other member are parked
	awaits bool // deletes of the other member wait for a pending row
}

// blocker returns what has to happen before a row of m may be deleted, if anything. When that may
// have happened, m is woken.
func (m *Member) blocker(row *store.Entry, primary indexKey, revisions map[*Member]store.Revision, orphan bool) (on obstacle, blocked bool) {
	m.group.mu.Lock()
	defer m.group.mu.Unlock()
	if other := m.notSearchedLocked(orphan); other != nil {
		m.unread = true
		text := "a search for orphans of " + other.table.Name()
		if other.incomplete {
			text += ", a source of which is incomplete"
		}
		return obstacle{text: text, parked: other.keepsLocked(m.table)}, true
	}
	for _, other := range m.group.dependentsLocked(m) {
		if rev, known := revisions[other]; known && other.read < rev {
			on.text, m.unread = "changes of "+other.table.Name()+" that have not been read yet", true
		} else if naming := other.deletes.naming(row, primary); naming != nil && (other != m || !m.waitsForItselfLocked(row, primary)) {
			on.text, on.delete, m.blocked = fmt.Sprintf("the delete of %s %s", other.table.Name(), other.table.KeyText(naming)), true, true
		}
		if on.text != "" {
			on.parked, on.awaits = len(other.parked) > 0, len(other.awaiting) > 0
			return on, true
		}
	}
	return obstacle{}, false
}

// setParked records whether a row that has to be deleted is parked, and whether its delete waits for a pending row.
func (m *Member) setParked(key string, parked, awaits bool) {
	m.group.mu.Lock()
	defer m.group.mu.Unlock()
	set(m.parked, key, parked)
	set(m.awaiting, key, awaits)
}

func set(keys map[string]bool, key string, is bool) {
	if is {
		keys[key] = true
	} else {
		delete(keys, key)
	}
}

// waitsForItselfLocked reports whether the delete of a row waits for deletes of rows of its own table
// that in turn wait for it.
func (m *Member) waitsForItselfLocked(row *store.Entry, primary indexKey) bool {
	seen, key := map[string]bool{}, primary.key
	for !seen[primary.key] {
		seen[primary.key] = true
		if row = m.deletes.naming(row, primary); row == nil {
			return false
		}
		primary.key = string(row.Key())
	}
	return primary.key == key
}

// setDelete adds a row that has to be deleted, and wakes other members if it used to name other rows.
func (m *Member) setDelete(row deletedRow) {
	m.group.mu.Lock()
	defer m.group.mu.Unlock()
	if m.deletes.set(row) {
		m.deletesChangedLocked()
	}
}

// matters reports whether to wake other members after a delete of which so many are left that name the same rows. They wait for
// the last one: before that they only learn which delete they wait for by now, so many deletes wake them seldom.
func matters(left int) bool { return left <= 64 || left&(left-1) == 0 }

// removeDelete removes a row that no longer has to be deleted.
func (m *Member) removeDelete(key string) {
	m.group.mu.Lock()
	defer m.group.mu.Unlock()
	delete(m.parked, key)
	delete(m.awaiting, key)
	if named, others := m.deletes.remove(key); named && (matters(others) || slices.Contains(m.depends, m.table)) {
		m.deletesChangedLocked()
	}
}
