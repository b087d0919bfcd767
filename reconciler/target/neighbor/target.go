package neighbor

import (
	"context"
	"fmt"
	"iter"
	"sync/atomic"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/target/mirror"
	"github.com/statehive/statehive/reconciler/target/rtnl"
	"github.com/statehive/statehive/reconciler/target/steps"
	"github.com/statehive/statehive/statedb"
)

// Config is the configuration of a target.
type Config struct {
	// Allowed, if not nil, returns an error for a device that must not be given
	// neighbors, by name and index: see link.Target.Vouches.
	Allowed func(ctx context.Context, device string, index int) error
	// Renamed, if not nil, is called by a mirror after the names of a device with our entries
	// have changed. By its new names they may belong to no row; then a full pass removes them.
	Renamed func()
	// Rows, if not nil, is the table of the rows. With it and a mirror, an entry is observed with the name of its device that a row
	// has, and stays when the row of another name is deleted.
	Rows *statedb.Table[Neighbor]
}

// Target adds permanent neighbors to devices of the network namespace that it was created in.
type Target struct {
	reconciler.NoInit // there is nothing to prepare
	reconciler.NoPrune[Neighbor]

	config Config
	conn   *rtnl.Conn
	// mirror has the existing entries; if it is nil, the kernel is asked each time.
	mirror atomic.Pointer[mirror.Mirror[Seen, event]]
}

var (
	_ reconciler.BatchTarget[Neighbor] = (*Target)(nil)
	_ reconciler.Observer[Neighbor]    = (*Target)(nil)
	_ reconciler.BatchDiffer[Neighbor] = (*Target)(nil)
)

// New returns a target. Close it after use.
func New(config Config) (*Target, error) {
	conn, err := rtnl.Dial()
	if err != nil {
		return nil, err
	}
	return &Target{config: config, conn: conn}, nil
}

// Close releases the target's sockets.
func (t *Target) Close() error {
	t.conn.Close()
	return nil
}

// Update implements reconciler.Target.
func (t *Target) Update(ctx context.Context, txn statedb.ReadTxn, row Neighbor) (reconciler.Result, error) {
	result := t.UpdateBatch(ctx, txn, []Neighbor{row})[0]
	return result.Result, result.Err
}

// Delete implements reconciler.Target. It removes our entry with the key of the row.
func (t *Target) Delete(ctx context.Context, txn statedb.ReadTxn, row Neighbor) error {
	return t.DeleteBatch(ctx, txn, []Neighbor{row})[0]
}

// Diff implements reconciler.Differ.
func (t *Target) Diff(ctx context.Context, txn statedb.ReadTxn, row Neighbor) ([]reconciler.Change, error) {
	result := t.DiffBatch(ctx, txn, []Neighbor{row})[0]
	return result.Changes, result.Err
}

// DiffBatch implements reconciler.BatchDiffer.
func (t *Target) DiffBatch(ctx context.Context, _ statedb.ReadTxn, rows []Neighbor) []reconciler.DiffResult {
	u := t.newUpdates(ctx, len(rows))
	u.look(rows)
	_, taken := u.due()
	u.lookCloser(taken)
	results := make([]reconciler.DiffResult, len(rows))
	for i, w := range u.wants {
		if results[i].Err = u.results[i].Err; results[i].Err == nil {
			results[i].Changes = steps.Changes(w.row.compare(w.is))
		}
	}
	return results
}

// Observe implements reconciler.Observer: it yields all entries that carry our mark.
func (t *Target) Observe(ctx context.Context) iter.Seq2[Neighbor, error] {
	return func(yield func(Neighbor, error) bool) {
		seen, txn, err := t.all(ctx)
		if err != nil {
			yield(Neighbor{}, err)
			return
		}
		for s := range seen {
			if !s.isOurs() {
				continue
			}
			device := s.Device
			if key, ok := t.declared(txn, s); ok {
				device = key.Device
			}
			if !yield(Neighbor{Device: device, Address: s.Address, MAC: s.MAC}, nil) {
				return
			}
		}
	}
}

// declared returns the key of the row that declares an entry, under any of the names of its device.
func (t *Target) declared(txn statedb.ReadTxn, s Seen) (key Key, ok bool) {
	if t.config.Rows == nil || txn == nil {
		return Key{}, false
	}
	for _, key := range s.keys() {
		if _, _, ok := t.config.Rows.Get(txn, ByKey.Query(key)); ok {
			return key, true
		}
	}
	return Key{}, false
}

// all returns the entries that somebody has made, and the snapshot that they are from, if there is a mirror.
func (t *Target) all(ctx context.Context) (iter.Seq2[Seen, statedb.Revision], statedb.ReadTxn, error) {
	if m := t.mirror.Load(); m != nil {
		view, err := m.Listed(ctx)
		if err != nil {
			return nil, nil, fmt.Errorf("list neighbors: %w", err)
		}
		return view.Table.All(view.Txn), view.Txn, nil
	}
	k := &keeper{target: t}
	rows, err := k.list(ctx)
	return func(yield func(Seen, statedb.Revision) bool) {
		for _, row := range rows {
			if !yield(row, 0) {
				return
			}
		}
	}, nil, err
}
