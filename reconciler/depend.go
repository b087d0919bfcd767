package reconciler

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
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
// A status is old news: what a row stands for may have been removed or replaced
// since it was done. With observed, which is the [Observation] of the other
// table's own reconciler, a row that differs from what is observed satisfies nobody,
// until it agrees again. Nothing is concluded from observed rows that are not known
// to be all: while their table is not initialized or a source of it is incomplete,
// the status alone decides. A row whose comparison panics is waited for.
//
// on is called from several goroutines, also of rows that are deleted. It says
// the same of the same row each time, and returns soon. So does status; what it and
// the comparison with observed have said holds until one of the tables changes. Of a row for which it
// panics, or asks for an index that the table has not, nobody knows what it waits
// for: it waits, and so it does once the table is dropped. status may be called
// from several goroutines too.
func DependsOn[Obj, Dep any](
	table statedb.Table[Dep], status func(Dep) Status, on func(Obj) iter.Seq[statedb.Query[Dep]],
	observed ...Observation[Dep],
) Dependency[Obj] {
	d := &dependsOn[Obj, Dep]{of: table, status: status, on: on}
	for _, o := range observed {
		if o.of != nil { // the zero value compares with nothing
			d.observed = append(d.observed, o.of)
		}
	}
	return Dependency[Obj]{d}
}

// dependency is a [Dependency] with the row type of the other table out of sight.
type dependency[Obj any] interface {
	check() error
	table() statedb.TableMeta
	// tables are all that it reads.
	tables() []statedb.TableMeta
	// checker returns what tells who has to wait.
	checker() checker[Obj]
	// appendNames appends what tells rows apart that obj names others of.
	appendNames(to []byte, obj Obj) []byte
	named(obj Obj) []namedRow
	// begin returns a function that follows the table from now on.
	begin(r *Reconciler[Obj], waits *dependencyWaits) (follow func(context.Context))
}

// blocker is what a row waits for.
type blocker struct {
	key  string // encoded; empty: the table itself
	text string
	// again is the text in another snapshot, if that depends on what is observed.
	again func(txn statedb.ReadTxn) string
}

// is reports whether two rows wait for the same.
func (b blocker) is(other blocker) bool { return b.key == other.key && b.text == other.text }

// namedRow is a row, or several, that a row depends on.
type namedRow struct {
	rowsKey
	matches func(row any) bool
}

type dependsOn[Obj, Dep any] struct {
	of       statedb.Table[Dep]
	status   func(Dep) Status
	on       func(Obj) iter.Seq[statedb.Query[Dep]]
	observed []observation[Dep]
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
	for _, o := range d.observed {
		if err := o.check(); err != nil {
			return fmt.Errorf("the observation: %w", err)
		}
	}
	return nil
}

func (d *dependsOn[Obj, Dep]) table() statedb.TableMeta { return d.of }

func (d *dependsOn[Obj, Dep]) tables() []statedb.TableMeta {
	tables := []statedb.TableMeta{d.of}
	for _, o := range d.observed {
		tables = append(tables, o.table())
	}
	return tables
}

// appendQueries appends what on names of a row, also if it panics then.
func (d *dependsOn[Obj, Dep]) appendQueries(queries []statedb.Query[Dep], obj Obj) ([]statedb.Query[Dep], error) {
	err := guard(func() {
		if seq := d.on(obj); seq != nil {
			for q := range seq {
				queries = append(queries, q)
			}
		}
	})
	return queries, err
}

// blocks reports whether rows have to wait for dep.
func (d *dependsOn[Obj, Dep]) blocks(txn statedb.ReadTxn, dep Dep) (blocker, bool) {
	state, observed := d.undone(dep), false
	if state == "" {
		state = d.contradicted(txn, dep)
		observed = state != ""
	}
	if state == "" {
		return blocker{}, false
	}
	query := d.of.KeyQuery(dep)
	b := blocker{key: query.Encoded(), text: fmt.Sprintf("%s %s, which %s", d.of.Name(), d.of.Key(dep), state)}
	if observed {
		b.again = func(txn statedb.ReadTxn) string {
			newest, _, found := d.of.Get(txn, query)
			if !found {
				return ""
			}
			b, _ := d.blocks(txn, newest)
			return b.text
		}
	}
	return b, true
}

