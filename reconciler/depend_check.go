package reconciler

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/statehive/statehive/statedb"
)

// maxVerdicts is how many sets of dependencies a checker remembers.
const maxVerdicts = 1024

// checker tells which rows have to wait for others. It belongs to one goroutine: most
// rows depend on what others before them depended on, which is looked up once.
type checker[Obj any] interface {
	// blocker returns a row that obj has to wait for, if there is one.
	blocker(txn statedb.ReadTxn, obj Obj) (blocker, bool)
	// same reports whether blocker returns the same of each row in two snapshots.
	same(a, b statedb.ReadTxn) bool
}

// dependencyChecker is the checker of a dependency.
type dependencyChecker[Obj, Dep any] struct {
	*dependsOn[Obj, Dep]
	versions []tableVersion     // of what the verdicts are made of
	verdicts map[string]blocker // by set of queries; with an empty text nothing blocks
	index    string             // that the table is known to have; empty: none

	queries []statedb.Query[Dep] // of one row
	set     []byte               // the same as a key of verdicts
}

// tableVersion tells one state of a table from another.
type tableVersion struct {
	revision statedb.Revision
	complete bool
}

func (d *dependsOn[Obj, Dep]) checker() checker[Obj] {
	return &dependencyChecker[Obj, Dep]{
		dependsOn: d, versions: make([]tableVersion, 1+len(d.observed)), verdicts: map[string]blocker{},
	}
}

func (c *dependencyChecker[Obj, Dep]) blocker(txn statedb.ReadTxn, obj Obj) (b blocker, blocked bool) {
	var err error
	if c.queries, err = c.appendQueries(c.queries[:0], obj); err != nil {
		return c.unknown(err), true
	}
	c.renew(txn)
	c.set = c.set[:0]
	for _, q := range c.queries {
		c.set = appendText(appendText(c.set, q.Index()), q.Encoded())
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
func (c *dependencyChecker[Obj, Dep]) unknown(err error) blocker {
	return blocker{text: fmt.Sprintf("rows of table %s that are not known: %v", c.of.Name(), err)}
}

// appendText appends a text behind its length.
func appendText(to []byte, text string) []byte {
	return append(binary.AppendUvarint(to, uint64(len(text))), text...)
}

// known returns an error if a query is not of the table: it would find nothing.
func (c *dependencyChecker[Obj, Dep]) known(txn statedb.ReadTxn) error {
	for _, q := range c.queries {
		if q.Index() != "" && q.Index() == c.index {
			continue
		}
		if _, err := c.of.LenOf(txn, q.Index()); err != nil {
			return err
		}
		c.index = q.Index()
	}
	return nil
}

func (c *dependencyChecker[Obj, Dep]) version(txn statedb.ReadTxn) tableVersion {
	initialized, _ := c.of.Initialized(txn)
	return tableVersion{c.of.Revision(txn), initialized}
}

// renew forgets the verdicts if they may be others in a snapshot.
func (c *dependencyChecker[Obj, Dep]) renew(txn statedb.ReadTxn) {
	changed := c.setVersion(0, c.version(txn))
	for i, o := range c.observed {
		changed = c.setVersion(i+1, o.version(txn)) || changed
	}
	if changed {
		clear(c.verdicts)
	}
}

func (c *dependencyChecker[Obj, Dep]) same(a, b statedb.ReadTxn) bool {
	if c.version(a) != c.version(b) {
		return false
	}
	for _, o := range c.observed {
		if o.version(a) != o.version(b) {
			return false
		}
	}
	return true
}

// setVersion notes a version, and reports whether it was another one.
func (c *dependencyChecker[Obj, Dep]) setVersion(i int, v tableVersion) bool {
	was := c.versions[i]
	c.versions[i] = v
	return v != was
}

// first returns the first that is in the way of a row with the queries, or the zero
// blocker.
func (c *dependencyChecker[Obj, Dep]) first(txn statedb.ReadTxn) blocker {
	if initialized, _ := c.of.Initialized(txn); !initialized && len(c.queries) > 0 {
		return blocker{text: fmt.Sprintf("table %s, which %s", c.of.Name(), c.lacks(txn))}
	}
	for _, q := range c.queries {
		for dep := range c.of.List(txn, q) {
			if b, blocked := c.blocks(txn, dep); blocked {
				return b
			}
		}
	}
	return blocker{}
}

// checkers tell for each of Params.DependsOn which rows have to wait.
type checkers[Obj any] []checker[Obj]

func (r *Reconciler[Obj]) newCheckers() (all checkers[Obj]) {
	for _, d := range r.p.DependsOn {
		all = append(all, d.on.checker())
	}
	return all
}

// blocked reports whether a row has to wait for another one.
func (c checkers[Obj]) blocked(txn statedb.ReadTxn, obj Obj) bool {
	for _, d := range c {
		if _, blocked := d.blocker(txn, obj); blocked {
			return true
		}
	}
	return false
}

// same reports whether the same rows are blocked in two snapshots.
func (c checkers[Obj]) same(a, b statedb.ReadTxn) bool {
	for _, d := range c {
		if !d.same(a, b) {
			return false
		}
	}
	return true
}

// dependent puts an operation aside that has to wait for another row.
func (l *loop[Obj]) dependent(op operation[Obj], txn statedb.ReadTxn, now time.Time) bool {
	if op.kind == opDelete {
		return l.outOfOrder(op, txn, now)
	}
	for i, d := range l.depends {
		b, blocked := d.blocker(txn, op.obj)
		if !blocked {
			continue
		}
		l.r.waits[i].add(b, op.item.key)
		l.park(op.item, holdDependency, b.text)
		// What happened before the wait was known has woken nobody.
		if newest, still := d.blocker(l.r.p.DB.ReadTxn(), op.obj); !still || !newest.is(b) {
			l.r.free([]string{op.item.key})
		}
		return true
	}
	return false
}
