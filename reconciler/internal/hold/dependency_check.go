package hold

import (
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/statehive/statehive/internal/store"
	"github.com/statehive/statehive/reconciler/internal/pool"
	"github.com/statehive/statehive/reconciler/internal/workqueue"
)

// Checker is the policy that holds updates of rows until the rows that they depend on are done.
// It caches results, and belongs to one goroutine.
type Checker struct {
	of     *Dependencies
	tables []*tableChecker  // of each dependency
	waits  map[string]*wait // for rows of the own table; nil: no dependency is on that
}

// NewChecker returns a checker.
func (d *Dependencies) NewChecker() *Checker {
	c := &Checker{of: d}
	for i := range d.all {
		t := newTableChecker(d.all[i], d.owner.Table)
		if c.tables = append(c.tables, t); t.own && c.waits == nil {
			c.waits = map[string]*wait{}
		}
	}
	return c
}

// Blocked reports whether a row has to wait for another one.
func (c *Checker) Blocked(txn store.ReadTxn, row *store.Entry) bool {
	_, _, blocked := c.first(txn, row)
	return blocked
}

// first returns the first blocker of a row, if there is any, and the index of its dependency.
func (c *Checker) first(txn store.ReadTxn, row *store.Entry) (i int, b blocker, blocked bool) {
	for i, t := range c.tables {
		if b, blocked := t.blocker(txn, row); blocked {
			return i, b, true
		}
	}
	return 0, blocker{}, false
}

// Same reports whether the same rows are blocked in two snapshots.
func (c *Checker) Same(a, b store.ReadTxn) bool {
	for _, t := range c.tables {
		if !t.same(a, b) {
			return false
		}
	}
	return true
}

// Holds implements [Policy].
func (c *Checker) Holds(t *pool.Task, txn store.ReadTxn, _ time.Time) (why Reason, held bool) {
	before := c.waits[t.Item.Key]
	delete(c.waits, t.Item.Key)
	if t.Kind != pool.Delete {
		why, held = c.holds(t, txn)
	}
	c.endCycle(t.Item.Key, before)
	return why, held
}

func (c *Checker) holds(t *pool.Task, txn store.ReadTxn) (Reason, bool) {
	key := t.Item.Key
	i, b, blocked := c.first(txn, t.Entry)
	if !blocked {
		return Reason{}, false
	}
	c.of.all[i].add(b, key)
	// A change that came before the row was added has not released it.
	if newest, newer, still := c.first(c.of.owner.DB.ReadTxn(), t.Entry); !still || newest != i || !newer.equal(b) {
		c.of.release([]string{key})
	}
	text := b.text
	if c.tables[i].own && b.key != "" {
		c.waits[key] = &wait{next: b.key, because: c.tables[i]}
		text += c.cycle(txn, key)
	}
	return Reason{Stage: workqueue.Dependency, Text: text}, true
}

// maxVerdicts is how many verdicts of a kind a tableChecker remembers.
const maxVerdicts = 1024

// tableChecker finds the rows of one table that block others. Many rows depend on the same rows,
// so it remembers a verdict for all rows with the same [Dependency.key], until the results of
// queries may change. If an index has only some of the rows, as is common when rows depend on a
// few rows of their own table, changes of other rows do not matter.
type tableChecker struct {
	*Dependency
	own      bool // the table is the reconciled table itself
	indexes  *indexSet
	verdicts verdicts

	// The snapshot for which the verdicts hold.
	state    string         // of the table
	versions []uint64       // of the indexes
	observed []tableVersion // of all tables, if rows are compared with the observed state
	compared int            // how often one of observed has changed

	// Scratch memory.
	queries []store.Query
	text    []byte
	spare   []tableVersion
}

// verdicts remembers the verdict for rows with the same [Dependency.key], up to maxVerdicts of
// each kind.
type verdicts struct {
	by      map[any]verdict
	queries map[string]verdict
}

func (v *verdicts) get(by any, queries []byte) (known verdict, ok bool) {
	if by != nil {
		known, ok = v.by[by]
	} else {
		known, ok = v.queries[string(queries)]
	}
	return known, ok
}

func (v *verdicts) set(by any, queries []byte, to verdict) {
	if len(v.by) >= maxVerdicts || len(v.queries) >= maxVerdicts {
		v.clear()
	}
	if by != nil {
		v.by[by] = to
	} else {
		v.queries[string(queries)] = to
	}
}

func (v *verdicts) clear() {
	clear(v.by)
	clear(v.queries)
}

// verdict is the blocker of rows, if there is any.
type verdict struct {
	blocker
	found    bool // the named rows exist, so their comparison with the observed state matters
	compared int  // tableChecker.compared
}

// tableVersion identifies a state of a table.
type tableVersion struct {
	revision store.Revision
	complete bool
}

// indexSet is the indexes that rows are named with. It is safe for concurrent use.
type indexSet struct {
	list atomic.Pointer[[]*store.Index]
}

// all returns the indexes. Later calls may return more, but always in the same order.
func (s *indexSet) all() []*store.Index {
	if list := s.list.Load(); list != nil {
		return *list
	}
	return nil
}

