package engine

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/statehive/statehive/internal/store"
	"github.com/statehive/statehive/reconciler/internal/pool"
	"github.com/statehive/statehive/reconciler/internal/workqueue"
)

// maxVerdicts is how many sets of dependencies a checker remembers.
const maxVerdicts = 1024

// checker tells which rows have to wait for others. It belongs to one goroutine: most
// rows depend on what others before them depended on, which is looked up once.
type checker struct {
	*Dependency
	versions []tableVersion     // of what the verdicts are made of
	verdicts map[string]blocker // by set of queries; with an empty text nothing blocks
	index    string             // that the table is known to have; empty: none

	queries []store.Query // of one row
	set     []byte        // the same as a key of verdicts
}

// tableVersion tells one state of a table from another.
type tableVersion struct {
	revision store.Revision
	complete bool
}

func (d *Dependency) checker() *checker {
	return &checker{Dependency: d, versions: make([]tableVersion, 1+len(d.Observed)), verdicts: map[string]blocker{}}
}

// blocker returns a row that another has to wait for, if there is one.
func (c *checker) blocker(txn store.ReadTxn, row *store.Entry) (b blocker, blocked bool) {
	var err error
	if c.queries, err = c.appendQueries(c.queries[:0], row); err != nil {
		return c.unknown(err), true
	}
	c.renew(txn)
	c.set = c.set[:0]
	for _, q := range c.queries {
		c.set = appendText(appendText(c.set, q.Index.NameOrNone()), q.Key)
	}
	b, known := c.verdicts[string(c.set)]
	if !known {
		if err := c.known(txn); err != nil {
			return c.unknown(err), true
		}
		if len(c.verdicts) == maxVerdicts {
			clear(c.verdicts)
		}
		b = c.first(txn)
		c.verdicts[string(c.set)] = b
	}
	return b, b.text != ""
}

// unknown is what a row waits for of which that is not known.
func (c *checker) unknown(err error) blocker {
	return blocker{text: fmt.Sprintf("rows of table %s that are not known: %v", c.Table.Name(), err)}
}

// appendText appends a text behind its length.
func appendText[T string | []byte](to []byte, text T) []byte {
	return append(binary.AppendUvarint(to, uint64(len(text))), text...)
}

// known returns an error if a query is not of the table: it would find nothing.
func (c *checker) known(txn store.ReadTxn) error {
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

func (c *checker) version(txn store.ReadTxn) tableVersion {
	initialized, _ := c.Table.Initialized(txn)
	return tableVersion{c.Table.Revision(txn), initialized}
}

// renew forgets the verdicts if they may be others in a snapshot.
func (c *checker) renew(txn store.ReadTxn) {
	changed := c.setVersion(0, c.version(txn))
	for i, o := range c.Observed {
		changed = c.setVersion(i+1, observedVersion(o, txn)) || changed
	}
	if changed {
		clear(c.verdicts)
	}
}

// same reports whether blocker returns the same of each row in two snapshots.
func (c *checker) same(a, b store.ReadTxn) bool {
	if c.version(a) != c.version(b) {
		return false
	}
	for _, o := range c.Observed {
		if observedVersion(o, a) != observedVersion(o, b) {
			return false
		}
	}
	return true
}

// setVersion notes a version, and reports whether it was another one.
func (c *checker) setVersion(i int, v tableVersion) bool {
	was := c.versions[i]
	c.versions[i] = v
	return v != was
}

// first returns the first that is in the way of a row with the queries, or the zero
// blocker.
func (c *checker) first(txn store.ReadTxn) blocker {
	if initialized, _ := c.Table.Initialized(txn); !initialized && len(c.queries) > 0 {
		return blocker{text: fmt.Sprintf("table %s, which %s", c.Table.Name(), c.lacks(txn))}
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

// checkers tell for each of Params.DependsOn which rows have to wait.
type checkers []*checker

func (r *Engine) newCheckers() (all checkers) {
	for i := range r.p.DependsOn {
		all = append(all, r.p.DependsOn[i].checker())
	}
	return all
}

// blocked reports whether a row has to wait for another one.
func (c checkers) blocked(txn store.ReadTxn, row *store.Entry) bool {
	for _, d := range c {
		if _, blocked := d.blocker(txn, row); blocked {
			return true
		}
	}
	return false
}

// same reports whether the same rows are blocked in two snapshots.
func (c checkers) same(a, b store.ReadTxn) bool {
	for _, d := range c {
		if !d.same(a, b) {
			return false
		}
	}
	return true
}

// dependent puts an operation aside that has to wait for another row.
func (l *loop) dependent(op *pool.Task, txn store.ReadTxn, now time.Time) bool {
	if op.Kind == pool.Delete {
		return l.outOfOrder(op, txn, now)
	}
	for i, d := range l.depends {
		b, blocked := d.blocker(txn, op.Entry)
		if !blocked {
			continue
		}
		l.r.waits[i].add(b, op.Item.Key)
		l.park(op.Item, workqueue.Dependency, time.Time{}, b.text)
		// What happened before the wait was known has woken nobody.
		if newest, still := d.blocker(l.r.p.DB.ReadTxn(), op.Entry); !still || !newest.is(b) {
			l.r.free([]string{op.Item.Key})
		}
		return true
	}
	return false
}

func observedVersion(o *Observation, txn store.ReadTxn) tableVersion {
	return tableVersion{o.Table.Revision(txn), o.Reliable(txn)}
}
