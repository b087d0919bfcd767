package address

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"sync"
	"sync/atomic"
	"syscall"

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
	// Allowed, if not nil, returns an error for a device that must not be given
	// addresses. It is called with the index that was just found for a row's device, because
	// names move from one device to another.
	Allowed func(ctx context.Context, device string, index int) error
	// Rows, if not nil, is the table of the rows. The address of a row that is deleted stays if another row declares it, under another
	// name of its device, such as an alternative name or the new name of a device that was renamed.
	Rows *statedb.Table[Address]
	// Logger gets what is not an error of a row. If it is nil, nothing is logged.
	Logger *slog.Logger
}

// Target adds addresses to devices of the network namespace that it was created in.
type Target struct {
	reconciler.NoPrune[Address]

	conn       *rtnl.Conn
	records    *ownership.Records[record]
	promotions *ownership.Records[promotion]
	recorded   recorded
	duplicates duplicates
	unrouted   unrouted
	allowed    func(ctx context.Context, device string, index int) error
	rows       *statedb.Table[Address] // may be nil
	log        *slog.Logger
	marks      bool // whether the kernel keeps our mark
	// mirror has the existing addresses; if it is nil, the kernel is asked each time.
	mirror atomic.Pointer[mirror.Mirror[Seen, event]]

	// writing is held while addresses are added and removed. Together with an address, the kernel
	// may remove others, which are then added again. Addresses that another worker has just
	// removed must not be among them.
	writing sync.Mutex
}

// record is written before an address is added.
type record struct {
	Key     Key  `json:"key"`
	Index   int  `json:"index"`   // of the device
	Existed bool `json:"existed"` // it existed before us, so it is not removed
	// The lifetimes of its row, if that has any.
	Valid     Lifetime `json:"valid,omitzero"`
	Preferred Lifetime `json:"preferred,omitzero"`
}

// recordOf returns the record of a row's address.
func (s state) recordOf(existed bool) record {
	return record{s.key, s.index, existed, s.row.ValidLifetime, s.row.PreferredLifetime}
}

func (r record) seenKey() SeenKey { return SeenKey{r.Index, r.Key.Address} }

var (
	_ reconciler.BatchTarget[Address] = (*Target)(nil)
	_ reconciler.Observer[Address]    = (*Target)(nil)
	_ reconciler.BatchDiffer[Address] = (*Target)(nil)
)

// New returns a target. Close it after use.
func New(cfg Config) (*Target, error) {
	records, err := ownership.NewRecords[record](cfg.Owned, "address")
	if err != nil {
		return nil, err
	}
	promotions, err := ownership.NewRecords[promotion](cfg.Owned, "promotion")
	if err != nil {
		return nil, err
	}
	conn, err := rtnl.Dial()
	if err != nil {
		return nil, err
	}
	return &Target{
		conn: conn, records: records, promotions: promotions, allowed: cfg.Allowed, rows: cfg.Rows,
		log: cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler)), marks: keepsProtocol(),
	}, nil
}

// Close releases the target's sockets.
func (t *Target) Close() error {
	t.conn.Close()
	return nil
}

// Init implements reconciler.Target. It drops the records of addresses that are gone, because
// addresses that others add later would be taken for ours where the kernel does not keep our mark. It also restores settings that a
// killed process left changed.
func (t *Target) Init(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	t.writing.Lock()
	err := t.endPromotions(ctx)
	t.writing.Unlock()
	if err != nil {
		return err
	}
	present, err := t.present(ctx)
	if err != nil {
		return err
	}
	for name, rec := range t.records.All() {
		if _, found := present(rec.seenKey()); !found {
			err = t.records.Remove(name)
		}
		if err := errors.Join(err, ctx.Err()); err != nil {
			return err
		}
	}
	return nil
}

// Update implements reconciler.Target.
func (t *Target) Update(ctx context.Context, txn statedb.ReadTxn, row Address) (reconciler.Result, error) {
	result := t.UpdateBatch(ctx, txn, []Address{row})[0]
	return result.Result, result.Err
}

// Delete implements reconciler.Target. An address that existed before us, or that others have added in place of ours, stays.
func (t *Target) Delete(ctx context.Context, txn statedb.ReadTxn, row Address) error {
	return t.DeleteBatch(ctx, txn, []Address{row})[0]
}

// DeleteBatch implements reconciler.BatchTarget.
func (t *Target) DeleteBatch(ctx context.Context, txn statedb.ReadTxn, rows []Address) []error {
	outcomes := make([]error, len(rows))
	indexes := &rtnl.Indexes{Conn: t.conn}
	var at []int
	var recs []record
	for i, row := range rows {
		if outcomes[i] = ctx.Err(); outcomes[i] != nil {
			continue
		}
		rec, known := t.records.Get(row.Key().String())
		if !known {
			continue
		}
		kept, err := t.passOn(ctx, txn, indexes, rec)
		switch {
		case err != nil:
			outcomes[i] = err
		case kept:
			outcomes[i] = t.records.Remove(row.Key().String())
		default:
			at, recs = append(at, i), append(recs, rec)
		}
	}
	for n, err := range t.release(ctx, recs) {
		if err == nil {
			err = t.records.Remove(rows[at[n]].Key().String())
		}
		outcomes[at[n]] = err
	}
	return outcomes
}

// passOn gives the record of an address to another row that declares the address, if there is one.
func (t *Target) passOn(ctx context.Context, txn statedb.ReadTxn, indexes *rtnl.Indexes, rec record) (passed bool, err error) {
	if t.rows == nil {
		return false, nil
	}
	for row := range t.rows.List(txn, ByHost.Query(rec.Key.Address.Addr())) {
		key := row.Key()
		if key == rec.Key || key.Address != rec.Key.Address {
			continue
		}
		index, err := indexes.Of(ctx, key.Device)
		switch {
		case errors.Is(err, syscall.ENODEV):
			continue
		case err != nil:
			return false, err
		case index == rec.Index:
			if before, known := t.records.Get(key.String()); known && before.Index == index {
				rec.Valid, rec.Preferred = before.Valid, before.Preferred
			}
			rec.Key = key
			return true, t.records.Put(key.String(), rec)
		}
	}
	return false, nil
}

// Observe implements reconciler.Observer: it yields the recorded addresses that exist
// on the recorded device. The records of addresses that vanished with their devices are
// harmless, because the kernel does not use an index again, and Delete and Init drop them.
func (t *Target) Observe(ctx context.Context) iter.Seq2[Address, error] {
	return func(yield func(Address, error) bool) {
		present, err := t.listed(ctx)
		if err != nil {
			yield(Address{}, err)
			return
		}
		for _, rec := range t.records.All() {
			if _, found := present(rec.seenKey()); !found {
				continue
			}
			err := ctx.Err()
			if !yield(Address{Device: rec.Key.Device, Address: rec.Key.Address}, err) || err != nil {
				return
			}
		}
	}
}

// listed is like present, but uses a listing that is made for this call.
func (t *Target) listed(ctx context.Context) (presence, error) {
	m := t.mirror.Load()
	if m == nil {
		return t.present(ctx)
	}
	view, err := m.Listed(ctx)
	if err != nil {
		return nil, fmt.Errorf("list addresses: %w", err)
	}
	return presentIn(view), nil
}
