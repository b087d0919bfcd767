package address

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/target/rtnl"
)

// Renewer renews the lifetimes of addresses whose rows are not applied: while they are paused or wait for something else, while their
// delete is held, and after a start until their documents are read. An address must not expire because somebody is asked about it. Other
// rows are renewed by Update, which is earlier.
type Renewer struct{ target *Target }

// NewRenewer returns a renewer for the addresses of a target. The mirror must run before it.
func (t *Target) NewRenewer(Mirror) Renewer { return Renewer{t} }

const (
	// idleInterval is how often it is asked whether there are addresses with lifetimes.
	idleInterval = 10 * time.Second
	// While there are, they are looked at at most and at least so often, unless that would take more than one part in routesShare of the time.
	shortestInterval, longestInterval = 100 * time.Millisecond, time.Second
)

// Run renews lifetimes until ctx ends.
func (r Renewer) Run(ctx context.Context, health reconciler.Health) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		began := time.Now()
		next, err := r.target.renewExpiring(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			health.Degraded("addresses may expire whose rows are not applied", err)
		default:
			health.OK("up to date")
		}
		timer.Reset(max(next, routesShare*time.Since(began)))
	}
}

// renewExpiring renews the addresses of which no more than a quarter of the shorter lifetime is left. It returns when to do that again.
func (t *Target) renewExpiring(ctx context.Context) (next time.Duration, err error) {
	limited := t.limitedRecords()
	if len(limited) == 0 {
		return idleInterval, nil
	}
	t.writing.Lock() // the kernel would add an address that is just being removed
	defer t.writing.Unlock()
	present, err := t.present(ctx)
	if err != nil {
		return shortestInterval, err
	}
	next = longestInterval
	var requests []rtnl.Request
	var keys []Key
	for _, rec := range limited {
		is, found := present(rec.seenKey())
		shortest, ends := is.lifetimes().shortest()
		if !found || !ends || is.Duplicate || !t.isOurs(is, rec, true) {
			continue
		}
		if wait := shortest*3/4 - is.lifetimes().age(); wait > 0 {
			next = min(next, wait)
			continue
		}
		keys, requests = append(keys, rec.Key), append(requests, rec.state(is).making(unix.NLM_F_REPLACE))
	}
	for i, err := range t.conn.Execute(ctx, requests) {
		if err != nil && !errors.Is(err, unix.EADDRNOTAVAIL) && !errors.Is(err, unix.ENODEV) {
			return shortestInterval, fmt.Errorf("renew the lifetimes of address %s on %s: %w", keys[i].Address, keys[i].Device, err)
		}
	}
	return max(next, shortestInterval), nil
}

// limitedRecords returns the records of addresses of ours that have lifetimes.
func (t *Target) limitedRecords() (limited []record) {
	for _, rec := range t.records.All() {
		if row := (Address{ValidLifetime: rec.Valid, PreferredLifetime: rec.Preferred}); !rec.Existed && !row.lifetimes().endless() {
			limited = append(limited, rec)
		}
	}
	return limited
}

// state returns the state that a row of a record would have, whose address is as recorded.
func (r record) state(is Seen) state {
	row := Address{Device: r.Key.Device, Address: r.Key.Address, ValidLifetime: r.Valid, PreferredLifetime: r.Preferred}
	if row.Address.Addr().Is4() {
		row.Scope = is.Scope
	}
	return state{row: row, key: r.Key, index: r.Index, is: is, present: true}
}
