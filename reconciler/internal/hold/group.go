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

// Group connects the reconcilers of a process ([Params].Group). It finds cycles of
// dependencies, and makes sure that dependents are deleted first: the Delete of a row waits
// while a reconciler of the group that depends on the row's table ([DependsOn]) still has to
// delete a row that names it, even if both were removed in the same commit. It does not wait
// for reconcilers that are not running or that are waiting for their sources, nor for rows of
// its own table that wait for it in turn, and never for
// longer than five minutes.
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
	depends []*store.Table
	wake    func()

	// Guarded by group.mu.
	active  bool           // it is running, and its sources are initialized
	blocked bool           // some of its deletes wait for those of others, or for its own
	unread  bool           // some of its deletes wait for changes to be read
	read    store.Revision // it has read its table's changes up to here
	deletes deleteSet      // the rows that it has to delete
}

// Join adds a reconciler to a group. If g is nil, it is in none, or in one of its own if it
// depends on its own table. Join returns [ErrCycle] if the dependencies form a cycle. Wake is
// called when held deletes may be able to run; it must not block.
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

// pathLocked returns the names of the tables on a path of dependencies, or nil if there is none.
// The dependency of a table on itself is not part of a path.
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

// Leave removes m from its group.
func (m *Member) Leave() {
	if m == nil {
		return
	}
	m.SetActive(false)
	m.group.mu.Lock()
	defer m.group.mu.Unlock()
	m.group.members = slices.DeleteFunc(m.group.members, func(other *Member) bool { return other == m })
}

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

// blocker returns what has to happen before a row of m may be deleted, if anything. It has m
// woken when that may have happened.
func (m *Member) blocker(row *store.Entry, primary indexKey, revisions map[*Member]store.Revision) (text string, blocked bool) {
	m.group.mu.Lock()
	defer m.group.mu.Unlock()
	for _, other := range m.group.dependentsLocked(m) {
		if rev, known := revisions[other]; known && other.read < rev {
			text, m.unread = "the changes of "+other.table.Name()+", which are still to be read", true
		} else if naming := other.deletes.naming(row, primary); naming != nil && (other != m || !m.waitsForItselfLocked(row, primary)) {
			text, m.blocked = fmt.Sprintf("the delete of %s %s", other.table.Name(), other.table.KeyText(naming)), true
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

// setDelete adds a row that has to be deleted, and wakes others if it used to name other rows.
func (m *Member) setDelete(row deletedRow) {
	m.group.mu.Lock()
	defer m.group.mu.Unlock()
	if m.deletes.set(row) {
		m.deletesChangedLocked()
	}
}

// removeDelete removes a row that no longer has to be deleted.
func (m *Member) removeDelete(key string) {
	m.group.mu.Lock()
	defer m.group.mu.Unlock()
	if m.deletes.remove(key) {
		m.deletesChangedLocked()
	}
}
