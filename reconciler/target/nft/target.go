package nft

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"sync/atomic"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/target/mirror"
	"github.com/statehive/statehive/reconciler/target/rtnl"
	"github.com/statehive/statehive/statedb"
)

// Target creates nftables tables in the network namespace that it was created in.
type Target struct {
	reconciler.NoInit // there is nothing to prepare
	reconciler.NoPrune[Table]

	log  *slog.Logger
	conn *rtnl.Conn
	port uint32 // netlink port that identifies notifications of our own changes
	// mirror has the existing tables; if it is nil, the kernel is asked each time.
	mirror atomic.Pointer[mirror.Mirror[Seen, event]]
}

var (
	_ reconciler.BatchTarget[Table] = (*Target)(nil)
	_ reconciler.Observer[Table]    = (*Target)(nil)
	_ reconciler.Differ[Table]      = (*Target)(nil)
)

// Config configures a target.
type Config struct {
	// Logger gets what is not an error of a row. If it is nil, nothing is logged.
	Logger *slog.Logger
}

// New returns a target. Close it after use.
func New(cfg Config) (*Target, error) {
	conn, err := rtnl.DialNetfilter()
	if err != nil {
		return nil, err
	}
	port, err := conn.Port()
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("identify a netlink socket: %w", err)
	}
	return &Target{log: cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler)), conn: conn, port: port}, nil
}

// Close releases the target's sockets.
func (t *Target) Close() error {
	t.conn.Close()
	return nil
}

// ErrForeign is matched by the error for a key whose table others made.
var ErrForeign = errors.New("a table of this name exists and was not made by this agent")

// ForeignError is the error for a table that is not ours. It matches ErrForeign.
type ForeignError struct{ Key Key }

// Error implements error.
func (e *ForeignError) Error() string {
	return fmt.Sprintf("table %s: %v; it is left alone: delete it, choose another name, or set adopt to replace it", e.Key, ErrForeign)
}

// Unwrap returns ErrForeign.
func (e *ForeignError) Unwrap() error { return ErrForeign }

// looker looks up tables in a mirror's table or in the kernel.
type looker struct {
	log  *slog.Logger
	view mirror.View[Seen]
	reader
}

// looker returns a looker that sees everything that the kernel did before the call.
func (t *Target) looker(ctx context.Context) *looker {
	return &looker{t.log, t.mirror.Load().View(ctx), reader{conn: t.conn, ctx: ctx}}
}

func (l *looker) look(key Key) (s Seen, found bool, err error) {
	if l.view.Reliable() {
		s, found = l.view.Get(SeenByKey.Query(key))
		return s, found, nil
	}
	return l.seen(key)
}

// wanted checks the row and returns it with its digest.
func wanted(row Table) (Table, error) {
	row, err := row.Normalized()
	if err == nil && row.digest == "" {
		row = row.digested()
	}
	if err != nil {
		return row, reconciler.Terminal(fmt.Errorf("table %s: %w", row.Key(), err))
	}
	return row, nil
}

// refused returns the error if an existing table must not be replaced by a row.
func (s Seen) refused(row Table, found bool) error {
	if found && !s.ours() && !row.Adopt {
		return &ForeignError{s.Key}
	}
	return nil
}

// Update implements reconciler.Target.
func (t *Target) Update(ctx context.Context, txn statedb.ReadTxn, row Table) (reconciler.Result, error) {
	result := t.UpdateBatch(ctx, txn, []Table{row})[0]
	return result.Result, result.Err
}

// Delete implements reconciler.Target. It removes the table that has the key of the row
// if it is ours. If the row is from Observe, it leaves a table with another content than its mark
// says, and logs that: a mark is saved and restored with its table, so somebody may have loaded an
// edited copy as his own.
func (t *Target) Delete(ctx context.Context, txn statedb.ReadTxn, row Table) error {
	return t.DeleteBatch(ctx, txn, []Table{row})[0]
}

// Diff implements reconciler.Differ.
func (t *Target) Diff(ctx context.Context, _ statedb.ReadTxn, row Table) ([]reconciler.Change, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	row, err := wanted(row)
	if err != nil {
		return nil, err
	}
	l := t.looker(ctx)
	is, found, err := l.look(row.Key())
	if err == nil {
		err = is.refused(row, found)
	}
	due := is.steps(row, found)
	if err != nil || len(due) == 0 {
		return nil, err
	}
	return l.details(row, due)
}

// Observe implements reconciler.Observer: it yields the keys of all tables that have
// our mark.
func (t *Target) Observe(ctx context.Context) iter.Seq2[Table, error] {
	return func(yield func(Table, error) bool) {
		seen, err := t.all(ctx)
		if err != nil {
			yield(Table{}, fmt.Errorf("list tables: %w", err))
			return
		}
		for s := range seen {
			if s.ours() && !yield(Table{Name: s.Key.Name, Family: s.Key.Family, observed: true}, nil) {
				return
			}
		}
	}
}

// all returns all tables.
func (t *Target) all(ctx context.Context) (iter.Seq[Seen], error) {
	if m := t.mirror.Load(); m != nil {
		// If the kernel does not allow listing, the mirror keeps retrying forever.
		if _, err := (&reader{conn: t.conn, ctx: ctx}).generation(); err != nil {
			return nil, err
		}
		view, err := m.Listed(ctx)
		return func(yield func(Seen) bool) {
			for s := range view.Table.All(view.Txn) {
				if !yield(s) {
					return
				}
			}
		}, err
	}
	tables, err := (&reader{conn: t.conn, ctx: ctx}).tables()
	return func(yield func(Seen) bool) {
		for _, h := range tables {
			if !yield(h.Seen) {
				return
			}
		}
	}, errors.Join(err, ctx.Err())
}
