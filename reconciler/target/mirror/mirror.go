// Package mirror keeps tables in step with objects in the kernel, such as links.
//
// A [Mirror] lists the objects once and then follows the kernel's
// notifications. It lists again if the notifications are not sufficient: when some were lost,
// or when the kernel does not announce a change in full, such as the routes that disappear
// when a link goes down. Between two such listings it waits ten times as long as a listing
// takes, but at most half a second.
//
// From the moment that the table is in doubt until the next listing, and while
// nothing can be received, the source of the table is incomplete, so that nobody
// takes what the table lacks for absent.
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
	// shortest and longest bound the least time between two listings.
	shortest = 20 * time.Millisecond
	longest  = 500 * time.Millisecond
	// It is asked every unannouncedInterval whether there may be changes without a notification, or less often, up to maxUnannouncedInterval, if
	// that and listing take more than one part in unannouncedShare of the time.
	unannouncedInterval    = 10 * time.Second
	maxUnannouncedInterval = 30 * time.Second
	unannouncedShare       = 20
	// retryDelay is how long a new subscription waits after a fault.
	retryDelay = time.Second
)

var errEnded = errors.New("the kernel is not followed any more")

// Subscription receives notifications. Close ends a Wait; the other methods are
// called by one goroutine at a time.
type Subscription interface {
	// Wait returns when there is something to receive.
	Wait() error
	// Drain calls each with the pending notifications, without waiting. ENOBUFS means that some were lost.
	Drain(each func(syscall.NetlinkMessage)) error
	Close()
}

// Config configures a mirror. All fields are required, except Unannounced, RecheckAt, Recheck and Lost. All functions but Decode are called by one goroutine.
type Config[Row comparable, Event any] struct {
	DB *statedb.DB
	// Table belongs to the mirror: nobody else may write it.
	Table *statedb.RWTable[Row]
	// Subscribe begins to receive notifications.
	Subscribe func() (Subscription, error)
	// Decode returns what a notification says, or false if it does not concern
	// the table. The message is valid until Decode returns.
	Decode func(message syscall.NetlinkMessage) (Event, bool)
	// List returns the rows of all existing objects, each key once. drain receives the pending
	// notifications, so that Decode has seen what happened before.
	List func(ctx context.Context, drain func() error) ([]Row, error)
	// Apply writes what an event says into the table, which may already have it
	// from a listing. If the table is in doubt after that, it returns why. It is called
	// only after a List that has succeeded for the same subscription.
	Apply func(txn *statedb.WriteTxn, event Event) (doubt string, err error)
	// Unannounced, if not nil, is called every ten seconds, or at least every 30 if listing takes long. If it reports that there may be changes of which the kernel announces nothing,
	// the objects are listed again.
	Unannounced func(ctx context.Context) bool
	// RecheckAt, if not nil, returns when Recheck is due, or the zero time if it is not. Recheck returns the rows with what neither List nor
	// Apply could find out at a reasonable cost; the table is complete without it.
	RecheckAt func() time.Time
	Recheck   func(ctx context.Context) ([]Row, error)
	// Lost, if not nil, is called when notifications were lost, before the objects are listed again.
	Lost func()
}

// Mirror keeps a table in step with the kernel while Run runs. Run may be called by one
// goroutine; the other methods are safe for concurrent use.
type Mirror[Row comparable, Event any] struct {
	config Config[Row, Event]
	source *statedb.Source
	wanted chan struct{} // has a token if somebody waits for a listing

	rechecked error         // of the last recheck; it belongs to Run
	took      time.Duration // of the last listing; it belongs to Run

	mu      sync.Mutex
	stream  *stream[Event] // nil while nothing is received
	fault   error          // the reason why stream is nil
	begun   int            // number of listings begun
	ended   int            // number of the last listing that succeeded
	used    bool           // whether Listed has used the first listing
	changed chan struct{}  // closed and replaced when anything above changes
}

// New returns a mirror. Its table is not initialized before the first listing.
func New[Row comparable, Event any](config Config[Row, Event]) (*Mirror[Row, Event], error) {
	m := &Mirror[Row, Event]{config: config, wanted: make(chan struct{}, 1), changed: make(chan struct{})}
	err := config.DB.Update(context.Background(), func(txn *statedb.WriteTxn) (err error) {
		m.source, err = config.Table.RegisterSource(txn, "kernel")
		return err
	}, config.Table)
	return m, err
}

