package statedb

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// Derivation says how the rows of a table, the output, are computed from those
// of one or more other tables, the inputs.
//
// The derivation owns the output: a row that somebody else writes there is
// replaced or deleted when its key is computed the next time, and until then it
// stays. Others may write status ([RWTable.Amend]).
type Derivation[Out, Key any] struct {
	// Output is the table to fill. Its primary index is one of Key, made by
	// [NewIndex] or [NewPrefixIndex]. If it declares equality, a row that comes
	// out as it was is not written. Defaulters must leave the primary key alone.
	Output RWTable[Out]
	// Inputs are the tables that Compute reads, each made by [DeriveFrom].
	Inputs []DeriveInput[Key]
	// Compute returns the row with a key as it follows from the inputs in txn, or
	// false when there is none. It has the same result whenever it reads the same
	// rows. An error or a panic leaves the row as it was: the key is tried again
	// when an input affects it, and until then with growing pauses.
	Compute func(txn ReadTxn, key Key) (row Out, exists bool, err error)
	// Source is the name of the source that is registered on the output;
	// "derived" if it is empty.
	Source string
	// MinBackoff is the pause after the first failure of a key, 100 ms if it is not
	// positive. It doubles with each further one, up to MaxBackoff, 1 min if that
	// is not positive, and varies by a fifth.
	MinBackoff, MaxBackoff time.Duration
	// OnError, if not nil, is told of each failure, from the goroutine of Run and
	// outside of transactions: a [RowError] about a row of the output or an input,
	// or a [UniqueError].
	OnError func(error)
}

const (
	defaultDerivedSource = "derived"
	defaultMinBackoff    = 100 * time.Millisecond
	defaultMaxBackoff    = time.Minute
)

// Deriver fills a table as a [Derivation] says.
//
// Every change of an input names the rows of the output that it affects, by the
// row as it was and by the row as it is; these are computed anew, from one
// snapshot of all inputs, and written. So nothing depends on the order of
// changes or on seeing each of them. Rows are written in key order, 1,000 in a
// transaction. One that is refused, or shares a unique key with another row,
// fails alone.
//
// The output has a source. It is initialized once all inputs are, and the rows
// that follow from them are in the output. It is incomplete, and says why, while
// an input is or while a row cannot be computed or written. No row of the output
// is deleted before the inputs are initialized. When Run starts, and after a
// [Reset] of an input, all rows are computed and those that nothing yields any
// more are deleted, but not while an input is incomplete.
type Deriver[Out, Key any] struct {
	spec    Derivation[Out, Key]
	out     *table[Out]
	key     Index[Out, Key]
	source  *Source[Out]
	running atomic.Bool
}

// NewDeriver checks a derivation and registers its source on the output, which
// is not initialized from then on; [Deriver.Run] does the work. The error matches
// [ErrSchema] when the derivation is wrong, [ErrForeignTable] when the tables are
// not of one database, [ErrSourceExists] when the output has a source of this
// name, and [ErrDropped]; or it is ctx's.
func NewDeriver[Out, Key any](ctx context.Context, derivation Derivation[Out, Key]) (*Deriver[Out, Key], error) {
	d := &Deriver[Out, Key]{spec: derivation}
	if err := d.check(); err != nil {
		return nil, err
	}
	d.setDefaults()
	err := d.out.lock.db.Update(ctx, func(txn *WriteTxn) (err error) {
		d.source, err = d.out.RegisterSource(txn, d.spec.Source)
		return err
	}, d.out)
	if err != nil {
		return nil, err
	}
	return d, nil
}

func (d *Deriver[Out, Key]) check() error {
	out, ok := d.spec.Output.(*table[Out])
	if !ok {
		return fmt.Errorf("%w of a derivation: Output is not a table made by NewTable", ErrSchema)
	}
	d.out = out
	if d.key, ok = primaryIndex[Out, Key](out); !ok {
		return d.wrong("the primary index %q has not keys of type %T", out.schema.Primary.Name(), *new(Key))
	}
	if d.spec.Compute == nil {
		return d.wrong("Compute is not set")
	}
	if len(d.spec.Inputs) == 0 {
		return d.wrong("there are no Inputs")
	}
	for i, input := range d.spec.Inputs {
		switch {
		case input.open == nil:
			return d.wrong("Inputs[%d] has no table or no function: make it with DeriveFrom", i)
		case input.table.lockable() == &out.lock:
			return d.wrong("Inputs[%d] is the output itself", i)
		case input.table.lockable().db != out.lock.db:
			return &TableError{Table: input.table.Name(), Err: ErrForeignTable}
		}
	}
	return nil
}

func (d *Deriver[Out, Key]) wrong(format string, args ...any) error {
	return fmt.Errorf("%w of the derivation of table %q: %w", ErrSchema, d.out.Name(), fmt.Errorf(format, args...))
}

func (d *Deriver[Out, Key]) setDefaults() {
	if d.spec.Source == "" {
		d.spec.Source = defaultDerivedSource
	}
	if d.spec.MinBackoff <= 0 {
		d.spec.MinBackoff = defaultMinBackoff
	}
	if d.spec.MaxBackoff <= 0 {
		d.spec.MaxBackoff = defaultMaxBackoff
	}
}

// primaryIndex returns the primary index of a table if its keys are of type Key.
func primaryIndex[Out, Key any](t *table[Out]) (Index[Out, Key], bool) {
	primary := any(t.schema.Primary)
	if p, ok := primary.(PrefixIndex[Out]); ok {
		primary = p.Index
	}
	ix, ok := primary.(Index[Out, Key])
	return ix, ok
}

var errDeriving = errors.New("the derivation is running already")

// Run fills the output until ctx ends, or the output or an input is dropped
// ([ErrDropped]), and returns that error; a drop of the output is noticed by
// the next write. It works in the goroutine that calls it, and can be called
// again when it has returned. When it ends although ctx has not, the output's
// source is incomplete.
func (d *Deriver[Out, Key]) Run(ctx context.Context) error {
	if !d.running.CompareAndSwap(false, true) {
		return &TableError{Table: d.out.Name(), Err: errDeriving}
	}
	defer d.running.Store(false)
	r := d.begin()
	defer r.close()
	err := r.loop(ctx)
	if ctx.Err() == nil {
		return errors.Join(err, r.declareEnd(ctx, err))
	}
	return err
}
