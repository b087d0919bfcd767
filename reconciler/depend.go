package reconciler

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/statehive/statehive/statedb"
)

// Dependency makes rows wait for rows of another table. [DependsOn] makes it.
type Dependency[Obj any] struct{ on dependency[Obj] }

// DependsOn has a row updated only when all rows of another table that on names,
// by any of its indexes, are done: the table must be initialized, and a row that
// is not in it does not count, because what it stands for may be there without
// it. The row waits until one of them changes; it stands in the not-done table
// meanwhile and says for what. It is not updated again when they change later:
// for that there is [Watches]. Deletes do not wait; see [Group] for their order.
//
// on is called from several goroutines, also of rows that are deleted. It says
// the same of the same row each time, and returns soon. Of a row for which it
// panics, or asks for an index that the table has not, nobody knows what it waits
// for: it waits, and so it does once the table is dropped. status may be called
// from several goroutines too.
func DependsOn[Obj, Dep any](
	table statedb.Table[Dep], status func(Dep) Status, on func(Obj) iter.Seq[statedb.Query[Dep]],
) Dependency[Obj] {
	return Dependency[Obj]{&dependsOn[Obj, Dep]{table, status, on}}
}

// dependency is a [Dependency] with the row type of the other table out of sight.
type dependency[Obj any] interface {
	check() error
	table() statedb.TableMeta
	// blocker returns a row that obj has to wait for, if there is one.
	blocker(txn statedb.ReadTxn, obj Obj) (blocker, bool)
	named(obj Obj) []namedRow
	// begin returns a function that follows the table from now on.
	begin(r *Reconciler[Obj], waits *dependencyWaits) (follow func(context.Context))
}

// blocker is what a row waits for.
type blocker struct {
	key  string // encoded; empty: the table itself
	text string
}

// namedRow is a row, or several, that a row depends on.
type namedRow struct {
	rowsKey
	matches func(row any) bool
}

type dependsOn[Obj, Dep any] struct {
	of     statedb.Table[Dep]
	status func(Dep) Status
	on     func(Obj) iter.Seq[statedb.Query[Dep]]
}

func (d *dependsOn[Obj, Dep]) check() error {
	switch {
	case d.of == nil:
		return errors.New("the table is not set")
	case d.status == nil:
		return errors.New("the function that tells a status is not set")
	case d.on == nil:
		return errors.New("the function that names rows is not set")
	}
	return nil
}

func (d *dependsOn[Obj, Dep]) table() statedb.TableMeta { return d.of }

// queries are what on names of a row, also if it panics then.
func (d *dependsOn[Obj, Dep]) queries(obj Obj) (queries []statedb.Query[Dep], err error) {
	err = guard(func() {
		if seq := d.on(obj); seq != nil {
			for q := range seq {
				queries = append(queries, q)
			}
		}
	})
	return queries, err
}

// known returns an error if a query is not of the table: it would find nothing.
func (d *dependsOn[Obj, Dep]) known(txn statedb.ReadTxn, queries []statedb.Query[Dep]) error {
	for _, q := range queries {
		if _, err := d.of.LenOf(txn, q.Index()); err != nil {
			return err
		}
	}
	return nil
}

func (d *dependsOn[Obj, Dep]) blocker(txn statedb.ReadTxn, obj Obj) (blocker, bool) {
	queries, err := d.queries(obj)
	if err == nil {
		err = d.known(txn, queries)
	}
	if err != nil {
		return blocker{text: fmt.Sprintf("rows of table %s that are not known: %v", d.of.Name(), err)}, true
	}
	if initialized, _ := d.of.Initialized(txn); !initialized && len(queries) > 0 {
		return blocker{text: fmt.Sprintf("table %s, which %s", d.of.Name(), d.lacks(txn))}, true
	}
	for _, q := range queries {
		for dep := range d.of.List(txn, q) {
			if state := d.undone(dep); state != "" {
				return blocker{d.of.KeyQuery(dep).Encoded(), fmt.Sprintf("%s %s, which is %s", d.of.Name(), d.of.Key(dep), state)}, true
			}
		}
	}
	return blocker{}, false
}

// lacks says why the table is not initialized.
func (d *dependsOn[Obj, Dep]) lacks(txn statedb.ReadTxn) string {
	if len(d.of.Sources(txn)) == 0 {
		return "was dropped"
	}
	return "is not initialized"
}

// undone says how it stands with a row that is not done, and nothing of one that is.
func (d *dependsOn[Obj, Dep]) undone(dep Dep) string {
	var s Status
	if panicked := guard(func() { s = d.status(dep) }); panicked != nil {
		return "not known to be done: " + panicked.Error()
	}
	if s.Kind() == Done {
		return ""
	}
	return describe(s)
}

