package derive

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/statehive/statehive/internal/backoff"
	"github.com/statehive/statehive/statedb"
	"github.com/statehive/statehive/statedb/index"
)

// Spec defines how the rows of a table, the output, are computed from the rows of one or more
// other tables, the inputs. Output, Primary, Inputs and Compute are required.
type Spec[Out, Key any] struct {
	// Output is the table to fill. If its schema defines equality, an unchanged row is not
	// written. Defaulters must not change the primary key.
	Output *statedb.RWTable[Out]
	// Primary is the primary index of Output; for a [statedb.PrefixIndex], its Index field.
	Primary statedb.Index[Out, Key]
	// Inputs are the tables that Compute reads, each made by [From].
	Inputs []Input[Key]
	// Compute returns the row with a key, computed from the inputs in txn, or false if there
	// should be no such row. It must return false if no input row affects the key, and the
	// same result whenever it reads the same rows. If it returns an error or panics, the
	// row stays as it was.
	Compute func(txn statedb.ReadTxn, key Key) (row Out, exists bool, err error)
	// Source is the name of the source that is registered on the output;
	// "derived" if it is empty.
	Source string
	// MinBackoff is the pause after the first failure of a key. It doubles with each further
	// failure up to MaxBackoff, and varies by a fifth. The defaults, for values that are not
	// positive, are 100 ms and 1 min.
	MinBackoff, MaxBackoff time.Duration
	// Logger logs each failure. The default is [slog.Default]. Of the records with the same
	// message, the first 50 in a minute are logged. The others are counted, and a line at
	// the end of the minute has their number and the attributes of the last one.
	Logger *slog.Logger
	// Health, if not nil, receives the state of the derivation.
	Health Health
	// OnError, if not nil, is called with each failure, from the goroutine of Run and
	// outside of transactions: a [statedb.RowError] about a row of the output or an input,
	// or a [statedb.UniqueError].
	OnError func(error)
}

// Health receives the state of a derivation, which is degraded while a row fails or an
// input is not initialized. The methods are called from the goroutine of Run, and only when
// something has changed.
type Health interface {
	OK(message string)
	Degraded(message string, err error)
	Stopped(message string)
}

const (
	defaultSource     = "derived"
	defaultMinBackoff = 100 * time.Millisecond
	defaultMaxBackoff = time.Minute
)

// Derivation fills a table as defined by a [Spec]. It is made by [New].
type Derivation[Out, Key any] struct {
	spec    Spec[Out, Key]
	db      *statedb.DB
	codec   index.Codec[Key] // formats keys as text
	pause   backoff.Backoff
	source  *statedb.Source
	running atomic.Bool
	ended   bool // the source has ended; guarded by running

	failures atomic.Uint64
	failing  atomic.Int64
}

// New checks a spec and registers its source on the output. From then on the output is not
// initialized until [Derivation.Run] has filled it. The error matches [statedb.ErrSchema] if
// the spec is invalid, [statedb.ErrForeignTable] if the tables are not all of one database,
// [statedb.ErrSourceExists] if the output has a source with this name that has not ended,
// [statedb.ErrDropped] if a table was dropped, or ctx's error.
func New[Out, Key any](ctx context.Context, spec Spec[Out, Key]) (*Derivation[Out, Key], error) {
	if err := spec.check(); err != nil {
		return nil, err
	}
	d := &Derivation[Out, Key]{spec: spec.withDefaults(), db: spec.Output.Untyped().DB()}
	d.pause = backoff.Backoff{Min: d.spec.MinBackoff, Max: d.spec.MaxBackoff}
	d.codec, _ = index.For[Key]() // cannot fail, because the table has an index with such keys
	err := d.db.Update(ctx, func(txn *statedb.WriteTxn) (err error) {
		d.source, err = d.spec.Output.RegisterSource(txn, d.spec.Source)
		return err
	}, d.spec.Output)
	if err != nil {
		return nil, err
	}
	return d, nil
}

