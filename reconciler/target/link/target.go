package link

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/target/mirror"
	"github.com/statehive/statehive/reconciler/target/ownership"
	"github.com/statehive/statehive/reconciler/target/rtnl"
	"github.com/statehive/statehive/statedb"
)

// Config is the configuration of a target.
type Config struct {
	// Owned is the state directory. Required.
	Owned *ownership.Store
	// Rows, if not nil, is the table of the rows. A link whose row is deleted stays as it is if another row is for
	// it, under another name, such as an alternative name or the new name of a link that was renamed.
	Rows *statedb.Table[Link]
	// Used, if not nil, reports whether rows of other kinds name a device. A veth whose row has got another name is not renamed then.
	Used func(txn statedb.ReadTxn, device string) bool
}

// Target creates and changes links in the network namespace that it was created in.
type Target struct {
	reconciler.NoPrune[Link]

	conn    *rtnl.Conn
	rows    *statedb.Table[Link] // may be nil
	used    func(txn statedb.ReadTxn, device string) bool
	records *ownership.Indexed[record, int] // those of links of others also by the index of the link
	// settling is held while records of links that were renamed are ended.
	settling sync.Mutex
	// mirror has the existing links; if it is nil, the kernel is asked each time.
	mirror atomic.Pointer[mirror.Mirror[Seen, event]]
}

var (
	_ reconciler.BatchTarget[Link] = (*Target)(nil)
	_ reconciler.Observer[Link]    = (*Target)(nil)
	_ reconciler.BatchDiffer[Link] = (*Target)(nil)
)

// New returns a target. Close it after use.
func New(cfg Config) (*Target, error) {
	records, err := ownership.NewRecords[record](cfg.Owned, "link")
	if err != nil {
		return nil, err
	}
	conn, err := rtnl.Dial()
	if err != nil {
		return nil, err
	}
	return &Target{conn: conn, rows: cfg.Rows, used: cfg.Used, records: ownership.IndexBy(records, borrowedIndex)}, nil
}

// Close releases the target's sockets.
func (t *Target) Close() error {
	t.conn.Close()
	return nil
}

// Init implements reconciler.Target. It drops the records of links that are gone.
func (t *Target) Init(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	l := t.looker(ctx)
	for name := range t.records.All() {
		_, recorded, err := l.recorded(name)
		if err == nil && !recorded {
			err = t.records.Remove(name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Update implements reconciler.Target.
func (t *Target) Update(ctx context.Context, txn statedb.ReadTxn, row Link) (reconciler.Result, error) {
	result := t.UpdateBatch(ctx, txn, []Link{row})[0]
	return result.Result, result.Err
}

// Delete implements reconciler.Target.
func (t *Target) Delete(ctx context.Context, txn statedb.ReadTxn, row Link) error {
	return t.DeleteBatch(ctx, txn, []Link{row})[0]
}

// Diff implements reconciler.Differ.
func (t *Target) Diff(ctx context.Context, txn statedb.ReadTxn, row Link) ([]reconciler.Change, error) {
	return t.looker(ctx).diff(txn, row)
}

// DiffBatch implements reconciler.BatchDiffer.
func (t *Target) DiffBatch(ctx context.Context, txn statedb.ReadTxn, rows []Link) []reconciler.DiffResult {
	l, results := t.looker(ctx), make([]reconciler.DiffResult, len(rows))
	for i, row := range rows {
		results[i].Changes, results[i].Err = l.diff(txn, row)
	}
	return results
}

// diff returns the changes that Update would make.
func (l looker) diff(txn statedb.ReadTxn, row Link) ([]reconciler.Change, error) {
	row, err := row.Normalized()
	if err != nil {
		return nil, reconciler.Terminal(err)
	}
	s, err := l.lookFor(txn, row)
	switch {
	case err != nil:
		return nil, err
	case s.shared:
		return asChanges(s.attributes(row)), nil
	case s.link == nil:
		return creationChanges(row), nil
	case row.Type != "" && !s.created():
		return adoptionChanges(s, row), nil
	case row.Type != "" && !s.isLike(row):
		return recreationChanges(s, row), l.peerTaken(row, func(holder Seen) bool { return l.mayBecomeFree(s, holder) })
	}
	return asChanges(s.attributes(row)), nil
}

// Vouches returns an error that matches ErrForeign if a device has the name of a link that we
// created but is not that link, for example because others removed ours and made another. The
// index is the one that the caller found for the name. Names of links that we did not create
// are always accepted.
func (t *Target) Vouches(ctx context.Context, device string, index int) error {
	if rec, known := t.records.Get(device); !known || rec.Created == nil {
		return nil
	}
	s, err := t.looker(ctx).look(device)
	switch {
	case err != nil:
		return err
	case s.link == nil, s.link.Index != index:
		return fmt.Errorf("device %s was another one a moment ago (#%d): %w", device, index, ErrForeign)
	case !s.created():
		return &ForeignError{Name: device, Type: s.link.Type, Marked: s.link.Alias == alias}
	}
	return nil
}

// Observe implements reconciler.Observer: it yields the links that we created
// and those whose attributes we set, under their names in the records.
func (t *Target) Observe(ctx context.Context) iter.Seq2[Link, error] {
	return func(yield func(Link, error) bool) {
		l := looker{target: t, ctx: ctx}
		if m := t.mirror.Load(); m != nil {
			view, err := m.Listed(ctx)
			if err != nil {
				yield(Link{}, fmt.Errorf("list links: %w", err))
				return
			}
			l.view = view
		}
		for name := range t.records.All() {
			s, recorded, err := l.recorded(name)
			if err == nil && !recorded {
				continue
			}
			if !yield(s.row(), err) || err != nil {
				return
			}
		}
	}
}