func (s *indexSet) add(ix *store.Index) {
	for {
		before := s.list.Load()
		all := s.all()
		if slices.ContainsFunc(all, func(known *store.Index) bool { return known.Name == ix.Name }) {
			return
		}
		all = append(slices.Clone(all), ix)
		if s.list.CompareAndSwap(before, &all) {
			return
		}
	}
}

func newTableChecker(t tracked, own *store.Table) *tableChecker {
	return &tableChecker{
		Dependency: t.Dependency, own: t.Table == own, indexes: t.indexes,
		verdicts: verdicts{by: map[any]verdict{}, queries: map[string]verdict{}},
	}
}

// blocker returns the blocker of a row, if there is any.
func (c *tableChecker) blocker(txn store.ReadTxn, row *store.Entry) (b blocker, blocked bool) {
	var by any
	var err error
	if by, c.text, err = c.key(row, c.text); err != nil {
		return c.unknown(err), true
	}
	c.renew(txn)
	v, known := c.verdicts.get(by, c.text)
	if !known || v.found && v.compared != c.compared {
		if v, err = c.find(txn, row, ""); err != nil {
			return c.unknown(err), true
		}
		c.verdicts.set(by, c.text, v)
	}
	if c.own && v.key == string(row.Key()) {
		if v, err = c.find(txn, row, v.key); err != nil { // a row does not wait for itself
			return c.unknown(err), true
		}
	}
	return v.blocker, v.text != ""
}

// unknown returns the blocker of a row whose dependencies cannot be determined.
func (c *tableChecker) unknown(err error) blocker {
	return blocker{text: fmt.Sprintf("unknown rows of table %s: %v", c.Table.Name(), err)}
}

// ask sets the queries of a row. It returns an error if one of them is not a query of the table,
// since it would find nothing.
func (c *tableChecker) ask(txn store.ReadTxn, row *store.Entry) (err error) {
	if c.queries, err = c.appendQueries(c.queries[:0], row); err != nil {
		return err
	}
	var known *store.Index
	for _, q := range c.queries {
		if known != nil && q.Index == known {
			continue
		}
		if _, err := c.Table.IndexVersion(txn, q.Index); err != nil {
			return err
		}
		known = q.Index
		c.indexes.add(known)
	}
	c.renewIndexes(txn)
	return nil
}

// find returns the first blocker of a row. The row with the encoded key except is ignored; if
// except is empty, none is.
func (c *tableChecker) find(txn store.ReadTxn, row *store.Entry, except string) (v verdict, err error) {
	if err := c.ask(txn, row); err != nil {
		return v, err
	}
	v.compared = c.compared
	if c.state != "" && len(c.queries) > 0 {
		v.text = fmt.Sprintf("table %s, which %s", c.Table.Name(), c.state)
		return v, nil
	}
	for _, q := range c.queries {
		for dep := range c.Table.List(txn, q, nil).Entries() {
			v.found = true
			if except != "" && string(dep.Key()) == except {
				continue
			}
			var blocked bool
			if v.blocker, blocked = c.blocks(txn, dep); blocked {
				return v, nil
			}
		}
	}
	return v, nil
}

// appendObserved appends the versions of all tables that a comparison with the observed state may
// depend on, if there is such a comparison.
func (d *Dependency) appendObserved(to []tableVersion, txn store.ReadTxn) []tableVersion {
	if len(d.Observed) > 0 {
		to = append(to, tableVersion{d.Table.Revision(txn), true})
	}
	for _, o := range d.Observed {
		to = append(to, tableVersion{o.Table.Revision(txn), o.Reliable(txn)})
	}
	return to
}

// renew forgets the verdicts that may differ in a snapshot.
func (c *tableChecker) renew(txn store.ReadTxn) {
	if state := c.tableState(txn); state != c.state {
		c.state = state
		c.verdicts.clear()
	}
	c.renewIndexes(txn)
	before := c.observed
	c.observed = c.appendObserved(c.spare[:0], txn)
	if c.spare = before; !slices.Equal(before, c.observed) {
		c.compared++
	}
}

// renewIndexes forgets the verdicts if one of the indexes has changed. No verdict depends on an
// index that was unknown so far.
func (c *tableChecker) renewIndexes(txn store.ReadTxn) {
	changed := false
	for i, ix := range c.indexes.all() {
		version, _ := c.Table.IndexVersion(txn, ix) // the table has it
		if i == len(c.versions) {
			c.versions = append(c.versions, version)
		}
		changed = changed || version != c.versions[i]
		c.versions[i] = version
	}
	if changed {
		c.verdicts.clear()
	}
}

// same reports whether verdicts are the same in two snapshots.
func (c *tableChecker) same(a, b store.ReadTxn) bool {
	if c.tableState(a) != c.tableState(b) {
		return false
	}
	for _, ix := range c.indexes.all() {
		before, _ := c.Table.IndexVersion(a, ix)
		if now, _ := c.Table.IndexVersion(b, ix); now != before {
			return false
		}
	}
	return slices.Equal(c.appendObserved(nil, a), c.appendObserved(nil, b))
}
