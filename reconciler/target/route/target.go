package route

import (
	"context"
	"fmt"
	"iter"
	"sync/atomic"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/target/mirror"
	"github.com/statehive/statehive/reconciler/target/rtnl"
	"github.com/statehive/statehive/statedb"
	"github.com/statehive/statehive/statedb/immutable"
)

// Protocol marks the routes that we make.
const Protocol = byte(rtnl.Ours)

// Config is the configuration of a target.
type Config struct {
	// Allowed, if not nil, returns an error for devices that routes must not use,
	// by name and index: see link.Target.Vouches.
	Allowed func(ctx context.Context, device string, index int) error
	// Declared reports whether there is a row with a key. Of the routes of others, of which there may be many, only those with the
	// keys of rows are kept in memory for a while. If it is nil, all are.
	Declared func(Key) bool
}

// Target creates routes in the network namespace that it was created in.
type Target struct {
	reconciler.NoInit // there is nothing to prepare
	reconciler.NoPrune[Route]

	config Config
	conn   *rtnl.Conn
	lists  listings
	// mirror has the existing routes; if it is nil, the kernel is asked each time.
	mirror atomic.Pointer[mirror.Mirror[Seen, event]]
}

var (
	_ reconciler.BatchTarget[Route] = (*Target)(nil)
	_ reconciler.Observer[Route]    = (*Target)(nil)
	_ reconciler.BatchDiffer[Route] = (*Target)(nil)
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
func (t *Target) Update(ctx context.Context, txn statedb.ReadTxn, row Route) (reconciler.Result, error) {
	result := t.UpdateBatch(ctx, txn, []Route{row})[0]
	return result.Result, result.Err
}

// Delete implements reconciler.Target. It removes our routes with the key of the row.
func (t *Target) Delete(ctx context.Context, txn statedb.ReadTxn, row Route) error {
	return t.DeleteBatch(ctx, txn, []Route{row})[0]
}

// Observe implements reconciler.Observer: it yields all routes of our protocol. For a route
// that a row cannot describe, such as one of several with one key, it yields only the key.
func (t *Target) Observe(ctx context.Context) iter.Seq2[Route, error] {
	return func(yield func(Route, error) bool) {
		seen, err := t.all(ctx)
		if err != nil {
			yield(Route{}, err)
			return
		}
		for s := range seen {
			if !yield(s.row(), nil) {
				return
			}
		}
	}
}

// all returns the routes of ours, each key once.
func (t *Target) all(ctx context.Context) (iter.Seq2[Seen, statedb.Revision], error) {
	if m := t.mirror.Load(); m != nil {
		view, err := m.Listed(ctx)
		if err != nil {
			return nil, fmt.Errorf("list routes: %w", err)
		}
		return view.Table.All(view.Txn), nil
	}
	k := &keeper{target: t, beside: map[Key]struct{}{}} // Behind is in no row
	rows, err := k.list(ctx, func() error { return nil })
	return func(yield func(Seen, statedb.Revision) bool) {
		for _, row := range rows {
			if !yield(row, 0) {
				return
			}
		}
	}, err
}

// row returns the observed route as a row.
func (s Seen) row() Route {
	row := Route{
		Destination: To(s.Key.Destination),
		Gateway:     s.Gateway,
		Device:      s.Device,
		Source:      s.Source,
		Metric:      s.Key.Metric,
		Table:       s.Key.Table,
		MTU:         s.MTU,
		Type:        s.Type,
	}
	if row.Type != Unicast {
		row.Device = "" // IPv6: lo
	}
	var hops []Nexthop
	for _, h := range s.Nexthops.All() {
		hops = append(hops, Nexthop{h.Gateway, h.Device, h.Weight})
	}
	row.Nexthops = immutable.ListOf(hops...)
	if row = row.completed(); s.Scope != row.scope() {
		row.Scope = s.Scope
	}
	return row
}
