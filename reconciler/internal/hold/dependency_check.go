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
	tables []*tableChecker // of each dependency
}

// NewChecker returns a checker.
func (d *Dependencies) NewChecker() *Checker {
	c := &Checker{of: d}
	for i := range d.all {
		c.tables = append(c.tables, newTableChecker(d.all[i].Dependency))
	}
	return c
}

// Blocked reports whether a row has to wait for another one.
func (c *Checker) Blocked(txn store.ReadTxn, row *store.Entry) bool {
	for _, t := range c.tables {
		if _, blocked := t.blocker(txn, row); blocked {
			return true
		}
	}
	return false
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
func (c *Checker) Holds(t *pool.Task, txn store.ReadTxn, _ time.Time) (Reason, bool) {
	if t.Kind == pool.Delete {
		return Reason{}, false
	}
	for i, table := range c.tables {
		b, blocked := table.blocker(txn, t.Entry)
		if !blocked {
			continue
		}
		c.of.all[i].add(b, t.Item.Key)
		// A change that came before it was added has not released it.
		if newest, still := table.blocker(c.of.db.ReadTxn(), t.Entry); !still || !newest.equal(b) {
			c.of.release([]string{t.Item.Key})
		}
		return Reason{Stage: workqueue.Dependency, Text: b.text}, true
	}
	return Reason{}, false
}

// maxVerdicts is how many sets of queries a tableChecker remembers.
const maxVerdicts = 1024

// tableChecker finds the rows of one table that block others. Many rows depend on the same rows,
// so it caches the result for each set of queries.
type tableChecker struct {
	*Dependency
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

func newTableChecker(d *Dependency) *tableChecker {
	return &tableChecker{Dependency: d, versions: make([]tableVersion, 1+len(d.Observed)), verdicts: map[string]blocker{}}
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
		b = c.find(txn)
		c.verdicts[string(c.set)] = b
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

// find returns the first blocker of rows with the queries, or the zero value.
func (c *tableChecker) find(txn store.ReadTxn) blocker {
	if initialized, _ := c.Table.Initialized(txn); !initialized && len(c.queries) > 0 {
		return blocker{text: fmt.Sprintf("table %s, which %s", c.Table.Name(), c.tableState(txn))}
	}
	for _, q := range c.queries {
		for dep := range c.Table.List(txn, q, nil).Entries() {
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
