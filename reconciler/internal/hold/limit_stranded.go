package hold

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/statehive/statehive/internal/store"
	"github.com/statehive/statehive/reconciler/internal/pool"
)

// stranded are the rows of a table that lack a row that they depend on, or would lack it after some deletes.
type stranded struct {
	table *store.Table
	rows  map[string]*store.Entry // by encoded key
	keys  map[string]keySet       // by the name of an index; those that were asked for
}

// keySet are the keys of rows in an index.
type keySet struct {
	of   *store.Index
	keys map[string]bool
}

func (s keySet) add(table *store.Table, row *store.Entry) {
	for key := range table.KeysOf(s.of, row.Row()) {
		s.keys[string(key)] = true
	}
}

func newStranded(table *store.Table) *stranded {
	return &stranded{table: table, rows: map[string]*store.Entry{}, keys: map[string]keySet{}}
}

func (s *stranded) add(row *store.Entry) {
	s.rows[string(row.Key())] = row
	for _, set := range s.keys {
		set.add(s.table, row)
	}
}

// has reports whether a query names one of the rows.
func (s *stranded) has(q store.Query) bool {
	name := q.Index.NameOrNone()
	if name == s.table.Primary().NameOrNone() {
		return s.rows[string(q.Key)] != nil
	}
	set, known := s.keys[name]
	if !known {
		set = keySet{q.Index, map[string]bool{}}
		for _, row := range s.rows {
			set.add(s.table, row)
		}
		s.keys[name] = set
	}
	return set.keys[string(q.Key)]
}

// rowsByTable are rows of several tables, by encoded key.
type rowsByTable map[*store.Table]map[string]*store.Entry

func (r rowsByTable) contains(others rowsByTable) bool {
	for table, rows := range others {
		known := r[table]
		for key := range rows {
			if known[key] == nil {
				return false
			}
		}
	}
	return true
}

// strandings finds the rows that some deletes would strand.
type strandings struct {
	txn   store.ReadTxn
	lost  map[*store.Table]*stranded // the rows to be deleted, and the stranded ones
	order []*Member                  // whose tables have such rows
	freed map[string]bool            // the rows of the table of the deletes that cannot be applied before these, by encoded key

	undecided bool // some of the stranded rows depend on rows that are pending: if these become done, they suffice
}

// strands describes the rows of the group that deleting rows of m would strand, or returns "". What was not applied yet can be
// stranded: whether it was is not known at the start. It also returns the rows, and reports whether that may change because rows are pending.
func (m *Member) strands(txn store.ReadTxn, deleted []*store.Entry, last *DeletesLast) (text string, rows rowsByTable, undecided bool) {
	s := &strandings{txn: txn, lost: map[*store.Table]*stranded{}, freed: map[string]bool{}}
	gone := s.in(m)
	for _, row := range deleted {
		if m.table.FindKey(txn, row.Key()) != nil { // it is back
			continue
		}
		is := last.removed(txn, row)
		if is == nil {
			continue
		}
		gone.add(is)
		last.removedFirst(txn, m.table, row, func(key string) bool {
			s.freed[key] = true
			return true
		})
	}
	deletes := maps.Clone(gone.rows)
	if len(deletes) == 0 {
		return "", nil, false
	}
	s.follow(m, m.group.remaining())
	var texts []string
	rows = rowsByTable{}
	for _, of := range s.order {
		lost := s.lost[of.table].rows
		if of == m {
			maps.DeleteFunc(lost, func(key string, _ *store.Entry) bool { return deletes[key] != nil })
		}
		if len(lost) == 0 {
			continue
		}
		which := of.table.KeyText(lost[slices.Min(slices.Collect(maps.Keys(lost)))])
		if len(lost) > 1 {
			which += " and others"
		}
		texts = append(texts, fmt.Sprintf("%d of %d rows of %s (%s)", len(lost), of.table.Len(txn), of.table.Name(), which))
		rows[of.table] = lost
	}
	if len(texts) == 0 {
		return "", nil, false
	}
	return strings.Join(texts, " and ") + " would lack what they depend on", rows, s.undecided
}

// remaining returns the members that have not stopped, or only lately: see Member.Leave.
func (g *Group) remaining() []*Member {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(g.members), func(m *Member) bool { return m.isGoneLocked() })
}

func (s *strandings) in(m *Member) *stranded {
	if s.lost[m.table] == nil {
		s.lost[m.table] = newStranded(m.table)
		s.order = append(s.order, m)
	}
	return s.lost[m.table]
}