// Run keeps the table until ctx ends. It does not return on faults, but reports them to
// health and begins again.
func (m *Mirror[Row, Event]) Run(ctx context.Context, health reconciler.Health) error {
	defer m.update(func() { m.fault = errEnded }) // nobody must wait for another listing
	for fault := m.follow(ctx, health); ctx.Err() == nil; fault = m.follow(ctx, health) {
		health.Degraded("not up to date", fault)
		if err := m.config.DB.Update(context.WithoutCancel(ctx), func(txn *statedb.WriteTxn) error {
			return m.source.Incomplete(txn, fault.Error())
		}, m.config.Table); err != nil {
			return err
		}
		m.update(func() { m.fault = fault })
		if !pause(ctx, retryDelay) {
			break
		}
	}
	return nil
}

// follow keeps the table until ctx ends or something fails.
func (m *Mirror[Row, Event]) follow(ctx context.Context, health reconciler.Health) error {
	subscription, err := m.config.Subscribe()
	if err != nil {
		return fmt.Errorf("subscribe to changes: %w", err)
	}
	s := newStream(subscription, m.config.Decode)
	failed := make(chan error, 1)
	var receiving sync.WaitGroup
	receiving.Go(func() { failed <- s.run() })
	defer receiving.Wait()
	defer subscription.Close()
	m.rechecked = nil
	m.update(func() { m.stream = s })
	defer m.update(func() { m.stream = nil })

	timer, rechecking, asking := time.NewTimer(0), time.NewTimer(0), time.NewTimer(unannouncedInterval)
	defer timer.Stop()
	defer rechecking.Stop()
	defer asking.Stop()
	notBefore, doubtful := time.Now(), true
	listed := false
	for {
		var due <-chan time.Time
		if doubtful {
			timer.Reset(time.Until(notBefore))
			due = timer.C
		}
		var received <-chan struct{}
		var recheck <-chan time.Time
		if listed {
			received = s.signal
		}
		if at := m.recheckAt(); listed && !at.IsZero() {
			rechecking.Reset(time.Until(at))
			recheck = rechecking.C
		}
		select {
		case <-ctx.Done():
			return nil
		case err := <-failed:
			return fmt.Errorf("receive notifications: %w", err)
		case <-m.wanted:
			notBefore, doubtful = time.Now(), true
		case <-due:
			if notBefore, err = m.relist(ctx, s, listed, health); err != nil {
				return err
			}
			listed, doubtful = true, false
		case <-recheck:
			if err := m.recheck(ctx, health); err != nil {
				return err
			}
		case <-asking.C:
			doubt, next := m.unannounced(ctx)
			doubtful = doubtful || doubt
			asking.Reset(next)
		case <-received:
			doubt, err := m.apply(ctx, s)
			if err != nil {
				return err
			}
			doubtful = doubtful || doubt
		}
	}
}

// recheckAt returns when a recheck is due, or the zero time if none is.
func (m *Mirror[Row, Event]) recheckAt() time.Time {
	if m.config.RecheckAt == nil {
		return time.Time{}
	}
	return m.config.RecheckAt()
}

// recheck puts the rows that a recheck returns into the table. If it fails, that is reported until one succeeds.
func (m *Mirror[Row, Event]) recheck(ctx context.Context, health reconciler.Health) error {
	var rows []Row
	if rows, m.rechecked = m.config.Recheck(ctx); m.rechecked != nil {
		if ctx.Err() == nil {
			health.Degraded("what else is known about some rows may be outdated", m.rechecked)
		}
		return nil
	}
	health.OK("up to date")
	if len(rows) == 0 {
		return nil
	}
	return m.config.DB.Update(ctx, func(txn *statedb.WriteTxn) error { return Write(txn, m.config.Table, rows, nil) }, m.config.Table)
}

// relist lists the objects after it has applied what was received before, which must not be applied after that. It is not applied if
// they were not listed before.
func (m *Mirror[Row, Event]) relist(
	ctx context.Context, s *stream[Event], listed bool, health reconciler.Health,
) (notBefore time.Time, err error) {
	if _, err := s.drain(); err != nil {
		return notBefore, fmt.Errorf("receive notifications: %w", err)
	}
	if !listed {
		s.drop()
	} else if _, err := m.apply(ctx, s); err != nil {
		return notBefore, err
	}
	if notBefore, err = m.list(ctx, s); err != nil {
		return notBefore, err
	}
	if m.recheckAt().IsZero() { // perhaps because listing has done what a recheck does
		m.rechecked = nil
	}
	if m.rechecked == nil {
		health.OK("up to date")
	}
	return notBefore, nil
}

