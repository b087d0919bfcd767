package mirror

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/statehive/statehive/statedb"
)

// View is a complete snapshot of a mirror's table: an object that is not in it does not
// exist. The zero value has no snapshot and is not reliable.
type View[Row any] struct {
	Txn   statedb.ReadTxn
	Table *statedb.Table[Row]
}

// Reliable reports whether objects that Get does not find do not exist.
func (v View[Row]) Reliable() bool { return v.Table != nil }

// Get returns the row that a query finds.
func (v View[Row]) Get(query statedb.Query[Row]) (row Row, found bool) {
	if v.Table == nil {
		return row, false
	}
	row, _, found = v.Table.Get(v.Txn, query)
	return row, found
}

// View returns a snapshot that shows everything that the kernel did before the
// call. It is the zero value if the table is in doubt, if nothing can be received,
// or if m is nil. View waits for the first listing, so Run must run, or be started
// soon.
func (m *Mirror[Row, Event]) View(ctx context.Context) View[Row] {
	if m == nil {
		return View[Row]{}
	}
	err := m.await(ctx, func() bool { return m.ended > 0 || m.fault != nil })
	m.mu.Lock()
	s := m.stream
	m.mu.Unlock()
	if err != nil || s == nil || !s.sync(ctx) {
		return View[Row]{}
	}
	txn := m.config.DB.ReadTxn()
	if !m.complete(txn) {
		return View[Row]{}
	}
	return View[Row]{txn, statedb.ReadOnly(m.config.Table)}
}

// doubtPatience bounds how long Settled waits for the end of a doubt.
const doubtPatience = time.Second

// Settled is like View, but if the table is in doubt it waits some time for the next
// listing. If the table is not in doubt, it waits like View until pending events are applied,
// however many there are: a listing would cost more, especially on a busy machine.
func (m *Mirror[Row, Event]) Settled(ctx context.Context) View[Row] {
	if m == nil {
		return View[Row]{}
	}
	patience, cancel := context.WithTimeout(ctx, doubtPatience)
	defer cancel()
	for {
		m.mu.Lock()
		changed := m.changed
		m.mu.Unlock()
		if v := m.View(ctx); v.Reliable() {
			return v
		}
		select {
		case <-patience.Done():
			return View[Row]{}
		case <-changed:
		}
	}
}

// Listed is like View, but lists the table for this call, so that it also shows what the
// kernel did without a notification. The first listing serves the first
// call. While the table is in doubt Listed waits for the next listing. The error says why
// nothing can be listed, or is the error of ctx.
func (m *Mirror[Row, Event]) Listed(ctx context.Context) (View[Row], error) {
	for number := m.listing(); ; number++ {
		var fault error
		err := m.await(ctx, func() bool {
			fault = m.fault
			return m.ended >= number || fault != nil
		})
		if err = cmp.Or(err, fault); err != nil {
			return View[Row]{}, fmt.Errorf("table %s is not complete: %w", m.config.Table.Name(), err)
		}
		if v := m.View(ctx); v.Reliable() {
			return v, nil
		}
	}
}

// listing requests a listing and returns its number. It may return the number of the first
// listing instead.
func (m *Mirror[Row, Event]) listing() (number int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	number = m.begun + 1
	if !m.used {
		m.used, number = true, 1
	}
	if number > m.begun {
		select {
		case m.wanted <- struct{}{}:
		default:
		}
	}
	return number
}

// await waits until a condition on the guarded fields holds.
func (m *Mirror[Row, Event]) await(ctx context.Context, holds func() bool) error {
	for {
		m.mu.Lock()
		ok, changed := holds(), m.changed
		m.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
	}
}
