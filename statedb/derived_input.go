package statedb

import (
	"fmt"
	"runtime/debug"
)

// DeriveInput is a table from which rows are derived: see [DeriveFrom].
type DeriveInput[Key any] struct {
	table TableMeta
	open  func(from ReadTxn) inputFeed[Key]
}

// DeriveFrom makes a table an input of a [Derivation]. For a row of the table,
// affected calls affects with the key of every row of the output whose
// computation in txn reads the row, or would read it if the output row existed.
// It may look at the inputs in txn to find them; what it and Compute read in
// other tables is not followed. It must not panic: that is reported, and costs a
// computation of all rows, repeated with growing pauses.
func DeriveFrom[In, Key any](table Table[In], affected func(txn ReadTxn, row In, affects func(Key))) DeriveInput[Key] {
	if table == nil || affected == nil {
		return DeriveInput[Key]{}
	}
	return DeriveInput[Key]{table: table, open: func(from ReadTxn) inputFeed[Key] {
		return &tableFeed[In, Key]{table, table.Changes(table.Revision(from)), affected}
	}}
}

// inputFeed is an open input, its row type out of sight.
type inputFeed[Key any] interface {
	// changes marks what the changes since the last call affect, by the rows as
	// they were in before and as they are in now. False when some are not known.
	changes(before, now ReadTxn, to marker[Key]) (known bool)
	// skip passes over the changes up to now.
	skip(now ReadTxn)
	// all marks what the rows in now affect.
	all(now ReadTxn, to marker[Key])
	// state is that of the table's sources.
	state(now ReadTxn) (initialized bool, incomplete []string)
	watch() <-chan struct{}
	close()
}

// marker takes the keys that have to be computed.
type marker[Key any] interface {
	mark(key Key)
	// unmapped: it is not known what a row affects.
	unmapped(err error)
}

type tableFeed[In, Key any] struct {
	table    Table[In]
	cursor   *Cursor[In]
	affected func(ReadTxn, In, func(Key))
}

func (f *tableFeed[In, Key]) changes(before, now ReadTxn, to marker[Key]) bool {
	known := true
	for change := range f.cursor.Next(now) {
		switch {
		case change.Kind == Reset:
			known = false
		case known:
			f.change(before, now, change, to)
		}
	}
	return known
}

func (f *tableFeed[In, Key]) change(before, now ReadTxn, change Change[In], to marker[Key]) {
	if old, _, existed := f.table.Get(before, f.table.KeyQuery(change.Object)); existed {
		f.mark(before, old, to)
	}
	if change.Kind == Upsert {
		f.mark(now, change.Object, to)
	}
}

func (f *tableFeed[In, Key]) skip(now ReadTxn) {
	for range f.cursor.Next(now) { // the cursor moves
	}
}

func (f *tableFeed[In, Key]) all(now ReadTxn, to marker[Key]) {
	for row := range f.table.All(now) {
		f.mark(now, row, to)
	}
}

func (f *tableFeed[In, Key]) mark(txn ReadTxn, row In, to marker[Key]) {
	err := guarded(func() error {
		f.affected(txn, row, to.mark)
		return nil
	})
	if err != nil {
		to.unmapped(&RowError{Table: f.table.Name(), Key: f.table.Key(row), Err: err})
	}
}

func (f *tableFeed[In, Key]) state(now ReadTxn) (initialized bool, incomplete []string) {
	for _, source := range f.table.Sources(now) {
		if source.Incomplete != "" {
			incomplete = append(incomplete, fmt.Sprintf("table %s, source %s: %s", f.table.Name(), source.Name, source.Incomplete))
		}
	}
	initialized, _ = f.table.Initialized(now)
	return initialized, incomplete
}

func (f *tableFeed[In, Key]) watch() <-chan struct{} { return f.cursor.Watch() }
func (f *tableFeed[In, Key]) close()                 { f.cursor.Close() }

// panicError is a panic in a function of the user.
type panicError struct {
	value any
	stack []byte
}

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v", e.value) }

// guarded calls fn and makes a panic an error.
func guarded(fn func() error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = &panicError{value, debug.Stack()}
		}
	}()
	return fn()
}