// contradicted returns how a row that is done differs from what is observed.
func (d *dependsOn[Obj, Dep]) contradicted(txn statedb.ReadTxn, dep Dep) string {
	for _, o := range d.observed {
		if !o.reliable(txn) {
			continue
		}
		switch changes, err := o.differs(txn, dep); {
		case err != nil:
			return "is not known to agree with what is observed: " + err.Error()
		case len(changes) > 0:
			return "differs from what is observed: " + driftText(changes[:1])
		}
	}
	return ""
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
		return "is not known to be done: " + panicked.Error()
	}
	if s.Kind() == Done {
		return ""
	}
	return describe(s)
}

func describe(s Status) string {
	if s.Kind() == Error {
		return "is in " + s.String()
	}
	return "is " + s.String()
}

func (d *dependsOn[Obj, Dep]) appendNames(to []byte, obj Obj) []byte {
	_ = guard(func() { // what is wrong is known from the row itself
		if seq := d.on(obj); seq != nil {
			for q := range seq {
				to = appendText(appendText(to, q.Index()), q.Encoded())
			}
		}
	})
	return append(to, 0)
}

func (d *dependsOn[Obj, Dep]) named(obj Obj) (rows []namedRow) {
	queries, _ := d.appendQueries(nil, obj) // what is wrong is known from the row itself
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
	var observed []func(context.Context)
	for _, o := range d.observed {
		observed = append(observed, o.onChange(r.p.DB, func(txn statedb.ReadTxn) { r.free(waits.takeOther(txn)) }))
	}
	return func(ctx context.Context) {
		defer cursor.Close()
		var following sync.WaitGroup
		defer following.Wait()
		for _, follow := range observed {
			following.Go(func() { follow(ctx) })
		}
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

// dependencyWaits are the rows that wait for rows of a table: what is said of each,
// by its encoded key, by the encoded key of what it waits for.
type dependencyWaits struct {
	mu   sync.Mutex
	rows map[string]map[string]string
	// again is [blocker].again of those that what is observed blocks.
	again map[string]func(statedb.ReadTxn) string
}

func (w *dependencyWaits) add(b blocker, key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.rows == nil {
		w.rows = map[string]map[string]string{}
		w.again = map[string]func(statedb.ReadTxn) string{}
	}
	if w.rows[b.key] == nil {
		w.rows[b.key] = map[string]string{}
	}
	w.rows[b.key][key] = b.text
	if b.again != nil {
		w.again[b.key] = b.again
	}
}

func (w *dependencyWaits) take(on string) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	keys := sortedKeys(w.rows[on])
	delete(w.rows, on)
	delete(w.again, on)
	return keys
}

func (w *dependencyWaits) takeAll() (keys []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, rows := range w.rows {
		keys = append(keys, sortedKeys(rows)...)
	}
	clear(w.rows)
	clear(w.again)
	return keys
}

// takeOther takes the rows of which something else is to be said because of what is
// observed now.
func (w *dependencyWaits) takeOther(txn statedb.ReadTxn) (keys []string) {
	w.mu.Lock()
	again := maps.Clone(w.again)
	w.mu.Unlock()
	for _, on := range sortedKeys(again) {
		text := again[on](txn)
		w.mu.Lock()
		for _, key := range sortedKeys(w.rows[on]) {
			if w.rows[on][key] != text {
				keys = append(keys, key)
				delete(w.rows[on], key)
			}
		}
		if len(w.rows[on]) == 0 {
			delete(w.rows, on)
			delete(w.again, on)
		}
		w.mu.Unlock()
	}
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
