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
// that has it, directly or through other reconcilers of the group.
var ErrCycle = errors.New("tables depend on each other in a cycle")

// Group is the reconcilers of a process that know each other ([Params].Group).
// It finds cycles of dependencies, and deletes what depends on a row before the
// row: the Delete of a row waits while a reconciler of the group that depends on
// it ([DependsOn]) has still to delete a row that names it, also of the same
// commit. It does not wait for reconcilers that do not run or wait for their
// sources, and for no longer than five minutes.
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
	waits   bool           // some of its deletes wait for other members
	read    store.Revision // its changes up to here are known
	deletes deleteSet      // the rows that it has to delete
}

// Join makes a reconciler a member of a group, which may be nil: then only a dependency on its
// own table is found. It returns [ErrCycle] if that closes a cycle. Wake is called when
// deletes that were held may go on; it must not wait for anything.
func Join(g *Group, table *store.Table, on []Dependency, wake func()) (*Member, error) {
	m := &Member{group: g, table: table, wake: wake, deletes: newDeleteSet()}
	for _, d := range on {
		m.depends = append(m.depends, d.Table)
	}
	alone := g == nil
	if alone {
		g = new(Group)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.members = append(g.members, m)
	if path := g.pathLocked(table, table, nil); path != nil {
		g.members = g.members[:len(g.members)-1]
		return nil, fmt.Errorf("%w: %s", ErrCycle, strings.Join(append([]string{table.Name()}, path...), " -> "))
	}
	if alone {
		return nil, nil
	}
	return m, nil
}

// pathLocked returns the names of the tables on a path of dependencies, or nil.
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
		m.wakeLocked()
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
		m.wakeLocked()
	}
}

// wakeLocked wakes the members that may have waited for m.
func (m *Member) wakeLocked() {
	for _, other := range m.group.members {
		if other.waits && slices.Contains(m.depends, other.table) {
			other.waits = false
			other.wake()
		}
	}
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
			text, blocked = "the changes of "+other.table.Name()+", which are still to be read", true
		} else if key, naming := other.deletes.naming(row, primary); naming {
			text, blocked = fmt.Sprintf("the delete of %s %s", other.table.Name(), key), true
		}
		if blocked {
			m.waits = true
			return text, true
		}
	}
	return "", false
}

// setDelete adds a row that has to be deleted, and wakes others if it named other rows before.
func (m *Member) setDelete(row deletedRow) {
	m.group.mu.Lock()
	defer m.group.mu.Unlock()
	if m.deletes.set(row) {
		m.wakeLocked()
	}
}

// removeDelete removes a row that has not to be deleted any more.
func (m *Member) removeDelete(key string) {
	m.group.mu.Lock()
	defer m.group.mu.Unlock()
	if m.deletes.remove(key) {
		m.wakeLocked()
	}
}
