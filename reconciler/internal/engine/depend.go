package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/statehive/statehive/internal/store"
	"github.com/statehive/statehive/reconciler/internal/hold"
	"github.com/statehive/statehive/reconciler/internal/pool"
	"github.com/statehive/statehive/reconciler/internal/workqueue"
)

// Dependency makes rows wait for rows of another table: see DependsOn in package reconciler.
type Dependency struct {
	Table  *store.Table
	Status func(row *store.Entry) Status // of a row of Table
	// On yields what a row of the reconciled table depends on.
	On       func(row *store.Entry, yield func(store.Query) bool)
	Observed []*Observation // of the rows of Table
}

// blocker is what a row waits for.
type blocker struct {
	key  string // encoded; empty: the table itself
	text string
	// again is the text in another snapshot, if that depends on what is observed.
	again func(txn store.ReadTxn) string
}

// is reports whether two rows wait for the same.
func (b blocker) is(other blocker) bool { return b.key == other.key && b.text == other.text }

// namedRow is a row, or several, that a row depends on.
type namedRow struct {
	rowsKey
	matches func(row *store.Entry) bool
}

func (d *Dependency) check() error {
	switch {
	case d.Table == nil:
		return errors.New("the table is not set")
	case d.Status == nil:
		return errors.New("the function that tells a status is not set")
	case d.On == nil:
		return errors.New("the function that names rows is not set")
	}
	for _, o := range d.Observed {
		if err := o.Check(); err != nil {
			return fmt.Errorf("the observation: %w", err)
		}
	}
	return nil
}

// tables are all that it reads.
func (d *Dependency) tables() []*store.Table {
	tables := []*store.Table{d.Table}
	for _, o := range d.Observed {
		tables = append(tables, o.Table)
	}
	return tables
}

// appendQueries appends what on names of a row, also if it panics then.
func (d *Dependency) appendQueries(queries []store.Query, row *store.Entry) ([]store.Query, error) {
	err := pool.Guard(func() {
		d.On(row, func(q store.Query) bool {
			queries = append(queries, q)
			return true
		})
	})
	return queries, err
}

// blocks reports whether rows have to wait for dep.
func (d *Dependency) blocks(txn store.ReadTxn, dep *store.Entry) (blocker, bool) {
	state, observed := d.undone(dep), false
	if state == "" || state == pendingState { // which it may be because it is contradicted
		if contradiction := d.contradicted(txn, dep); contradiction != "" {
			state, observed = contradiction, true
		}
	}
	if state == "" {
		return blocker{}, false
	}
	b := blocker{key: keyOf(dep), text: fmt.Sprintf("%s %s, which %s", d.Table.Name(), d.Table.KeyText(dep), state)}
	if observed {
		b.again = func(txn store.ReadTxn) string {
			newest := d.Table.FindKey(txn, dep.Key())
			if newest == nil {
				return ""
			}
			b, _ := d.blocks(txn, newest)
			return b.text
		}
	}
	return b, true
}

// contradicted returns how a row that is done differs from what is observed.
func (d *Dependency) contradicted(txn store.ReadTxn, dep *store.Entry) string {
	for _, o := range d.Observed {
		if !o.Reliable(txn) {
			continue
		}
		switch changes, err := o.Differs(txn, dep); {
		case err != nil:
			return "is not known to agree with what is observed: " + err.Error()
		case len(changes) > 0:
			return "differs from what is observed: " + hold.Differences(changes[:1])
		}
	}
	return ""
}

// lacks says why the table is not initialized.
func (d *Dependency) lacks(txn store.ReadTxn) string {
	if len(d.Table.Sources(txn)) == 0 {
		return "was dropped"
	}
	return "is not initialized"
}

// undone says how it stands with a row that is not done, and nothing of one that is.
func (d *Dependency) undone(dep *store.Entry) string {
	var s Status
	if panicked := pool.Guard(func() { s = d.Status(dep) }); panicked != nil {
		return "is not known to be done: " + panicked.Error()
	}
	if s.Kind() == Done {
		return ""
	}
	return describe(s)
}

// pendingState is how it stands with a row that is pending.
var pendingState = describe(Status{})

func describe(s Status) string {
	if s.Kind() == Error {
		return "is in " + s.String()
	}
	return "is " + s.String()
}

// appendNames appends what tells rows apart that name others of the table.
func (d *Dependency) appendNames(to []byte, row *store.Entry) []byte {
	_ = pool.Guard(func() { // what is wrong is known from the row itself
		d.On(row, func(q store.Query) bool {
			to = appendText(appendText(to, q.Index.NameOrNone()), q.Key)
			return true
		})
	})
	return append(to, 0)
}

func (d *Dependency) named(row *store.Entry) (rows []namedRow) {
	queries, _ := d.appendQueries(nil, row) // what is wrong is known from the row itself
	for _, q := range queries {
		rows = append(rows, namedRow{rowsKey{d.Table, q.Index.NameOrNone(), string(q.Key)}, func(dep *store.Entry) bool {
			return d.Table.Matches(q, dep.Row())
		}})
	}
	return rows
}

// begin returns a function that follows the table from now on.
func (d *Dependency) begin(r *Engine, waits *dependencyWaits) func(context.Context) {
	cursor := d.Table.Changes(d.Table.Revision(r.p.DB.ReadTxn()))
	var observed []func(context.Context)
	for _, o := range d.Observed {
		observed = append(observed, o.Follow(r.p.DB, func(txn store.ReadTxn) { r.free(waits.takeOther(txn)) }))
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
func (d *Dependency) freed(cursor *store.Cursor, txn store.ReadTxn, waits *dependencyWaits) (keys []string) {
	for change := range cursor.Changes(txn) {
		// One that is still not done is taken too: what is said of it changes.
		if change.Kind == store.Reset {
			keys = append(keys, waits.takeAll()...)
		} else {
			keys = append(keys, waits.take(keyOf(change.Entry))...)
		}
	}
	if cursor.Err() != nil { // the table was dropped: what is said of it changes
		return waits.takeAll()
	}
	if initialized, _ := d.Table.Initialized(txn); initialized {
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
	again map[string]func(store.ReadTxn) string
}

func (w *dependencyWaits) add(b blocker, key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.rows == nil {
		w.rows = map[string]map[string]string{}
		w.again = map[string]func(store.ReadTxn) string{}
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
func (w *dependencyWaits) takeOther(txn store.ReadTxn) (keys []string) {
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
func (r *Engine) free(keys []string) {
	if len(keys) == 0 {
		return
	}
	_ = r.inbox.post(func(l *loop) { // refused only when Run ends
		now := time.Now()
		for _, key := range keys {
			if it := l.queue.Items[key]; it != nil && it.Stage() == workqueue.Dependency {
				l.enqueue(it, workqueue.Changes, workqueue.Unblocked, now)
			}
		}
	})
}

// checkDependencies says what is wrong with the params' dependencies.
func (p Params) checkDependencies() error {
	for i, d := range p.DependsOn {
		if err := d.check(); err != nil {
			return fmt.Errorf("Params.DependsOn[%d]: %w", i, err)
		}
	}
	return nil
}