// list replaces the content of the table by the existing objects, and returns the earliest time
// of the next listing.
func (m *Mirror[Row, Event]) list(ctx context.Context, s *stream[Event]) (notBefore time.Time, err error) {
	began := time.Now()
	var number int
	m.update(func() {
		m.begun++
		number = m.begun
	})
	rows, err := m.config.List(ctx, func() error {
		_, err := s.drain()
		return err
	})
	if err == nil {
		err = m.replace(ctx, rows)
	}
	if err != nil {
		return began, err
	}
	m.update(func() { m.ended, m.fault = number, nil })
	now := time.Now()
	m.took = now.Sub(began)
	return now.Add(min(max(10*m.took, shortest), longest)), nil
}

// unannounced asks whether there may be changes without a notification, and returns when to ask again.
func (m *Mirror[Row, Event]) unannounced(ctx context.Context) (doubt bool, next time.Duration) {
	began := time.Now()
	doubt = m.config.Unannounced != nil && m.config.Unannounced(ctx)
	return doubt, min(max(unannouncedInterval, unannouncedShare*(time.Since(began)+m.took)), maxUnannouncedInterval)
}

// replace replaces the content of the table by rows.
func (m *Mirror[Row, Event]) replace(ctx context.Context, rows []Row) error {
	table, txn := m.config.Table, m.config.DB.ReadTxn()
	there := make(map[string]struct{}, len(rows))
	var put []Row
	for _, row := range rows {
		query := table.KeyQuery(row)
		there[query.Encoded()] = struct{}{}
		if old, _, found := table.Get(txn, query); !found || old != row {
			put = append(put, row)
		}
	}
	var gone []Row
	for row := range table.All(txn) {
		if _, ok := there[table.KeyQuery(row).Encoded()]; !ok {
			gone = append(gone, row)
		}
	}
	if len(put)+len(gone) == 0 && m.complete(txn) {
		return nil
	}
	return m.config.DB.Update(ctx, func(txn *statedb.WriteTxn) error {
		if err := Write(txn, table, put, gone); err != nil {
			return err
		}
		return errors.Join(m.source.Initialized(txn), m.source.Complete(txn))
	}, table)
}

// Write deletes the rows gone from a table, and inserts the rows put. If it returns an error, the
// transaction is to be abandoned.
func Write[Row any](txn *statedb.WriteTxn, table *statedb.RWTable[Row], put, gone []Row) error {
	for _, row := range gone {
		if _, _, err := table.Delete(txn, row); err != nil {
			return err
		}
	}
	for _, row := range put {
		if _, _, err := table.Insert(txn, row); err != nil {
			return err
		}
	}
	return nil
}

// apply applies the received events, and reports whether the table is in doubt.
func (m *Mirror[Row, Event]) apply(ctx context.Context, s *stream[Event]) (doubtful bool, err error) {
	events, lost, position := s.take()
	doubt := ""
	if lost {
		if m.config.Lost != nil {
			m.config.Lost()
		}
		doubt = "notifications of the kernel were lost"
	}
	if len(events) > 0 || lost {
		err = m.config.DB.Update(ctx, func(txn *statedb.WriteTxn) error {
			for _, event := range events {
				reason, err := m.config.Apply(txn, event)
				if err != nil {
					return err
				}
				if doubt == "" {
					doubt = reason
				}
			}
			if doubt == "" {
				return nil
			}
			return m.source.Incomplete(txn, "it is about to be listed again: "+doubt)
		}, m.config.Table)
	}
	if err != nil {
		return false, err // what was received is not in the table: begin again with a new stream
	}
	s.applied(events, position)
	return doubt != "", nil
}

// complete reports whether the table has all existing objects.
func (m *Mirror[Row, Event]) complete(txn statedb.ReadTxn) bool {
	for _, source := range m.config.Table.Sources(txn) {
		if !source.Initialized || source.Incomplete != "" {
			return false
		}
	}
	return true
}

// Listed reports whether a mirror's table has had all existing objects, as it has not before the first listing. It may be in doubt since.
func Listed[Row any](txn statedb.ReadTxn, table *statedb.Table[Row]) bool {
	for _, source := range table.Sources(txn) {
		if !source.Initialized {
			return false
		}
	}
	return true
}

// update changes the guarded fields, and wakes those who wait for a change.
func (m *Mirror[Row, Event]) update(change func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change()
	close(m.changed)
	m.changed = make(chan struct{})
}

// pause waits, and reports whether ctx is still alive.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
