package hold

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/statehive/statehive/internal/store"
	"github.com/statehive/statehive/reconciler/internal/pool"
	"github.com/statehive/statehive/reconciler/internal/status"
)

// Queries yields queries.
type Queries func(yield func(store.Query) bool)

// Dependency makes rows wait for rows of another table, or of their own: see DependsOn in package
// reconciler.
type Dependency struct {
	Table  *store.Table
	Status func(row *store.Entry) status.Status // of a row of Table
	// On yields queries for the rows that a row of the reconciled table depends on.
	On func(row *store.Entry, yield func(store.Query) bool)
	// By returns a comparable value that is equal only for rows that depend on the same rows. If
	// it is nil, the queries that On yields are used instead.
	By       func(row *store.Entry) any
	Observed []*Observation // of the rows of Table
	// OneOf yields sets of the queries of On: a row needs only one of the rows that each set names. If it is nil, each
	// query is a set.
	OneOf func(row *store.Entry, yield func(Queries) bool)
	// Or, if it is not nil, has as many sets as the dependency for each row: the rows that a set of it names are as good as
	// those of the same set of the dependency. By determines these, too.
	Or *Dependency
	// Serves reports whether a row of Table that is done can take the place of one that is deleted; nil: each can.
	Serves func(txn store.ReadTxn, row *store.Entry) bool
	// Tolerates reports whether updates need not wait for a row of Table, although it is not done or differs. It may only depend on the row
	// and the tables of Observed; nil: they wait for each.
	Tolerates func(txn store.ReadTxn, row *store.Entry) bool
	// Kept reports whether the target keeps the rows when it loses what they depend on.
	Kept bool
	// OrFailed reports whether deletes that wait for pending rows also wait for those that are in error: see failedGrace.
	OrFailed bool
}