func describe(s Status) string {
	if s.Kind() == Error {
		return "in " + s.String()
	}
	return s.String()
}

func (d *dependsOn[Obj, Dep]) named(obj Obj) (rows []namedRow) {
	queries, _ := d.queries(obj) // what is wrong is known from the row itself
	for _, q := range queries {
		rows = append(rows, namedRow{rowsKey{d.of, q.Index(), q.Encoded()}, func(row any) bool {
			dep, ok := row.(Dep)
			return ok && d.of.Matches(q, dep)
		}})
	}
	return rows
}

func (d *dependsOn[Obj, Dep]) begin(r *Reconciler[Obj], waits *dependencyWaits) func(context.Context) {
	cursor := d.of.Changes(d.of.Revision(r.p.DB.ReadTxn()))
	return func(ctx context.Context) {
		defer cursor.Close()
		for {
			select {
			case <-ctx.Done():
				return
			case <-cursor.Watch(): // nil once the table was dropped
				r.free(d.freed(cursor, r.p.DB.ReadTxn(), waits))
			}
		}
	}
}

// freed returns the keys of the rows whose wait may have ended.
func (d *dependsOn[Obj, Dep]) freed(cursor *statedb.Cursor[Dep], txn statedb.ReadTxn, waits *dependencyWaits) (keys []string) {
	for change := range cursor.Next(txn) {
		// One that is still not done is taken too: what is said of it changes.
		if change.Kind == statedb.Reset {
			keys = append(keys, waits.takeAll()...)
		} else {
			keys = append(keys, waits.take(d.of.KeyQuery(change.Object).Encoded())...)
		}
	}
	if cursor.Err() != nil { // the table was dropped: what is said of it changes
		return waits.takeAll()
	}
	if initialized, _ := d.of.Initialized(txn); initialized {
		keys = append(keys, waits.take("")...)
	}
	return keys
}

// dependencyWaits are the rows that wait for rows of a table: encoded keys by
// encoded keys.
type dependencyWaits struct {
	mu   sync.Mutex
	rows map[string]map[string]bool
}

func (w *dependencyWaits) add(on, key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.rows == nil {
		w.rows = map[string]map[string]bool{}
	}
	if w.rows[on] == nil {
		w.rows[on] = map[string]bool{}
	}
	w.rows[on][key] = true
}

func (w *dependencyWaits) take(on string) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	keys := sortedKeys(w.rows[on])
	delete(w.rows, on)
	return keys
}

func (w *dependencyWaits) takeAll() (keys []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, rows := range w.rows {
		keys = append(keys, sortedKeys(rows)...)
	}
	clear(w.rows)
	return keys
}

// free makes rows ready that wait for others, if they still do.
func (r *Reconciler[Obj]) free(keys []string) {
	if len(keys) == 0 {
		return
	}
	_ = r.inbox.post(func(l *loop[Obj]) { // refused only when Run ends
		now := time.Now()
		for _, key := range keys {
			if it := l.queue.items[key]; it != nil && it.state == waiting && it.hold == holdDependency {
				l.enqueue(it, laneChange, reasonDependency, now)
			}
		}
	})
}

// checkDependencies says what is wrong with the params' dependencies.
func (p Params[Obj]) checkDependencies() error {
	for i, d := range p.DependsOn {
		if d.on == nil {
			return fmt.Errorf("Params.DependsOn[%d] is empty: make it with DependsOn", i)
		}
		if err := d.on.check(); err != nil {
			return fmt.Errorf("Params.DependsOn[%d]: %w", i, err)
		}
	}
	return nil
}

// blocked says whether a row has to wait for another one.
func (r *Reconciler[Obj]) blocked(txn statedb.ReadTxn, obj Obj) bool {
	for _, d := range r.p.DependsOn {
		if _, blocked := d.on.blocker(txn, obj); blocked {
			return true
		}
	}
	return false
}

// dependent puts an operation aside that has to wait for another row.
func (l *loop[Obj]) dependent(op operation[Obj], txn statedb.ReadTxn, now time.Time) bool {
	if op.kind == opDelete {
		return l.outOfOrder(op, txn, now)
	}
	for i, d := range l.r.p.DependsOn {
		b, blocked := d.on.blocker(txn, op.obj)
		if !blocked {
			continue
		}
		l.r.waits[i].add(b.key, op.item.key)
		l.park(op.item, holdDependency, b.text)
		// What happened before the wait was known has woken nobody.
		if newest, still := d.on.blocker(l.r.p.DB.ReadTxn(), op.obj); !still || newest != b {
			l.r.free([]string{op.item.key})
		}
		return true
	}
	return false
}
