package address

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"syscall"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/target/internal/rtnl"
	"github.com/statehive/statehive/reconciler/target/internal/steps"
	"github.com/statehive/statehive/reconciler/target/ownership"
	"github.com/statehive/statehive/statedb"
)

// Config says how a target works.
type Config struct {
	// Owned is the state directory. Required.
	Owned *ownership.Store
}

// Target gives addresses to devices of the network namespace that it was made in.
type Target struct {
	conn    *rtnl.Conn
	records *ownership.Records[record]

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

var (
	_ reconciler.Target[Address]   = (*Target)(nil)
	_ reconciler.Observer[Address] = (*Target)(nil)
	_ reconciler.Differ[Address]   = (*Target)(nil)
)

// New returns a target. Close it after use.
func New(cfg Config) (*Target, error) {
	records, err := ownership.NewRecords[record](cfg.Owned, "address")
	if err != nil {
		return nil, err
	}
	conn, err := rtnl.Dial()
	if err != nil {
		return nil, err
	}
	return &Target{conn: conn, records: records}, nil
}

// Close releases the target's socket.
func (t *Target) Close() error {
	t.conn.Close()
	return nil
}

// Init implements reconciler.Target. It drops the records of addresses that are
// gone: they cannot be told from others' that come later.
func (t *Target) Init(ctx context.Context) error {
	for name, rec := range t.records.All() {
		_, found, err := t.find(rec.Index, rec.Key.Address)
		if err == nil && !found {
			err = t.records.Remove(name)
		}
		if err := errors.Join(err, ctx.Err()); err != nil {
			return err
		}
	}
	return nil
}

// Update implements reconciler.Target.
func (t *Target) Update(ctx context.Context, _ statedb.ReadTxn, row Address) (reconciler.Result, error) {
	s, err := t.look(ctx, row)
	if err != nil {
		return reconciler.Result{}, err
	}
	if err := t.claim(s); err != nil {
		return reconciler.Result{}, err
	}
	return steps.Take(ctx, t.steps(s))
}

// Diff implements reconciler.Differ.
func (t *Target) Diff(ctx context.Context, _ statedb.ReadTxn, row Address) ([]reconciler.Change, error) {
	s, err := t.look(ctx, row)
	if err != nil {
		return nil, err
	}
	return steps.Changes(t.steps(s)), nil
}

// state is what there is for a row.
type state struct {
	key     Key
	index   int // of the device
	present bool
}

func (t *Target) look(ctx context.Context, row Address) (state, error) {
	row, err := row.Normalized()
	if err != nil {
		return state{}, reconciler.Terminal(err)
	}
	if err := ctx.Err(); err != nil {
		return state{}, err
	}
	link, err := t.conn.LinkByName(row.Device)
	if err != nil {
		return state{}, err
	}
	index := link.Attrs().Index
	addr, found, err := t.find(index, row.Address)
	if err != nil {
		return state{}, err
	}
	if found && isDuplicate(addr) {
		return state{}, &DuplicateError{Key: row.Key()}
	}
	return state{key: row.Key(), index: index, present: found}, nil
}

// steps says what is to be done for a row.
func (t *Target) steps(s state) []steps.Step {
	is := ""
	if s.present {
		is = s.key.Address.String()
	}
	return steps.Field("address", is, s.key.Address.String(), func() error { return t.add(s) })
}

// claim records the address before anything is done with it. A record that is
// of another device, one that had this name before, is brought to its end.
func (t *Target) claim(s state) error {
	old, known := t.records.Get(s.key.String())
	if known && old.Index == s.index {
		return nil
	}
	if known {
		if err := t.release(old); err != nil {
			return err
		}
	}
	return t.records.Put(s.key.String(), record{Key: s.key, Index: s.index, Existed: s.present})
}

// add adds the address. If it has come to be there since we looked, it is
// somebody else's.
func (t *Target) add(s state) error {
	t.writing.Lock()
	defer t.writing.Unlock()
	err := t.conn.Do(requestAdd(s.index, s.key.Address), syscall.EEXIST)
	if errors.Is(err, syscall.EEXIST) {
		return t.whoseIsIt(s)
	}
	if err != nil {
		return fmt.Errorf("add address %s to %s: %w", s.key.Address, s.key.Device, err)
	}
	return nil
}

// whoseIsIt explains why an address could not be added.
func (t *Target) whoseIsIt(s state) error {
	_, found, err := t.find(s.index, s.key.Address)
	if err != nil {
		return err
	}
	if found {
		return t.records.Put(s.key.String(), record{Key: s.key, Index: s.index, Existed: true})
	}
	return fmt.Errorf("add address %s to %s: it is there already with another prefix length: %w", s.key.Address, s.key.Device, syscall.EEXIST)
}

// Delete implements reconciler.Target. An address that was there before us stays.
func (t *Target) Delete(ctx context.Context, _ statedb.ReadTxn, row Address) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	name := row.Key().String()
	rec, known := t.records.Get(name)
	if !known {
		return nil
	}
	if err := t.release(rec); err != nil {
		return err
	}
	return t.records.Remove(name)
}

// release removes the address of a record, if it is ours. The device is found by
// its index: it may have another name by now.
func (t *Target) release(rec record) error {
	if rec.Existed {
		return nil
	}
	t.writing.Lock()
	defer t.writing.Unlock()
	before, err := t.on(rec.Index, rec.Key.Address.Addr())
	if err != nil {
		return err
	}
	err = t.sparing(rec, before, func() error {
		return t.conn.Do(requestDelete(rec.Index, rec.Key.Address), syscall.EADDRNOTAVAIL, syscall.ENODEV)
	})
	switch {
	case errors.Is(err, syscall.EADDRNOTAVAIL), errors.Is(err, syscall.ENODEV):
		return nil
	case err != nil:
		return fmt.Errorf("remove address %s from %s: %w", rec.Key.Address, rec.Key.Device, err)
	}
	return t.bringBack(rec, before)
}

// Observe implements reconciler.Observer: it yields what is recorded and there,
// on the very device. It drops the records of addresses that are gone with their
// devices: those of rows that nobody declares any more have nobody else to do it.
func (t *Target) Observe(ctx context.Context) iter.Seq2[Address, error] {
	return func(yield func(Address, error) bool) {
		present, err := t.all()
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			yield(Address{}, err)
			return
		}
		for name, rec := range t.records.All() {
			if !present[place{rec.Index, rec.Key.Address}] {
				err = t.dropWithoutDevice(name, rec)
				if err == nil {
					continue
				}
			}
			if !yield(Address{Device: rec.Key.Device, Address: rec.Key.Address}, err) || err != nil {
				return
			}
		}
	}
}

// dropWithoutDevice drops a record if its device is gone. The kernel does not
// give an index again, so it has nothing to say any more, whoever is at work.
func (t *Target) dropWithoutDevice(name string, rec record) error {
	_, err := t.conn.LinkByIndex(rec.Index)
	if errors.Is(err, syscall.ENODEV) {
		return t.records.Remove(name)
	}
	return err
}

// Prune implements reconciler.Target. It is never called, since the target can
// observe.
func (t *Target) Prune(context.Context, statedb.ReadTxn, iter.Seq2[Address, statedb.Revision]) (int, error) {
	return 0, fmt.Errorf("prune addresses: %w: they are observed", errors.ErrUnsupported)
}
