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
// rows are renewed by Update, which is earlier. Addresses that others have changed are left alone.
type Renewer struct {
	target     *Target
	limited    []record // those of addresses of ours whose lifetimes end
	generation uint64   // of the records that limited was made from
}

// NewRenewer returns a renewer for the addresses of a target. The mirror must run before it.
func (t *Target) NewRenewer(Mirror) *Renewer { return &Renewer{target: t} }

// The lifetimes are looked at every longestRenewal, and earlier if some have to be renewed before, but not within shortestRenewal, and
// less often, up to maxRenewal, if that would take more than one part in routesShare of the time: what took the time may be over.
const (
	shortestRenewal = 100 * time.Millisecond
	longestRenewal  = time.Second
	maxRenewal      = 10 * time.Second
)

// pauseAfter returns the time until the lifetimes are looked at again, of which some have to be renewed next.
func pauseAfter(took, next time.Duration) time.Duration {
	return min(max(next, shortestRenewal, routesShare*took), maxRenewal)
}

// Run renews lifetimes until ctx ends.
func (r *Renewer) Run(ctx context.Context, health reconciler.Health) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		next, err := r.renew(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			health.Degraded("addresses may expire whose rows are not applied", err)
		default:
			health.OK("up to date")
		}
		timer.Reset(next)
	}
}

// renew renews the addresses of which no more than a quarter of the shorter lifetime is left. It returns when to do that again.
func (r *Renewer) renew(ctx context.Context) (next time.Duration, err error) {
	r.list()
	if len(r.limited) == 0 {
		return longestRenewal, nil
	}
	present, err := r.target.present(ctx)
	if err != nil {
		return longestRenewal, err
	}
	began := time.Now() // to wait for the mirror takes no time of others
	due, next := r.due(present)
	if len(due) > 0 {
		err = r.renewDue(ctx)
	}
	return pauseAfter(time.Since(began), next), err
}

// list finds the records of addresses that expire.
func (r *Renewer) list() {
	generation := r.target.records.Generation()
	if r.limited != nil && r.generation == generation {
		return
	}
	r.generation, r.limited = generation, []record{}
	for _, rec := range r.target.records.All() {
		if _, ends := rec.row().lifetimes().shortest(); ends && !rec.Existed {
			r.limited = append(r.limited, rec)
		}
	}
}

// row returns a row that has what is recorded of it.
func (r record) row() Address {
	return Address{Device: r.Key.Device, Address: r.Key.Address, ValidLifetime: r.Valid, PreferredLifetime: r.Preferred}
}

// due returns the states of the addresses that have to be renewed now, and when the next ones have to be.
func (r *Renewer) due(present presence) (due []state, next time.Duration) {
	next = longestRenewal
	for _, rec := range r.limited {
		s := state{row: rec.row(), key: rec.Key, index: rec.Index}
		if s.is, s.present = present(s.seenKey()); !s.present || s.is.Duplicate || s.is.unmarked || !r.target.isOurs(s.is, rec, true) || !s.hasItsLifetimes() {
			continue
		}
		if s.key.Address.Addr().Is4() {
			s.row.Scope = s.is.Scope
		}
		shortest, _ := s.given().shortest()
		wait := shortest - shortest/4
		if left := wait - s.given().age(); left > 0 {
			wait = left
		} else {
			due = append(due, s)
		}
		next = min(next, wait)
	}
	return due, next
}

// hasItsLifetimes reports whether the address has the lifetimes of the row, of which the preferred one may have run out.
func (s state) hasItsLifetimes() bool {
	want, is := s.given(), s.is.lifetimes()
	ranOut := is.preferred.seconds == 0 && want.preferred != Forever && want.age() >= want.preferred.duration()-tolerance*time.Second
	return want.valid.agrees(is.valid) && (ranOut || want.preferred.agrees(is.preferred))
}

// renewDue renews the addresses that have to be renewed according to the kernel. The mirror is not enough: the kernel would add an address
// that has just been removed, and does not announce that a tentative one was renewed.
func (r *Renewer) renewDue(ctx context.Context) error {
	r.target.writing.Lock()
	defer r.target.writing.Unlock()
	present, err := r.target.presentNow(ctx, unix.AF_UNSPEC)
	if err != nil {
		return err
	}
	due, _ := r.due(present)
	requests := make([]rtnl.Request, len(due))
	for i, s := range due {
		requests[i] = s.making(unix.NLM_F_REPLACE)
	}
	for i, err := range r.target.conn.Execute(ctx, requests) {
		if err != nil && !errors.Is(err, unix.EADDRNOTAVAIL) && !errors.Is(err, unix.ENODEV) {
			return fmt.Errorf("renew the lifetimes of address %s on %s: %w", due[i].key.Address, due[i].key.Device, err)
		}
	}
	return nil
}