// follow finds the rows that depend on the lost ones of a member, then those that depend on these, and so on.
func (s *strandings) follow(from *Member, members []*Member) {
	for pending := []*store.Table{from.table}; len(pending) > 0; pending = pending[1:] {
		for _, m := range members {
			more := false
			for i := range m.on {
				if d := &m.on[i]; d.Table == pending[0] && m.table.Len(s.txn) > 0 {
					more = s.dependents(m, d) || more
				}
			}
			if more {
				pending = append(pending, m.table)
			}
		}
	}
}

// dependents finds the rows of a member that one of its dependencies strands, and reports whether there are more than before.
func (s *strandings) dependents(m *Member, d *Dependency) (more bool) {
	// Many rows depend on the same ones: see Dependency.key.
	byValue, byText := map[any]needed{}, map[string]needed{}
	var text []byte
	for row := range m.table.All(s.txn, nil).Entries() {
		var value any
		value, text, _ = d.key(row, text) // an error is reported for the row itself
		answer, known := byText[string(text)]
		if value != nil {
			answer, known = byValue[value]
		}
		switch {
		case known:
		case value != nil:
			answer = s.ask(d, row)
			byValue[value] = answer
		default:
			answer = s.ask(d, row)
			byText[string(text)] = answer
		}
		if answer.strands(row) && !s.knows(m.table, row) {
			s.in(m).add(row)
			more, s.undecided = true, s.undecided || answer.lost && answer.pending
		}
	}
	return more
}

// knows reports whether a row is known to be lost.
func (s *strandings) knows(table *store.Table, row *store.Entry) bool {
	lost := s.lost[table]
	return lost != nil && lost.rows[string(row.Key())] != nil
}

// needed is what is lost of what a row needs.
type needed struct {
	lost    bool           // for one of the row's needs, no row is left that is done
	pending bool           // but for each such need a row is left that is pending
	only    []*store.Entry // rows each of which is the last one left for a need
}

// strands reports whether row, which may be in the table that it depends on, has nothing left.
func (n needed) strands(row *store.Entry) bool { return n.lost || slices.Contains(n.only, row) }

func (s *strandings) ask(d *Dependency, row *store.Entry) (n needed) {
	n.pending = true
	sets, others := d.sets(row), [][]store.Query(nil)
	if d.Or != nil {
		others = d.Or.sets(row)
	}
	for i, queries := range sets {
		if !slices.ContainsFunc(s.answered(d, queries), s.lost[d.Table].has) {
			continue
		}
		var left remainder
		left.add(s, d, queries)
		if i < len(others) {
			left.add(s, d.Or, others[i])
		}
		switch {
		case left.more:
		case left.only != nil:
			n.only = append(n.only, left.only)
		default:
			n.lost, n.pending = true, n.pending && left.pending
		}
	}
	return n
}

// answered returns those of some queries that the table can answer. The others are reported for the row itself.
func (s *strandings) answered(d *Dependency, queries []store.Query) []store.Query {
	return slices.DeleteFunc(slices.Clone(queries), func(q store.Query) bool {
		_, err := d.Table.LenOf(s.txn, q.Index.NameOrNone())
		return err != nil
	})
}

// remainder is what is left of rows of which one is needed.
type remainder struct {
	only    *store.Entry // the first one that is left, and done or about to be
	more    bool         // there are others like it
	pending bool         // one that is pending is left
}

// add adds what is left of the rows that some queries of a dependency name.
func (r *remainder) add(s *strandings, d *Dependency, queries []store.Query) {
	lost := s.lost[d.Table]
	for _, q := range s.answered(d, queries) {
		for e := range d.Table.List(s.txn, q, nil).Entries() {
			state := d.notDone(e)
			switch {
			case lost != nil && lost.rows[string(e.Key())] != nil:
			case state != "" && !s.isFreed(d.Table, e): // the target may never have it
				r.pending = r.pending || state == pendingState
			case state == "" && !d.serves(s.txn, e): // that may be about to change, too
				r.pending = true
			case r.only == nil:
				r.only = e
			case r.only != e:
				r.more = true
				return
			}
		}
	}
}

// serves reports whether a row that is done suffices for those that name it.
func (d *Dependency) serves(txn store.ReadTxn, row *store.Entry) bool {
	if d.Serves == nil {
		return true
	}
	serves := false
	_ = pool.Guard(func() { serves = d.Serves(txn, row) })
	return serves
}

