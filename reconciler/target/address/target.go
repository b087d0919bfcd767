package address

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/target/mirror"
	"github.com/statehive/statehive/reconciler/target/ownership"
	"github.com/statehive/statehive/reconciler/target/rtnl"
	"github.com/statehive/statehive/reconciler/target/steps"
	"github.com/statehive/statehive/statedb"
)

// Config says how a target works.
type Config struct {
	// Owned is the state directory. Required.
	Owned *ownership.Store
	// Allowed, if not nil, returns an error for a device that must not be given
	// addresses. It is asked with the index that a row's device was just found to
	// have: names move from one device to another.
	Allowed func(ctx context.Context, device string, index int) error
}

// Target gives addresses to devices of the network namespace that it was made in.
type Target struct {
	reconciler.NoPrune[Address]

	conn       *rtnl.Conn
	records    *ownership.Records[record]
	promotions *ownership.Records[promotion]
	allowed    func(ctx context.Context, device string, index int) error
	// mirror knows what there is; nil: the kernel is asked each time.
	mirror atomic.Pointer[mirror.Mirror[Seen, event]]

	// writing is held while addresses are added and removed: with one the kernel
	// may remove others, which are then brought back, and those must not be what
	// another worker has just removed.
	writing sync.Mutex
}

// record is written before an address is added.
type record struct {
	Key     Key  `json:"key"`
	Index   int  `json:"index"`   // of the device
	Existed bool `json:"existed"` // before us, so that it stays
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
	return &Target{conn: conn, records: records, promotions: promotions, allowed: cfg.Allowed}, nil
}

// Close releases the target's sockets.
func (t *Target) Close() error {
	t.conn.Close()
	return nil
}

// Init implements reconciler.Target. It drops the records of addresses that are
// gone: they cannot be told from others' that come later. It ends what a process
// that was killed has left begun.
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

// UpdateBatch implements reconciler.BatchTarget.
func (t *Target) UpdateBatch(ctx context.Context, _ statedb.ReadTxn, rows []Address) []reconciler.BatchResult {
	u := t.newUpdates(ctx, rows)
	u.look(rows)
	u.claim()
	u.add()
	return u.results
}

// Diff implements reconciler.Differ.
func (t *Target) Diff(ctx context.Context, txn statedb.ReadTxn, row Address) ([]reconciler.Change, error) {
	result := t.DiffBatch(ctx, txn, []Address{row})[0]
	return result.Changes, result.Err
}

// DiffBatch implements reconciler.BatchDiffer.
func (t *Target) DiffBatch(ctx context.Context, _ statedb.ReadTxn, rows []Address) []reconciler.DiffResult {
	u := t.newUpdates(ctx, rows)
	u.look(rows)
	results := make([]reconciler.DiffResult, len(rows))
	for i, row := range rows {
		results[i].Err = u.results[i].Err
		if results[i].Err == nil && !u.states[i].present {
			results[i].Changes = steps.Changes(steps.Field("address", "", row.Address.String(), nil))
		}
	}
	return results
}

// updates are rows that are brought about together.
type updates struct {
	target  *Target
	ctx     context.Context //nolint:containedctx // of one call of UpdateBatch
	states  []state
	results []reconciler.BatchResult

	indexes  rtnl.Indexes
	refusals map[string]error // by Config.Allowed, of the devices that it was asked about
}

// state is what there is for a row.
type state struct {
	key     Key
	index   int // of the device
	present bool
}

func (s state) seenKey() SeenKey { return SeenKey{s.index, s.key.Address} }

func (t *Target) newUpdates(ctx context.Context, rows []Address) *updates {
	return &updates{
		target: t, ctx: ctx,
		states: make([]state, len(rows)), results: make([]reconciler.BatchResult, len(rows)),
		indexes: rtnl.Indexes{Conn: t.conn}, refusals: map[string]error{},
	}
}

// look finds out what there is for rows.
func (u *updates) look(rows []Address) {
	present, err := u.target.present(u.ctx)
	for i, row := range rows {
		if u.results[i].Err = errors.Join(err, u.ctx.Err()); u.results[i].Err == nil {
			u.states[i], u.results[i].Err = u.lookAt(row, present)
		}
	}
}

func (u *updates) lookAt(row Address, present presence) (s state, err error) {
	if row, err = row.Normalized(); err != nil {
		return s, reconciler.Terminal(err)
	}
	s.key = row.Key()
	if s.index, err = u.indexOf(row.Device); err != nil {
		return s, err
	}
	duplicate, found := present(s.seenKey())
	if duplicate {
		return s, &DuplicateError{Key: s.key}
	}
	s.present = found
	return s, nil
}

