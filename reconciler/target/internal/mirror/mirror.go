// Package mirror keeps tables as the kernel is, for what only the kernel knows.
//
// A [Mirror] subscribes to messages of the kernel, but takes from them only that
// something may have changed: then it lists anew. So it does not matter that the
// kernel tells some changes to nobody, such as the routes that go with a link, and
// drops messages when they are too many. A listing comes at once, but not before
// ten times have gone by of what the one before took, or half a second.
//
// While nothing can be heard the source of the table is incomplete, so that nobody
// concludes anything from it; then comes a new subscription and a listing.
package mirror

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/statedb"
)

const (
	// shortest and longest bound the time between two listings.
	shortest = 20 * time.Millisecond
	longest  = 500 * time.Millisecond
	// again is how long a new subscription waits after a fault.
	again = time.Second
)

// Config is what a mirror is made of. All is required.
type Config[Row comparable] struct {
	DB *statedb.DB
	// Table belongs to the mirror: nobody else writes it.
	Table statedb.RWTable[Row]
	// Subscribe hears of changes from now on.
	Subscribe func() (Subscription, error)
	// Tells says whether a message may be about a row.
	Tells func(message syscall.NetlinkMessage) bool
	// List returns all rows that there are, each key once.
	List func(ctx context.Context) ([]Row, error)
}

// Mirror keeps a table as the kernel is while it runs.
type Mirror[Row comparable] struct {
	Config[Row]
	source *statedb.Source[Row]
}

// New returns a mirror, whose table is not initialized before its first listing.
func New[Row comparable](cfg Config[Row]) (*Mirror[Row], error) {
	m := &Mirror[Row]{Config: cfg}
	err := m.DB.Update(context.Background(), func(txn *statedb.WriteTxn) (err error) {
		m.source, err = m.Table.RegisterSource(txn, "kernel")
		return err
	}, m.Table)
	return m, err
}

// Run keeps the table until ctx ends. It does not give up: faults are told to health.
func (m *Mirror[Row]) Run(ctx context.Context, health reconciler.Health) error {
	for fault := m.follow(ctx, health); ctx.Err() == nil; fault = m.follow(ctx, health) {
		health.Degraded("not up to date", fault)
		if err := m.DB.Update(context.WithoutCancel(ctx), func(txn *statedb.WriteTxn) error {
			return m.source.Incomplete(txn, fault.Error())
		}, m.Table); err != nil {
			return err
		}
		if !pause(ctx, again) {
			break
		}
	}
	return nil
}

// follow keeps the table until ctx ends or something fails.
func (m *Mirror[Row]) follow(ctx context.Context, health reconciler.Health) error {
	s, err := m.Subscribe()
	if err != nil {
		return fmt.Errorf("subscribe to changes: %w", err)
	}
	changed, failed := make(chan struct{}, 1), make(chan error, 1)
	var hearing sync.WaitGroup
	hearing.Go(func() { failed <- m.hear(s, changed) })
	defer hearing.Wait()
	defer s.Close()
	for {
		began := time.Now()
		if err := m.refresh(ctx); err != nil {
			return err
		}
		health.OK("up to date")
		if !pause(ctx, min(max(10*time.Since(began), shortest), longest)) {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case err := <-failed:
			return err
		case <-changed:
		}
	}
}

// hear puts a token into changed when something may have changed, until the
// subscription fails.
func (m *Mirror[Row]) hear(s Subscription, changed chan<- struct{}) error {
	for {
		messages, err := s.Receive()
		tells := errors.Is(err, syscall.ENOBUFS) // there were more than we were told
		if err != nil && !tells {
			return fmt.Errorf("hear of changes: %w", err)
		}
		for _, message := range messages {
			tells = tells || m.Tells(message)
		}
		if tells {
			select {
			case changed <- struct{}{}:
			default:
			}
		}
	}
}

// refresh makes the table what there is.
func (m *Mirror[Row]) refresh(ctx context.Context) error {
	rows, err := m.List(ctx)
	if err != nil {
		return err
	}
	txn := m.DB.ReadTxn()
	is := make(map[string]Row, len(rows))
	var put []Row
	for _, row := range rows {
		is[m.Table.KeyQuery(row).Encoded()] = row
		if old, _, found := m.Table.Get(txn, m.Table.KeyQuery(row)); !found || old != row {
			put = append(put, row)
		}
	}
	var gone []Row
	for row := range m.Table.All(txn) {
		if _, there := is[m.Table.KeyQuery(row).Encoded()]; !there {
			gone = append(gone, row)
		}
	}
	if state := m.Table.Sources(txn)[0]; len(put)+len(gone) == 0 && state.Initialized && state.Incomplete == "" {
		return nil
	}
	return m.DB.Update(ctx, func(txn *statedb.WriteTxn) error { return m.write(txn, put, gone) }, m.Table)
}

func (m *Mirror[Row]) write(txn *statedb.WriteTxn, put, gone []Row) error {
	for _, row := range gone {
		if _, _, err := m.Table.Delete(txn, row); err != nil {
			return err
		}
	}
	for _, row := range put {
		if _, _, err := m.Table.Insert(txn, row); err != nil {
			return err
		}
	}
	return errors.Join(m.source.Initialized(txn), m.source.Complete(txn))
}

// pause says whether ctx has not ended meanwhile.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
