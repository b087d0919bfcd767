package route

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/target/mirror"
	"github.com/statehive/statehive/reconciler/target/rtnl"
	"github.com/statehive/statehive/statedb"
)

// updates applies several rows together. Each step sends the requests of all rows in a few
// batches: routes are added, routes that turn out to exist are compared with their rows, and
// routes that differ are replaced.
type updates struct {
	target  *Target
	ctx     context.Context //nolint:containedctx // of one call of UpdateBatch
	began   time.Time
	wants   []wanted
	results []reconciler.BatchResult

	add     []int // rows, by their place in wants
	look    []int
	replace []replacement
}

// UpdateBatch implements reconciler.BatchTarget.
func (t *Target) UpdateBatch(ctx context.Context, _ statedb.ReadTxn, rows []Route) []reconciler.BatchResult {
	u := &updates{
		target: t, ctx: ctx, began: time.Now(),
		wants: make([]wanted, len(rows)), results: make([]reconciler.BatchResult, len(rows)),
	}
	if err := ctx.Err(); err != nil {
		for i := range rows {
			u.results[i].Err = err
		}
		return u.results
	}
	known := t.mirror.Load().View(ctx)
	indexes := t.indexes()
	for i, row := range rows {
		w, err := t.resolve(ctx, row, indexes)
		if err != nil {
			u.results[i].Err = err
			continue
		}
		u.wants[i] = w
		is, found := known.Get(SeenByKey.Query(w.row.Key()))
		switch {
		case !found:
			u.add = append(u.add, i)
		case w.doubt(is) != nil:
			u.results[i].Err = w.doubt(is)
		case w.matches(is):
			if t.isBehind(ctx, w) {
				t.forgetIf(w.row.Key(), func(s state) bool { return !s.behind })
				u.lookUp(i, t.lately(w.row.Key()))
			}
		case w.mayReplace(is):
			u.replaceOne(i, is)
		default:
			u.look = append(u.look, i)
		}
	}
	u.addAbsent()
	u.lookCloser(known)
	u.replaceOld()
	return u.results
}

// execute sends requests, if there are any.
func (u *updates) execute(requests []rtnl.Request) []error {
	if len(requests) == 0 {
		return nil
	}
	return u.target.conn.Execute(u.ctx, requests)
}

// fail records the error of a row that could not be applied.
func (u *updates) fail(at int, verb string, err error) {
	u.results[at].Err = fmt.Errorf("%s route %s: %w", verb, describe(u.wants[at].row), err)
}

// addAbsent adds routes, unless their keys are taken.
func (u *updates) addAbsent() {
	requests := make([]rtnl.Request, len(u.add))
	for n, at := range u.add {
		requests[n] = u.wants[at].wantedRoute().addition(unix.NLM_F_EXCL)
	}
	for n, err := range u.execute(requests) {
		switch at := u.add[n]; {
		case err == nil:
			u.results[at].Result.Changed = true
		case errors.Is(err, syscall.EEXIST):
			u.look = append(u.look, at)
		default:
			u.fail(at, "add", err)
		}
	}
}

// lookCloser looks up the existing routes with the keys of rows.
func (u *updates) lookCloser(known mirror.View[Seen]) {
	if len(u.look) > 0 && !known.Reliable() {
		known = u.target.mirror.Load().Settled(u.ctx)
	}
	for _, at := range u.look {
		w := u.wants[at]
		is, found := known.Get(SeenByKey.Query(w.row.Key()))
		switch {
		case !found:
			u.whoHolds(at, known.Reliable())
		case w.doubt(is) != nil:
			u.results[at].Err = w.doubt(is)
		case w.matches(is):
		case w.mayReplace(is):
			u.replaceOne(at, is)
		default:
			u.target.forgetIf(w.row.Key(), func(s state) bool { return w.isMetBy(s) || s.isOlderThan(is) })
			u.lookUp(at, u.began)
		}
	}
}

// whoHolds finds out who has the key of a row, which is taken. If reliable is set, no route
// of ours with that key was known.
func (u *updates) whoHolds(at int, reliable bool) {
	w := u.wants[at]
	chosen, ok, _ := u.target.chosen(u.ctx, w.row.Key())
	switch {
	case ok && chosen.protocol == Protocol && w.matches(chosen.Seen):
	case ok && chosen.protocol != Protocol && reliable && !w.row.Adopt:
		u.results[at].Err = errors.Join(u.target.foreignError(u.ctx, w.row, chosen), u.removeHidden(at, chosen))
	case reliable:
		u.target.forgetIf(w.row.Key(), func(s state) bool { return len(s.ours) > 0 || len(s.foreign) == 0 }) // ours are gone by now
		u.lookUp(at, u.target.lately(w.row.Key()))
	default:
		u.lookUp(at, u.began)
	}
}