// indexOf returns the index of a device that may be given addresses.
func (u *updates) indexOf(device string) (int, error) {
	index, err := u.indexes.Of(u.ctx, device)
	if err != nil || u.target.allowed == nil {
		return index, err
	}
	refusal, asked := u.refusals[device]
	if !asked {
		refusal = u.target.allowed(u.ctx, device, index)
		u.refusals[device] = refusal
	}
	return index, refusal
}

// claim records addresses before anything is done with them.
func (u *updates) claim() {
	for i, s := range u.states {
		if u.results[i].Err == nil {
			u.results[i].Err = u.target.claim(u.ctx, s)
		}
	}
}

// claim records an address. A record that is of another device, which had the name
// before, is brought to its end. One of an address that is absent says nothing about
// the one that comes now.
func (t *Target) claim(ctx context.Context, s state) error {
	next := record{Key: s.key, Index: s.index, Existed: s.present}
	old, known := t.records.Get(s.key.String())
	switch {
	case known && old.Index == s.index && (s.present || old == next):
		return nil
	case known && old.Index != s.index:
		if err := t.release(ctx, []record{old})[0]; err != nil {
			return err
		}
	}
	return t.records.Put(s.key.String(), next)
}

// add adds what is absent.
func (u *updates) add() {
	var at []int
	var requests []rtnl.Request
	for i, s := range u.states {
		if u.results[i].Err == nil && !s.present {
			at = append(at, i)
			requests = append(requests, s.seenKey().request(unix.RTM_NEWADDR, unix.NLM_F_CREATE|unix.NLM_F_EXCL))
		}
	}
	if len(at) == 0 {
		return
	}
	u.target.writing.Lock()
	defer u.target.writing.Unlock()
	for n, err := range u.target.conn.Execute(u.ctx, requests) {
		i := at[n]
		switch {
		case err == nil:
			u.results[i].Result.Changed = true
		case errors.Is(err, syscall.EEXIST):
			u.results[i].Err = u.target.explainExists(u.ctx, u.states[i])
		default:
			u.results[i].Err = u.target.notAdded(u.ctx, u.states[i], err)
		}
	}
}

// explainExists is for an address that could not be added because it is there. If it
// has come to be there since we looked, it is somebody else's, and recorded so before
// anything else can go wrong.
func (t *Target) explainExists(ctx context.Context, s state) error {
	if err := t.records.Put(s.key.String(), record{Key: s.key, Index: s.index, Existed: true}); err != nil {
		return err
	}
	present, err := t.present(ctx)
	if err != nil {
		return err
	}
	if _, found := present(s.seenKey()); found {
		return nil
	}
	err = fmt.Errorf("add address %s to %s: it is there already with another prefix length: %w", s.key.Address, s.key.Device, syscall.EEXIST)
	return errors.Join(err, t.records.Remove(s.key.String()))
}

// notAdded is for an address that could not be added. Where it is certain that the
// kernel has not done so, the record goes: it would claim the address for us when
// somebody else adds it.
func (t *Target) notAdded(ctx context.Context, s state, err error) error {
	var refusal *rtnl.Error
	certain := errors.As(err, &refusal) || ctx.Err() != nil && errors.Is(err, ctx.Err())
	err = fmt.Errorf("add address %s to %s: %w", s.key.Address, s.key.Device, err)
	if !certain {
		return err
	}
	return errors.Join(err, t.records.Remove(s.key.String()))
}

// Delete implements reconciler.Target. An address that was there before us stays.
func (t *Target) Delete(ctx context.Context, txn statedb.ReadTxn, row Address) error {
	return t.DeleteBatch(ctx, txn, []Address{row})[0]
}

// DeleteBatch implements reconciler.BatchTarget.
func (t *Target) DeleteBatch(ctx context.Context, _ statedb.ReadTxn, rows []Address) []error {
	outcomes := make([]error, len(rows))
	var at []int
	var recs []record
	for i, row := range rows {
		if outcomes[i] = ctx.Err(); outcomes[i] != nil {
			continue
		}
		if rec, known := t.records.Get(row.Key().String()); known {
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

// Observe implements reconciler.Observer: it yields what is recorded and there,
// on the very device. The records of addresses that are gone with their devices claim
// nothing, because the kernel does not give an index again, and are for Delete and Init to
// drop.
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

// listed is present, of what is listed for this call.
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
