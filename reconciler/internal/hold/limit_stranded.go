package hold

import (
	"fmt"
	"iter"
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

// strandings finds the rows that some deletes would strand.
type strandings struct {
	txn   store.ReadTxn
	lost  map[*store.Table]*stranded // the rows to be deleted, and the stranded ones
	order []*Member                  // whose tables have such rows

	undecided bool // some of the stranded rows depend on rows that are pending: if these become done, they suffice
}

// strands describes the tables of the group of which deleting rows of m would strand rows, if a limit does not allow to lose
// these and the ones that count already, or returns "". Earlier ones count, too. What was not applied yet can be stranded: whether
// it was is not known at the start. It also returns what would be stranded.
func (m *Member) strands(txn store.ReadTxn, deleted []*store.Entry, limit ChangeLimit, earlier keysOfMembers, now time.Time) (string, *strandings) {
	s := &strandings{txn: txn, lost: map[*store.Table]*stranded{}}
	for _, row := range deleted {
		if m.table.FindKey(txn, row.Key()) == nil { // otherwise it is back
			s.in(m).add(row)
		}
	}
	gone := len(s.in(m).rows)
	s.follow(m, m.group.remaining())
	var texts []string
	for _, of := range s.order {
		lost := s.lost[of.table].rows
		n := len(lost)
		if of == m {
			n -= gone
		}
		if n == 0 {
			continue
		}
		of.losses.expire(now)
		sum := of.losses.with(lost, earlier[of])
		all := of.table.Len(txn) + of.losses.len() - of.losses.strandedRows()
		if sum <= of.losses.allowed(limit, all) {
			continue
		}
		text := fmt.Sprintf("%d of %d rows of %s", n, all, of.table.Name())
		if sum > n {
			text += fmt.Sprintf(" (%d with those lost within %v)", sum, limit.Window)
		}
		texts = append(texts, text)
	}
	if len(texts) == 0 {
		return "", s
	}
	return strings.Join(texts, " and ") + " would lack what they depend on", s
}

// keysOfMembers are encoded keys of rows of the tables of members.
type keysOfMembers map[*Member]map[string]bool

// done returns the rows that were deleted or stranded before of the tables of which rows would be stranded.
func (s *strandings) done() keysOfMembers {
	done := keysOfMembers{}
	for _, m := range s.order {
		done[m] = m.losses.done()
	}
	return done
}

// note records that the rows are stranded, because the deletes are let through.
func (s *strandings) note(now time.Time) {
	for _, m := range s.order {
		for key, row := range s.lost[m.table].rows {
			if m.table.FindKey(s.txn, row.Key()) != nil {
				m.losses.strand(key, now)
			}
		}
	}
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
	lost := s.lost[d.Table]
	if d.OneOf == nil {
		queries, _ := d.appendQueries(nil, row)
		n.lost = slices.ContainsFunc(s.answered(d, queries), lost.has)
		return n
	}
	n.pending = true
	_ = pool.Guard(func() { // reported for the row itself
		d.OneOf(row, func(queries Queries) bool {
			s.askFor(d, slices.Collect(iter.Seq[store.Query](queries)), &n)
			return true
		})
	})
	return n
}

// answered returns those of some queries that the table can answer. The others are reported for the row itself.
func (s *strandings) answered(d *Dependency, queries []store.Query) []store.Query {
	return slices.DeleteFunc(queries, func(q store.Query) bool {
		_, err := d.Table.LenOf(s.txn, q.Index.NameOrNone())
		return err != nil
	})
}

// askFor adds to n what is lost of the rows that some queries name and of which one is needed.
func (s *strandings) askFor(d *Dependency, queries []store.Query, n *needed) {
	lost := s.lost[d.Table]
	if queries = s.answered(d, queries); !slices.ContainsFunc(queries, lost.has) {
		return
	}
	var only *store.Entry
	pending := false
	for _, q := range queries {
		for e := range d.Table.List(s.txn, q, nil).Entries() {
			switch {
			case lost.rows[string(e.Key())] != nil:
			case d.notDone(e) != "": // the target may never have it
				pending = pending || d.notDone(e) == pendingState
			case only == nil:
				only = e
			case only != e:
				return
			}
		}
	}
	if only != nil {
		n.only = append(n.only, only)
		return
	}
	n.lost, n.pending = true, n.pending && pending
}

// dependentsCheck finds out whether deletes would strand too many rows. It reads all rows that may depend on them, so it does so
// a tenth of the time at most.
type dependentsCheck struct {
	member *Member
	stale  bool      // rows to be deleted were added or withdrawn since the last check
	next   time.Time // when another check may be made
	asked  time.Time // when the first of the checks was made that pending rows have left undecided; zero: the last one was not
	// earlier are the rows that had been lost within the window when deletes were held. They count while these are.
	earlier keysOfMembers
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
		d.earlier = nil
	}
	text, s := d.member.strands(txn, c.rowsToChange(), c.limit, d.earlier, now)
	if text != "" && s.undecided && !c.holding {
		if d.asked.IsZero() {
			d.asked = now
		}
		if now.Sub(d.asked) < checkInterval {
			d.next = now.Add(max(pendingRetry, 10*time.Since(began)))
			return d.next
		}
	}
	d.asked = time.Time{}
	switch {
	case text == "" && !c.holding:
		s.note(now)
	case text != "" && c.strands == "":
		d.earlier = s.done()
	}
	c.strands = text
	d.stale, d.next = false, now.Add(10*time.Since(began))
	if c.strands != "" {
		d.next = d.next.Add(checkInterval)
	}
	return time.Time{}
}
