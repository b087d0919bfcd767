package hold

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/statehive/statehive/internal/store"
)

// ErrCycle is returned by New of package reconciler when a dependency leads back to the table
// that has it through other tables of the group.
var ErrCycle = errors.New("tables depend on each other in a cycle")

// Group is the reconcilers of a process that know each other ([Params].Group).
// It finds cycles of dependencies, and deletes what depends on a row before the
// row: the Delete of a row waits while a reconciler of the group that depends on
// it ([DependsOn]) has still to delete a row that names it, also of the same
// commit. It does not wait for reconcilers that do not run or wait for their
// sources, nor for rows of its own table that wait for it in turn, and for no
// longer than five minutes.
//
// The zero value is an empty group. It is safe for concurrent use.
type Group struct {
	mu      sync.Mutex
	members []*Member
}

// Member is a reconciler in a [Group]. A nil one is in no group. Its fields are guarded by the
// mutex of the group, but for those that Join sets. It is safe for concurrent use.
type Member struct {
	group   *Group
	table   *store.Table
	depends []*store.Table
	wake    func()

	active  bool           // it runs, and its sources are initialized
	waits   bool           // some of its deletes wait for those of others, or its own
	unread  bool           // some of its deletes wait for changes to be read
	read    store.Revision // its changes up to here are known
	deletes deleteSet      // the rows that it has to delete
}

// Join makes a reconciler a member of a group, which may be nil: then it is in none, or alone in
// one if it depends on its own table. It returns [ErrCycle] if that closes a cycle. Wake is called
// when deletes that were held may go on; it must not wait for anything.
func Join(g *Group, table *store.Table, on []Dependency, wake func()) (*Member, error) {
	m := &Member{group: g, table: table, wake: wake, deletes: newDeleteSet(table)}
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
	g.members = append(g.members, m)
	if path := g.pathLocked(table, table, nil); path != nil {
		g.members = g.members[:len(g.members)-1]
		return nil, fmt.Errorf("%w: %s", ErrCycle, strings.Join(append([]string{table.Name()}, path...), " -> "))
	}
	return m, nil
}

// pathLocked returns the names of the tables on a path of dependencies, or nil. Those of tables on
// themselves are no part of it.
func (g *Group) pathLocked(from, to *store.Table, seen []*store.Table) []string {
	if slices.Contains(seen, from) {
		return nil
	}
	seen = append(seen, from)
	for _, m := range g.members {
		if m.table != from {
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

// dependentsLocked returns the active members that depend on m.
func (g *Group) dependentsLocked(m *Member) (dependents []*Member) {
	for _, other := range g.members {
		if other.active && slices.Contains(other.depends, m.table) {
			dependents = append(dependents, other)
		}
	}
	return dependents
}

// Leave takes m out of its group.
func (m *Member) Leave() {
	if m == nil {
		return
	}
	m.SetActive(false)
	m.group.mu.Lock()
	defer m.group.mu.Unlock()
	m.group.members = slices.DeleteFunc(m.group.members, func(other *Member) bool { return other == m })
}

// SetRead tells the group that all changes of the table up to a revision are known to m.
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

// SetActive tells the group whether others have to wait for m.
func (m *Member) SetActive(active bool) {
	if m == nil {
		return
	}
	m.group.mu.Lock()
	defer m.group.mu.Unlock()
	if m.active != active {
		m.active = active
		m.wakeLocked(func(other *Member) bool { return other.waits || other.unread })
	}
}

// wakeLocked wakes members that m depends on, which may have waited for it.
func (m *Member) wakeLocked(waiting func(*Member) bool) {
	for _, other := range m.group.members {
		if waiting(other) && slices.Contains(m.depends, other.table) {
			other.waits, other.unread = false, false
			other.wake()
		}
	}
}

// deletesChangedLocked wakes the members that may have waited for a delete of m.
func (m *Member) deletesChangedLocked() {
	m.wakeLocked(func(other *Member) bool { return other.waits })
}

// revisions returns how far the members that depend on m have to read, so that they know all
// deletes of a snapshot.
func (m *Member) revisions(txn store.ReadTxn) map[*Member]store.Revision {
	m.group.mu.Lock()
	defer m.group.mu.Unlock()
	revisions := map[*Member]store.Revision{}
	for _, other := range m.group.dependentsLocked(m) {
		revisions[other] = other.table.Revision(txn)
	}
	return revisions
}

// blocker returns what has to happen before a row of m is deleted, if anything. When something
// has, m is woken.
func (m *Member) blocker(row *store.Entry, primary indexKey, revisions map[*Member]store.Revision) (text string, blocked bool) {
	m.group.mu.Lock()
	defer m.group.mu.Unlock()
	for _, other := range m.group.dependentsLocked(m) {
		if rev, known := revisions[other]; known && other.read < rev {
			text, m.unread = "the changes of "+other.table.Name()+", which are still to be read", true
		} else if naming := other.deletes.naming(row, primary); naming != nil && (other != m || !m.waitsForItselfLocked(row, primary)) {
			text, m.waits = fmt.Sprintf("the delete of %s %s", other.table.Name(), other.table.KeyText(naming)), true
		}
		if text != "" {
			return text, true
		}
	}
	return "", false
}

// waitsForItselfLocked reports whether a row to be deleted waits for the deletes of rows of its own
// table that wait for its own.
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

// setDelete adds a row that has to be deleted, and wakes others if it named other rows before.
func (m *Member) setDelete(row deletedRow) {
	m.group.mu.Lock()
	defer m.group.mu.Unlock()
	if m.deletes.set(row) {
		m.deletesChangedLocked()
	}
}

// removeDelete removes a row that has not to be deleted any more.
func (m *Member) removeDelete(key string) {
	m.group.mu.Lock()
	defer m.group.mu.Unlock()
	if m.deletes.remove(key) {
		m.deletesChangedLocked()
	}
}
