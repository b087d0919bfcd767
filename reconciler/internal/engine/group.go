package engine

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/statehive/statehive/internal/store"
	"github.com/statehive/statehive/reconciler/internal/pool"
	"github.com/statehive/statehive/reconciler/internal/workqueue"
)

// ErrCycle is returned by [New] when a dependency leads back to the table that
// has it, directly or through other reconcilers of the group.
var ErrCycle = errors.New("tables depend on each other in a circle")

// Group is the reconcilers of a process that know each other ([Params].Group).
// It finds circles of dependencies, and deletes what depends on a row before the
// row: the Delete of a row waits while a reconciler of the group that depends on
// it ([DependsOn]) has still to delete a row that names it, also of the same
// commit. It does not wait for reconcilers that do not run or wait for their
// sources, and for no longer than five minutes.
//
// The zero value is an empty group. It is safe for concurrent use.
type Group struct {
	mu      sync.Mutex
	members []*member
}

// orderLimit is how long a delete waits for those of the rows that depend on it.
const orderLimit = 5 * time.Minute

// member is what a group knows of a reconciler. The fields below are guarded by
// the group's mutex.
type member struct {
	group    *Group
	name     string
	table    *store.Table
	depends  []*store.Table
	revision func(store.ReadTxn) store.Revision // of its table
	wake     func()                             // deletes that wait may go on

	active  bool                 // it runs, and its sources are initialized
	waits   bool                 // some of its deletes wait for others
	read    store.Revision       // its changes up to here are known
	deletes map[string]*namedSet // what the rows name that it has to delete, by encoded key
	sets    map[string]*namedSet
	naming  map[rowsKey][]*namedSet
}

// namedSet is what rows that are to be deleted name: many may name the same.
type namedSet struct {
	id    string
	rows  []namedRow
	texts map[string]func() string // the keys as text of those that are to be deleted, by encoded key
	order []string                 // their encoded keys as they came, and some that are gone
}

// first returns the key as text of a row that is to be deleted.
func (s *namedSet) first() string {
	for s.texts[s.order[0]] == nil {
		s.order = s.order[1:]
	}
	return s.texts[s.order[0]]()
}

// rowsKey is a key of an index of a table.
type rowsKey struct {
	table      *store.Table
	index, key string
}

// add makes m a member unless that closes a circle.
func (g *Group) add(m *member) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	m.group = g
	g.members = append(g.members, m)
	if path := g.pathLocked(m.table, m.table, nil); path != nil {
		g.members = g.members[:len(g.members)-1]
		return fmt.Errorf("%w: %s", ErrCycle, strings.Join(append([]string{m.table.Name()}, path...), " -> "))
	}
	return nil
}

// pathLocked returns the names of tables on a way of dependencies, or nil.
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

// dependentsLocked are the active members that depend on m.
func (g *Group) dependentsLocked(m *member) (dependents []*member) {
	for _, other := range g.members {
		if other.active && slices.Contains(other.depends, m.table) {
			dependents = append(dependents, other)
		}
	}
	return dependents
}

// revisions returns how far those that depend on m have to read, so that they
// know all deletes of a snapshot.
func (m *member) revisions(txn store.ReadTxn) map[*member]store.Revision {
	m.group.mu.Lock()
	defer m.group.mu.Unlock()
	revisions := map[*member]store.Revision{}
	for _, other := range m.group.dependentsLocked(m) {
		revisions[other] = other.revision(txn)
	}
	return revisions
}

// blocker says what has to happen before a row of m is deleted, if anything. m
// is woken then when something has.
func (m *member) blocker(row *store.Entry, primary rowsKey, revisions map[*member]store.Revision) (text string, blocked bool) {
	m.group.mu.Lock()
	defer m.group.mu.Unlock()
	for _, other := range m.group.dependentsLocked(m) {
		if rev, known := revisions[other]; known && other.read < rev {
			text, blocked = "the changes of "+other.table.Name()+", which are still to be read", true
		} else if key, naming := other.namingLocked(row, primary); naming {
			text, blocked = fmt.Sprintf("the delete of %s %s", other.table.Name(), key), true
		}
		if blocked {
			m.waits = true
			return text, true
		}
	}
	return "", false
}

// namingLocked returns the key, as text, of a row to delete that names a row.
func (m *member) namingLocked(row *store.Entry, primary rowsKey) (key string, naming bool) {
	for _, set := range m.naming[primary] {
		return set.first(), true
	}
	for in, sets := range m.naming {
		if in.table != primary.table || in.index == primary.index {
			continue
		}
		for _, named := range sets[0].rows { // all of the sets ask for the same here
			if named.rowsKey == in && named.matches(row) {
				return sets[0].first(), true
			}
		}
	}
	return "", false
}