func (s Spec[Out, Key]) check() error {
	if s.Output == nil {
		return fmt.Errorf("%w of a derivation: Output is not set", statedb.ErrSchema)
	}
	primary := s.Output.Untyped().Primary().Name
	switch {
	case s.Primary.Name() == "":
		return s.wrong("Primary is not set")
	case s.Primary.Name() != primary:
		return s.wrong("Primary is the index %q, and the primary index of the table is %q", s.Primary.Name(), primary)
	case s.Compute == nil:
		return s.wrong("Compute is not set")
	case len(s.Inputs) == 0:
		return s.wrong("there are no Inputs")
	}
	for i, input := range s.Inputs {
		switch {
		case input.open == nil:
			return s.wrong("Inputs[%d] has no table or no function: make it with From", i)
		case input.table.Untyped() == s.Output.Untyped():
			return s.wrong("Inputs[%d] is the output itself", i)
		case !s.Output.Untyped().DB().Owns(input.table):
			return &statedb.TableError{Table: input.table.Name(), Err: statedb.ErrForeignTable}
		}
	}
	return nil
}

func (s Spec[Out, Key]) wrong(format string, args ...any) error {
	return fmt.Errorf("%w of the derivation of table %q: %w", statedb.ErrSchema, s.Output.Name(), fmt.Errorf(format, args...))
}

func (s Spec[Out, Key]) withDefaults() Spec[Out, Key] {
	if s.Source == "" {
		s.Source = defaultSource
	}
	if s.MinBackoff <= 0 {
		s.MinBackoff = defaultMinBackoff
	}
	if s.MaxBackoff <= 0 {
		s.MaxBackoff = defaultMaxBackoff
	}
	if s.Logger == nil {
		s.Logger = slog.Default()
	}
	if s.Health == nil {
		s.Health = noHealth{}
	}
	return s
}

var (
	errRunning = errors.New("the derivation is already running")
	errEnded   = errors.New("the derivation has ended: make a new one to replace it")
)

// Run fills the output until ctx ends, or the output or an input is dropped
// ([statedb.ErrDropped]), and returns that error. The drop of the output is noticed by the
// next write. Run works in the goroutine that calls it.
//
// It can be called again after it returned because of ctx. If it returns for any other
// reason it ends the source of the output with that reason: the source stays incomplete
// until another derivation is made with its name.
func (d *Derivation[Out, Key]) Run(ctx context.Context) error {
	if !d.running.CompareAndSwap(false, true) {
		return d.tableError(errRunning)
	}
	defer d.running.Store(false)
	if d.ended {
		return d.tableError(errEnded)
	}
	r := d.begin()
	defer r.close()
	err := r.loop(ctx)
	if ctx.Err() != nil {
		d.spec.Health.Stopped("stopped")
		return err
	}
	d.ended = true
	d.spec.Health.Degraded(endMessage, err)
	return errors.Join(err, d.endSource(ctx, err))
}

func (d *Derivation[Out, Key]) tableError(err error) error {
	return &statedb.TableError{Table: d.spec.Output.Name(), Err: err}
}

const endMessage = "derivation has ended"

// endSource ends the source of the output with a reason, unless the output was dropped.
func (d *Derivation[Out, Key]) endSource(ctx context.Context, reason error) error {
	err := d.db.Update(ctx, func(txn *statedb.WriteTxn) error {
		return d.source.End(txn, fmt.Sprintf("%s: %v", endMessage, reason))
	}, d.spec.Output)
	if errors.Is(err, statedb.ErrDropped) {
		return nil
	}
	return err
}

// Stats counts failures.
type Stats struct {
	Failures uint64 // how often a row failed, or the rows that an input row affects could not be determined
	Failing  int    // rows of the output that have failed and are waiting for a retry
}

// Stats returns the counts since [New]. It is safe for concurrent use.
func (d *Derivation[Out, Key]) Stats() Stats {
	return Stats{Failures: d.failures.Load(), Failing: int(d.failing.Load())}
}
