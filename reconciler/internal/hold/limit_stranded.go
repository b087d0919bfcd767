package hold

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/statehive/statehive/internal/store"
)

// stranded are the rows of a table that lack a row that they depend on, or would lack it after some deletes.
type stranded struct {
	table *store.Table
	rows  map[string]*store.Entry // by encoded key
	keys  map[string]map[string]bool
}

func newStranded(table *store.Table) *stranded {
	return &stranded{table: table, rows: map[string]*store.Entry{}}
}

func (s *stranded) add(row *store.Entry) { s.rows[string(row.Key())], s.keys = row, nil }

// has reports whether a query names one of the rows.
func (s *stranded) has(q store.Query) bool {
	name := q.Index.NameOrNone()
	if name == s.table.Primary().NameOrNone() {
		return s.rows[string(q.Key)] != nil
	}
	keys := s.keys[name]
	if keys == nil {
		keys = map[string]bool{}
		for _, row := range s.rows {
			for key := range s.table.KeysOf(q.Index, row.Row()) {
				keys[string(key)] = true
			}
		}
		if s.keys == nil {
			s.keys = map[string]map[string]bool{}
		}
		s.keys[name] = keys
	}
	return keys[string(q.Key)]
}

// strandings finds the rows that some deletes would strand.
type strandings struct {
	txn   store.ReadTxn
	lost  map[*store.Table]*stranded // the rows to be deleted, and the stranded ones
	order []*store.Table
}

// strands describes the tables of the group of which deleting rows of m would strand more rows than a limit allows, together with
// earlier ones, or returns "". What was not applied yet counts, too: whether it was is not known at the start. It also returns
// what would be stranded.
func (m *Member) strands(txn store.ReadTxn, deleted []*store.Entry, limit ChangeLimit, earlier keysOfTables) (string, *strandings) {
	s := &strandings{txn: txn, lost: map[*store.Table]*stranded{}}
	for _, row := range deleted {
		if m.table.FindKey(txn, row.Key()) == nil { // otherwise it is back
			s.in(m.table).add(row)
		}
	}
	gone := len(s.in(m.table).rows)
	s.follow(m.table, m.group.remaining())
	var texts []string
	for _, table := range s.order {
		n, all := len(s.lost[table].rows), table.Len(txn)
		if table == m.table {
			n -= gone
		}
		if n == 0 {
			continue
		}
		for key := range earlier[table] {
			if s.lost[table].rows[key] == nil && table.FindKey(txn, []byte(key)) != nil {
				n++
			}
		}
		if n > limit.of(all) {
			texts = append(texts, fmt.Sprintf("%d of %d rows of %s", n, all, table.Name()))
		}
	}
	if len(texts) == 0 {
		return "", s
	}
	return strings.Join(texts, " and ") + " would lack what they depend on", s
}

// keysOfTables are encoded keys of rows, with a time.
type keysOfTables map[*store.Table]map[string]time.Time

// strandedSince returns the rows that deletes have stranded since a time, and forgets those before.
func (g *Group) strandedSince(since time.Time) keysOfTables {
	g.mu.Lock()
	defer g.mu.Unlock()
	recent := keysOfTables{}
	for table, keys := range g.stranded {
		maps.DeleteFunc(keys, func(_ string, at time.Time) bool { return at.Before(since) })
		if len(keys) > 0 {
			recent[table] = maps.Clone(keys)
		}
	}
	return recent
}

// note records rows that deletes strand, which are let through.
func (g *Group) note(s *strandings, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.stranded == nil {
		g.stranded = keysOfTables{}
	}
	for _, table := range s.order {
		if g.stranded[table] == nil {
			g.stranded[table] = map[string]time.Time{}
		}
		for key, row := range s.lost[table].rows {
			if table.FindKey(s.txn, row.Key()) != nil {
				g.stranded[table][key] = now
			}
		}
	}
}

// remaining returns the members that have not stopped.
func (g *Group) remaining() []*Member {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(g.members), func(m *Member) bool { return m.left })
}

func (s *strandings) in(table *store.Table) *stranded {
	if s.lost[table] == nil {
		s.lost[table] = newStranded(table)
		s.order = append(s.order, table)
	}
	return s.lost[table]
}

// follow finds the rows that depend on the lost ones of a table, then those that depend on these, and so on.
func (s *strandings) follow(table *store.Table, members []*Member) {
	for pending := []*store.Table{table}; len(pending) > 0; pending = pending[1:] {
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
			s.in(m.table).add(row)
			more = true
		}
	}
	return more
}

// knows reports whether a row is known to be lost.
func (s *strandings) knows(table *store.Table, row *store.Entry) bool {
	lost := s.lost[table]
	return lost != nil && lost.rows[string(row.Key())] != nil
}

// needed is what a row depends on.
type needed struct {
	lost bool         // it names lost rows
	left *store.Entry // one that is not lost, or nil
	more bool         // and there are others
}

// strands reports whether row, which may be in the table that it depends on, has nothing left.
func (n needed) strands(row *store.Entry) bool {
	return n.lost && (n.left == nil || n.left == row && !n.more)
}

func (s *strandings) ask(d *Dependency, row *store.Entry) (n needed) {
	queries, _ := d.appendQueries(nil, row)
	queries = slices.DeleteFunc(queries, func(q store.Query) bool {
		_, err := d.Table.LenOf(s.txn, q.Index.NameOrNone())
		return err != nil // reported for the row itself
	})
	lost := s.lost[d.Table]
	if n.lost = slices.ContainsFunc(queries, lost.has); !n.lost {
		return n
	}
	for _, q := range queries {
		for e := range d.Table.List(s.txn, q, nil).Entries() {
			switch {
			case lost.rows[string(e.Key())] != nil:
			case n.left == nil:
				n.left = e
			case n.left != e:
				n.more = true
				return n
			}
		}
	}
	return n
}

// dependentsCheck finds out whether deletes would strand too many rows. It reads all rows that may depend on them, so it does so
// a tenth of the time at most.
type dependentsCheck struct {
	member *Member
	stale  bool      // rows to be deleted were added or withdrawn since the last check
	next   time.Time // when another check may be made
	// earlier are the rows that others had stranded within the window before deletes were held. They count while these are.
	earlier keysOfTables
}

// checkInterval is how often deletes that would strand rows are checked again, because those may have been deleted themselves.
const checkInterval = 5 * time.Second

// check sets c.strands. It returns when to call it again if it is too early.
func (d *dependentsCheck) check(c *counter, txn store.ReadTxn, now time.Time) (again time.Time) {
	switch {
	case d.member == nil:
		return time.Time{}
	case c.strands == "" && !d.stale:
		return time.Time{}
	case now.Before(d.next):
		return d.next
	}
	d.member.group.checking.Lock() // what one check lets through, the next one counts
	defer d.member.group.checking.Unlock()
	began := time.Now()
	if c.strands == "" {
		d.earlier = d.member.group.strandedSince(now.Add(-c.limit.Window))
	}
	text, s := d.member.strands(txn, c.rowsToChange(), c.limit, d.earlier)
	if text == "" {
		d.member.group.note(s, now)
	}
	c.strands = text
	d.stale, d.next = false, now.Add(10*time.Since(began))
	if c.strands != "" {
		d.next = d.next.Add(checkInterval)
	}
	return time.Time{}
}