// setDelete notes a row that has to be deleted and what it names, which id tells
// from what others do; without an id the row has not to be deleted any more.
func (m *member) setDelete(key string, id []byte, named func() []namedRow, text func() string) {
	m.group.mu.Lock()
	defer m.group.mu.Unlock()
	before := m.deletes[key]
	if before != nil {
		if before.id == string(id) {
			before.texts[key] = text
			return
		}
		m.forgetDeleteLocked(key, before)
		if len(before.rows) > 0 {
			m.wakeLocked()
		}
	}
	if len(id) == 0 {
		return
	}
	set := m.sets[string(id)]
	if set == nil {
		set = &namedSet{id: string(id), rows: named(), texts: map[string]func() string{}}
		m.sets[set.id] = set
		for _, row := range set.rows {
			m.naming[row.rowsKey] = append(m.naming[row.rowsKey], set)
		}
	}
	m.deletes[key], set.texts[key] = set, text
	set.order = append(set.order, key)
}

func (m *member) forgetDeleteLocked(key string, set *namedSet) {
	delete(m.deletes, key)
	if delete(set.texts, key); len(set.texts) > 0 {
		return
	}
	delete(m.sets, set.id)
	for _, row := range set.rows {
		others := slices.DeleteFunc(m.naming[row.rowsKey], func(other *namedSet) bool { return other == set })
		if m.naming[row.rowsKey] = others; len(others) == 0 {
			delete(m.naming, row.rowsKey)
		}
	}
}

// setRead says that all changes up to a revision are known.
func (m *member) setRead(rev store.Revision) {
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

// setActive says whether others wait for m.
func (m *member) setActive(active bool) {
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

// leave takes m out of its group.
func (m *member) leave() {
	if m == nil {
		return
	}
	m.setActive(false)
	m.group.mu.Lock()
	defer m.group.mu.Unlock()
	m.group.members = slices.DeleteFunc(m.group.members, func(other *member) bool { return other == m })
}

// wakeLocked wakes those that may have waited for m.
func (m *member) wakeLocked() {
	for _, other := range m.group.members {
		if other.waits && slices.Contains(m.depends, other.table) {
			other.waits = false
			other.wake()
		}
	}
}

// join makes r known to its group, and finds circles.
func (r *Engine) join() error {
	m := &member{
		name: r.p.Name, table: r.p.Table, revision: r.p.Table.Revision,
		deletes: map[string]*namedSet{}, sets: map[string]*namedSet{}, naming: map[rowsKey][]*namedSet{},
		wake: func() {
			_ = r.inbox.post(func(l *loop) { l.release(workqueue.Order, time.Now()) })
		},
	}
	for _, d := range r.p.DependsOn {
		m.depends = append(m.depends, d.Table)
	}
	r.waits = make([]dependencyWaits, len(r.p.DependsOn))
	if r.p.Group == nil {
		return new(Group).add(m)
	}
	if err := r.p.Group.add(m); err != nil {
		return err
	}
	r.member = m
	return nil
}

// orderWait is a delete that waits for those of rows that depend on its row.
type orderWait struct {
	since     time.Time
	revisions map[*member]store.Revision
}

// outOfOrder puts a delete aside that has to wait for others.
func (l *loop) outOfOrder(op *pool.Task, txn store.ReadTxn, now time.Time) bool {
	m := l.r.member
	if m == nil {
		return false
	}
	it := op.Item
	wait, known := l.orders[it.Key]
	if !known {
		wait = orderWait{now, m.revisions(txn)}
	}
	t := l.r.p.Table
	text, blocked := m.blocker(op.Entry, rowsKey{t, t.Primary().Name, it.Key}, wait.revisions)
	switch {
	case !blocked:
		return false
	case now.Sub(wait.since) >= orderLimit:
		l.r.p.Logger.Warn("deleted out of order: it has waited too long",
			"reconciler", l.r.p.Name, "key", l.r.p.Table.KeyText(op.Entry), "waitsFor", text)
		return false
	}
	if l.orders == nil {
		l.orders = map[string]orderWait{}
	}
	l.orders[it.Key] = wait
	l.park(it, workqueue.Order, wait.since.Add(orderLimit), text)
	return true
}

// noteDelete tells the group that a row has to be deleted, or has not any more.
func (l *loop) noteDelete(it *workqueue.Item) {
	m := l.r.member
	if m == nil {
		return
	}
	if !it.Deleting {
		delete(l.orders, it.Key)
	}
	if len(l.r.p.DependsOn) == 0 {
		return
	}
	if !it.Deleting {
		m.setDelete(it.Key, nil, nil, nil)
		return
	}
	l.names = l.names[:0]
	for _, d := range l.r.p.DependsOn {
		l.names = d.appendNames(l.names, it.Entry)
	}
	row := it.Entry
	named := func() (rows []namedRow) {
		for _, d := range l.r.p.DependsOn {
			rows = append(rows, d.named(row)...)
		}
		return rows
	}
	m.setDelete(it.Key, l.names, named, func() string { return l.r.p.Table.KeyText(row) })
}