// lookUp looks up the routes with the key of a row, in a listing that began after since.
func (u *updates) lookUp(at int, since time.Time) {
	w := u.wants[at]
	since, err := u.target.sparingly(w.row.Key(), since)
	if err != nil {
		u.results[at].Err = err
		return
	}
	s, err := u.target.look(u.ctx, w, since)
	switch {
	case errors.Is(err, ErrForeign):
		all, _ := u.target.lookUp(u.ctx, w.row.Key(), since) // as look has just found it
		u.results[at].Err = errors.Join(err, u.removeHidden(at, all.foreign...))
	case err != nil:
		u.results[at].Err = err
	case w.isMetBy(s):
	default:
		u.replace = append(u.replace, replacement{at, s.ours, s.foreign})
	}
}

// removeHidden removes next hops of ours that a row no longer has from IPv6 routes of others: see hiddenDeletions.
func (u *updates) removeHidden(at int, holders ...kernelRoute) error {
	var requests []rtnl.Request
	for _, r := range holders {
		if r.Key.family() != Inet6 || r.Nexthops.IsZero() {
			continue
		}
		_, surplus := pair(u.wants[at].nexthops(), r.seenNexthops())
		r.protocol = Protocol
		for _, h := range surplus {
			requests = append(requests, r.by(h).deletion())
		}
	}
	for _, err := range u.execute(requests) {
		if err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("remove a next hop of ours that the row no longer has: %w", err)
		}
	}
	return nil
}

// mayReplace reports whether a row replaces nothing but a route of ours. A row that adopts
// also replaces routes of others, which are not known yet. Neither does one behind a route of others.
func (w wanted) mayReplace(is Seen) bool { return is.Kind == "" && !is.Behind && !w.row.Adopt }

// replaceOne makes a row replace the only route of ours with its key.
func (u *updates) replaceOne(at int, is Seen) {
	u.replace = append(u.replace, replacement{at, []kernelRoute{is.ours()}, nil})
}

// DeleteBatch implements reconciler.BatchTarget.
func (t *Target) DeleteBatch(ctx context.Context, _ statedb.ReadTxn, rows []Route) []error {
	outcomes := make([]error, len(rows))
	known, began := t.mirror.Load().Settled(ctx), time.Now()
	keys := keysOf(rows)
	var at []int // the place in rows of each request
	var requests []rtnl.Request
	for i, row := range rows {
		key := row.Key()
		deletions, err := t.deletions(ctx, known, key, began, keys)
		if len(deletions) == 0 {
			deletions = row.hiddenDeletions()
		}
		if err = errors.Join(err, ctx.Err()); err != nil {
			outcomes[i] = fmt.Errorf("remove route %s: %w", key, err)
			continue
		}
		for _, request := range deletions {
			at, requests = append(at, i), append(requests, request)
		}
	}
	for n, err := range t.conn.Execute(ctx, requests) {
		if err != nil && !errors.Is(err, syscall.ESRCH) {
			outcomes[at[n]] = fmt.Errorf("remove route %s: %w", rows[at[n]].Key(), err)
		}
	}
	for _, key := range keys {
		t.forget(key)
	}
	return outcomes
}

// deletions returns the requests that remove the routes of ours with a key. Each request names
// a route that is known to exist, because to the kernel metric 0 means any metric, and an
// IPv6 route without a gateway means all next hops, no matter who made them.
func (t *Target) deletions(ctx context.Context, known mirror.View[Seen], key Key, since time.Time, others []Key) ([]rtnl.Request, error) {
	is, found := known.Get(SeenByKey.Query(key))
	switch {
	case !key.Destination.IsValid(), known.Reliable() && !found:
		return nil, nil
	case found && is.Kind == "":
		return is.ours().deletions(), nil
	}
	s, err := t.lookUp(ctx, key, since, others...)
	var requests []rtnl.Request
	for _, r := range s.ours {
		requests = append(requests, r.deletions()...)
	}
	return requests, err
}

// hiddenDeletions returns the requests that remove next hops of ours from an IPv6 route of
// others. The kernel lists such a route with the protocol of its first next hop, but removes
// only next hops of the requested protocol.
func (r Route) hiddenDeletions() (requests []rtnl.Request) {
	key := r.Key()
	if key.family() != Inet6 {
		return nil
	}
	one := Seen{Key: key}.ours()
	for way := range r.ways() {
		if way.Gateway.IsValid() {
			requests = append(requests, one.by(SeenNexthop{Gateway: way.Gateway}).deletion())
		}
	}
	return requests
}