// isFreed reports whether a row can be applied once the rows are deleted.
func (s *strandings) isFreed(table *store.Table, row *store.Entry) bool {
	return table == s.order[0].table && s.freed[string(row.Key())]
}

// dependentsCheck finds out whether deletes would strand rows. It reads all rows that may depend on them, so it does so
// a tenth of the time at most, and that often while there are deletes: statuses change, and what is left may fail.
type dependentsCheck struct {
	member *Member
	last   *DeletesLast // nil: nothing is checked
	stale  bool         // rows to be deleted were added or withdrawn since the last check
	next   time.Time    // when another check may be made
	more   bool         // the last check has found rows that the one before has not
	news   bool         // it has found other rows
	asked  time.Time    // when the first of the checks was made that pending rows have left undecided; zero: the last one was not
	// read are the revisions up to which no row was declared that has not been checked.
	read map[*store.Table]store.Revision
}

// checkInterval is how often deletes that would strand rows are checked again, because those may have been deleted themselves.
const checkInterval = 5 * time.Second

// check sets c.strands. It returns when to call it again if it is too early.
func (d *dependentsCheck) check(c *counter, txn store.ReadTxn, now time.Time) (again time.Time) {
	d.more, d.news = false, false
	switch {
	case !d.checks(c):
		return time.Time{}
	case c.strands == "" && now.Before(d.next) && !d.stale && !d.declared(txn):
		return time.Time{}
	case now.Before(d.next):
		return d.next
	}
	began := time.Now()
	d.declared(txn)
	text, rows, undecided := d.member.strands(txn, c.rowsToChange(), d.last)
	if undecided && !c.holding {
		if d.asked.IsZero() {
			d.asked = now
		}
		if now.Sub(d.asked) < checkInterval {
			d.next = now.Add(max(pendingRetry, 10*time.Since(began)))
			return d.next
		}
	}
	d.asked = time.Time{}
	d.more = !c.stranded.contains(rows)
	d.news = d.more || !rows.contains(c.stranded)
	c.strands, c.stranded = text, rows
	d.stale, d.next = false, now.Add(10*time.Since(began))
	if c.strands != "" || c.holding {
		d.next = d.next.Add(checkInterval)
	}
	return time.Time{}
}

// checksHeld reports whether held deletes are checked from time to time: rows that depend on what they remove come and go.
func (l *ChangeLimiter) checksHeld() bool {
	return l.deletes != nil && l.deletes.holding && l.deletes.undecided > 0 && l.known(l.deletes) && l.dependents.checks(l.deletes)
}

// strandsMore reports whether rows were declared since the last check of held deletes that these would strand. Relieve finds them again.
func (l *ChangeLimiter) strandsMore() bool {
	d, c, txn := &l.dependents, l.deletes, l.owner.DB.ReadTxn()
	if !l.checksHeld() || !d.declared(txn) {
		return false
	}
	text, rows := c.strands, c.stranded
	d.next = time.Time{}
	d.check(c, txn, time.Now())
	if d.more {
		c.strands, c.stranded, d.next, l.fewer = text, rows, time.Time{}, true
	}
	return d.more
}

// checks reports whether anything is checked.
func (d *dependentsCheck) checks(c *counter) bool {
	return d.member != nil && d.last != nil && c.limit.Percent < 100
}

// declared reports whether rows that may depend on those of the member were declared since the last check, and makes it stale then: a
// delete may have waited for long since.
func (d *dependentsCheck) declared(txn store.ReadTxn) bool {
	if d.read == nil {
		d.read = map[*store.Table]store.Revision{}
	}
	for _, m := range d.member.group.remaining() {
		if !slices.Contains(m.depends, d.member.table) {
			continue
		}
		read, now := d.read[m.table], m.table.Revision(txn)
		d.read[m.table] = now
		d.stale = d.stale || read < now && isDeclaredSince(m.table, txn, read)
	}
	return d.stale
}

// isDeclaredSince reports whether rows were inserted into a table, or changed, after a revision.
func isDeclaredSince(table *store.Table, txn store.ReadTxn, after store.Revision) bool {
	cursor := table.Changes(after)
	defer cursor.Close()
	for change := range cursor.Changes(txn) {
		if change.Kind != store.Delete && (change.Entry == nil || change.Entry.Spec() > after) {
			return true
		}
	}
	return false
}
