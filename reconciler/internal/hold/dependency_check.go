package hold

import (
	"fmt"
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
		t := newTableChecker(d.all[i].Dependency, d.owner.Table)
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

// first returns what a row has to wait for first, if anything, and the dependency because of which.
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
	// A change that came before it was added has not released it.
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

// maxVerdicts is how many sets of queries a tableChecker remembers.
const maxVerdicts = 1024

// tableChecker finds the rows of one table that block others. Many rows depend on the same rows,
// so it caches the result for each set of queries.
type tableChecker struct {
	*Dependency
	own      bool               // the table is that of the rows themselves
	versions []tableVersion     // for which the verdicts hold
	verdicts map[string]blocker // by set of queries; with an empty text nothing blocks
	index    string             // that the table is known to have; empty: none

	queries []store.Query // of one row
	set     []byte        // the same as a key of verdicts
}

// tableVersion identifies a state of a table.
type tableVersion struct {
	revision store.Revision
	complete bool
}

func newTableChecker(d *Dependency, own *store.Table) *tableChecker {
	return &tableChecker{
		Dependency: d, own: d.Table == own, versions: make([]tableVersion, 1+len(d.Observed)), verdicts: map[string]blocker{},
	}
}

// blocker returns what a row has to wait for, if anything.
func (c *tableChecker) blocker(txn store.ReadTxn, row *store.Entry) (b blocker, blocked bool) {
	var err error
	if c.queries, err = c.appendQueries(c.queries[:0], row); err != nil {
		return c.unknown(err), true
	}
	c.renew(txn)
	c.set = c.set[:0]
	for _, q := range c.queries {
		c.set = appendQuery(c.set, q)
	}
	b, known := c.verdicts[string(c.set)]
	if !known {
		if err := c.checkQueries(txn); err != nil {
			return c.unknown(err), true
		}
		if len(c.verdicts) == maxVerdicts {
			clear(c.verdicts)
		}
		b = c.find(txn, "")
		c.verdicts[string(c.set)] = b
	}
	if c.own && b.key == string(row.Key()) {
		b = c.find(txn, b.key) // a row does not wait for itself
	}
	return b, b.text != ""
}

// unknown is what a row waits for if its dependencies cannot be determined.
func (c *tableChecker) unknown(err error) blocker {
	return blocker{text: fmt.Sprintf("rows of table %s that are not known: %v", c.Table.Name(), err)}
}

// checkQueries returns an error if a query is not one of the table, since it would find nothing.
func (c *tableChecker) checkQueries(txn store.ReadTxn) error {
	for _, q := range c.queries {
		name := q.Index.NameOrNone()
		if name != "" && name == c.index {
			continue
		}
		if _, err := c.Table.LenOf(txn, name); err != nil {
			return err
		}
		c.index = name
	}
	return nil
}

// find returns the first blocker of rows with the queries, or the zero value. Except is the encoded
// key of a row that is none; empty: there is no such row.
func (c *tableChecker) find(txn store.ReadTxn, except string) blocker {
	if initialized, _ := c.Table.Initialized(txn); !initialized && len(c.queries) > 0 {
		return blocker{text: fmt.Sprintf("table %s, which %s", c.Table.Name(), c.tableState(txn))}
	}
	for _, q := range c.queries {
		for dep := range c.Table.List(txn, q, nil).Entries() {
			if except != "" && string(dep.Key()) == except {
				continue
			}
			if b, blocked := c.blocks(txn, dep); blocked {
				return b
			}
		}
	}
	return blocker{}
}

// version returns the version of the i-th table that verdicts depend on.
func (c *tableChecker) version(i int, txn store.ReadTxn) tableVersion {
	if i == 0 {
		initialized, _ := c.Table.Initialized(txn)
		return tableVersion{c.Table.Revision(txn), initialized}
	}
	o := c.Observed[i-1]
	return tableVersion{o.Table.Revision(txn), o.Reliable(txn)}
}

// renew forgets the verdicts if they may differ in a snapshot.
func (c *tableChecker) renew(txn store.ReadTxn) {
	changed := false
	for i, before := range c.versions {
		c.versions[i] = c.version(i, txn)
		changed = changed || c.versions[i] != before
	}
	if changed {
		clear(c.verdicts)
	}
}

// same reports whether verdicts are the same in two snapshots.
func (c *tableChecker) same(a, b store.ReadTxn) bool {
	for i := range c.versions {
		if c.version(i, a) != c.version(i, b) {
			return false
		}
	}
	return true
}
