package derive

import (
	"fmt"
	"runtime/debug"

	"github.com/statehive/statehive/statedb"
)

// Input is a table from which rows are derived: see [From].
type Input[Key any] struct {
	table statedb.TableMeta
	open  func(from statedb.ReadTxn) feed[Key]
}

// From makes a table an input of a [Spec]. For a row of the table, affected calls affects
// with the key of every row of the output whose computation in txn reads the row, or would
// read it if the output row existed. It may read the inputs in txn to find them; changes of
// other tables that it or Compute reads are not noticed. It must not panic: a panic is a
// failure, after which all rows are computed again, with growing pauses.
func From[In, Key any](table *statedb.Table[In], affected func(txn statedb.ReadTxn, row In, affects func(Key))) Input[Key] {
	if table == nil || affected == nil {
		return Input[Key]{}
	}
	return Input[Key]{table: table, open: func(from statedb.ReadTxn) feed[Key] {
		return &tableFeed[In, Key]{table, table.Changes(table.Revision(from)), affected}
	}}
}

// feed is an open input, whatever its row type.
type feed[Key any] interface {
	// changes marks the keys that the changes since the last call affect, according to the
	// rows in the snapshots before and now. It returns false if some changes are unknown.
	changes(before, now statedb.ReadTxn, to marker[Key]) (known bool)
	// all marks the keys that the rows in now affect, and skips the changes up to it.
	all(now statedb.ReadTxn, to marker[Key])
	// err returns ErrDropped if the table is no longer in the last snapshot.
	err() error
	// state returns the state of the table's sources.
	state(now statedb.ReadTxn) (initialized bool, incomplete []string)
	watch() <-chan struct{}
	close()
}

// marker collects the keys that have to be computed.
type marker[Key any] interface {
	mark(key Key)
	// unmapped reports that the keys which a row affects could not be determined.
	unmapped(err error)
}

type tableFeed[In, Key any] struct {
	table    *statedb.Table[In]
	cursor   *statedb.Cursor[In]
	affected func(statedb.ReadTxn, In, func(Key))
}

func (f *tableFeed[In, Key]) changes(before, now statedb.ReadTxn, to marker[Key]) bool {
	known := true
	for change := range f.cursor.Next(now) {
		switch {
		case change.Kind == statedb.Reset:
			known = false
		case known:
			f.change(before, now, change, to)
		}
	}
	return known
}

func (f *tableFeed[In, Key]) change(before, now statedb.ReadTxn, change statedb.Change[In], to marker[Key]) {
	if old, _, existed := f.table.Get(before, f.table.KeyQuery(change.Object)); existed {
		f.mark(before, old, to)
	}
	if change.Kind == statedb.Upsert {
		f.mark(now, change.Object, to)
	}
}

func (f *tableFeed[In, Key]) all(now statedb.ReadTxn, to marker[Key]) {
	for range f.cursor.Next(now) { // only to move the cursor
	}
	for row := range f.table.All(now) {
		f.mark(now, row, to)
	}
}

func (f *tableFeed[In, Key]) mark(txn statedb.ReadTxn, row In, to marker[Key]) {
	err := guarded(func() error {
		f.affected(txn, row, to.mark)
		return nil
	})
	if err != nil {
		to.unmapped(&statedb.RowError{Table: f.table.Name(), Key: f.table.Key(row), Err: err})
	}
}

func (f *tableFeed[In, Key]) state(now statedb.ReadTxn) (initialized bool, incomplete []string) {
	for _, source := range f.table.Sources(now) {
		if source.Incomplete != "" {
			incomplete = append(incomplete, fmt.Sprintf("table %s, source %s: %s", f.table.Name(), source.Name, source.Incomplete))
		}
	}
	initialized, _ = f.table.Initialized(now)
	return initialized, incomplete
}

func (f *tableFeed[In, Key]) err() error             { return f.cursor.Err() }
func (f *tableFeed[In, Key]) watch() <-chan struct{} { return f.cursor.Watch() }
func (f *tableFeed[In, Key]) close()                 { f.cursor.Close() }

// panicError is a panic in a function of the user.
type panicError struct {
	value any
	stack []byte
}

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v", e.value) }

// guarded calls fn and turns a panic into an error.
func guarded(fn func() error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = &panicError{value, debug.Stack()}
		}
	}()
	return fn()
}