// Check returns an error if the dependency is not declared properly.
func (d *Dependency) Check() error {
	switch {
	case d.Table == nil:
		return errors.New("the table is not set")
	case d.Status == nil:
		return errors.New("the function that returns a status is not set")
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

// Tables returns all tables that the dependency reads.
func (d *Dependency) Tables() []*store.Table {
	tables := []*store.Table{d.Table}
	for _, o := range d.Observed {
		tables = append(tables, o.Table)
	}
	return tables
}

// blocker describes what a row waits for.
type blocker struct {
	key  string // encoded; empty: the table itself
	text string
	// again returns the text in another snapshot; nil if only the row itself can change it.
	again func(txn store.ReadTxn) string
}

func (b blocker) equal(other blocker) bool { return b.key == other.key && b.text == other.text }

// blocks reports whether a row of the table blocks those that name it.
func (d *Dependency) blocks(txn store.ReadTxn, dep *store.Entry) (blocker, bool) {
	state, observed := d.notDone(dep), false
	if state == "" || state == pendingState { // it may be pending because it differs
		if difference := d.difference(txn, dep); difference != "" {
			if state != "" {
				difference = state + ", and " + difference
			}
			state, observed = difference, true
		}
	}
	if state == "" || d.tolerates(txn, dep) {
		return blocker{}, false
	}
	b := blocker{key: string(dep.Key()), text: fmt.Sprintf("%s %s, which %s", d.Table.Name(), d.Table.KeyText(dep), state)}
	if observed || d.Tolerates != nil {
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

func (d *Dependency) tolerates(txn store.ReadTxn, dep *store.Entry) (tolerates bool) {
	if d.Tolerates != nil {
		_ = pool.Guard(func() { tolerates = d.Tolerates(txn, dep) }) // a row for which that is unknown is waited for
	}
	return tolerates
}

// notDone returns why a row is not done, or "" if it is done.
func (d *Dependency) notDone(dep *store.Entry) string {
	var s status.Status
	if panicked := pool.Guard(func() { s = d.Status(dep) }); panicked != nil {
		return "has an unknown status: " + panicked.Error()
	}
	if s.Kind() == status.Done {
		return ""
	}
	return describe(s)
}

// pendingState describes a row that is pending.
var pendingState = describe(status.Status{})

func describe(s status.Status) string {
	if s.Kind() == status.Error {
		return "is in " + s.String()
	}
	return "is " + s.String()
}

// difference describes how a row differs from the observed state, or returns "" if it agrees.
func (d *Dependency) difference(txn store.ReadTxn, dep *store.Entry) string {
	for _, o := range d.Observed {
		if !o.Reliable(txn) {
			continue
		}
		switch changes, err := o.Differs(txn, dep); {
		case err != nil:
			return "could not be compared with the observed state: " + err.Error()
		case len(changes) > 0:
			return "differs from the observed state: " + Differences(changes[:1])
		}
	}
	return ""
}

// tableState describes a table that is not initialized, or returns "" if it is initialized.
func (d *Dependency) tableState(txn store.ReadTxn) string {
	if initialized, _ := d.Table.Initialized(txn); initialized {
		return ""
	}
	if len(d.Table.Sources(txn)) == 0 {
		return "was dropped"
	}
	return "is not initialized"
}

// appendQueries appends the queries that On yields for a row: if On panics, those before the panic.
func (d *Dependency) appendQueries(queries []store.Query, row *store.Entry) ([]store.Query, error) {
	err := pool.Guard(func() {
		d.On(row, func(q store.Query) bool {
			queries = append(queries, q)
			return true
		})
	})
	return queries, err
}

// sets returns the queries of a row in sets: it needs one of the rows that each of them names. If On or OneOf panics, it returns
// those before the panic.
func (d *Dependency) sets(row *store.Entry) (sets [][]store.Query) {
	if d.OneOf == nil {
		queries, _ := d.appendQueries(nil, row) // the error is reported for the row itself
		return slices.Collect(slices.Chunk(queries, 1))
	}
	_ = pool.Guard(func() {
		d.OneOf(row, func(queries Queries) bool {
			sets = append(sets, slices.Collect(iter.Seq[store.Query](queries)))
			return true
		})
	})
	return sets
}

// key returns a key that is equal only for rows that depend on the same rows: the comparable value
// of By or, if that is nil, the text of the queries. If On panics, the text has the queries before
// the panic. The result overwrites text.
func (d *Dependency) key(row *store.Entry, text []byte) (by any, queries []byte, err error) {
	if d.By != nil {
		err = pool.Guard(func() { by = d.By(row) })
		if err == nil && equalsItself(by) {
			return by, text, nil
		}
	}
	text = text[:0]
	err = pool.Guard(func() {
		d.On(row, func(q store.Query) bool {
			text = AppendQuery(text, q)
			return true
		})
	})
	return nil, text, err
}

// equalsItself reports whether a value can be used as a map key. A value that cannot be compared
// cannot, nor can a value that contains NaN.
func equalsItself(v any) (equal bool) {
	_ = pool.Guard(func() { equal = v != nil && same(v, v) })
	return equal
}

func same(a, b any) bool { return a == b }

// AppendQuery appends a text that is equal only for equal queries of a table.
func AppendQuery(to []byte, q store.Query) []byte {
	return appendText(appendText(to, q.Index.NameOrNone()), q.Key)
}

// appendText appends the length of a text and the text.
func appendText[T string | []byte](to []byte, text T) []byte {
	return append(binary.AppendUvarint(to, uint64(len(text))), text...)
}

// indexKey is a key of an index of a table.
type indexKey struct {
	table      *store.Table
	index, key string
}

// namedRows are the rows with a key that a row depends on.
type namedRows struct {
	indexKey
	of *store.Index
}

// named returns the rows that a row depends on.
func (d *Dependency) named(txn store.ReadTxn, row *store.Entry) (rows []namedRows) {
	queries, _ := d.appendQueries(nil, row) // the error is reported for the row itself
	for _, q := range queries {
		name := q.Index.NameOrNone()
		if _, err := d.Table.LenOf(txn, name); err == nil {
			rows = append(rows, namedRows{indexKey{d.Table, name, string(q.Key)}, q.Index})
		}
	}
	return rows
}
