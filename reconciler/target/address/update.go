package address

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/target/rtnl"
	"github.com/statehive/statehive/reconciler/target/steps"
	"github.com/statehive/statehive/statedb"
)

// UpdateBatch implements reconciler.BatchTarget.
func (t *Target) UpdateBatch(ctx context.Context, txn statedb.ReadTxn, rows []Address) []reconciler.BatchResult {
	u := t.newUpdates(ctx, rows)
	u.look(rows)
	u.checkScopes(txn)
	u.claim(txn)
	u.clear()
	u.add()
	u.putBack()
	u.reroute()
	u.renew()
	u.again()
	u.reportDuplicates()
	return u.results
}

// Diff implements reconciler.Differ.
func (t *Target) Diff(ctx context.Context, txn statedb.ReadTxn, row Address) ([]reconciler.Change, error) {
	result := t.DiffBatch(ctx, txn, []Address{row})[0]
	return result.Changes, result.Err
}

// DiffBatch implements reconciler.BatchDiffer.
func (t *Target) DiffBatch(ctx context.Context, txn statedb.ReadTxn, rows []Address) []reconciler.DiffResult {
	u := t.newUpdates(ctx, rows)
	u.look(rows)
	u.checkScopes(txn)
	results := make([]reconciler.DiffResult, len(rows))
	for i, row := range rows {
		results[i].Err = u.results[i].Err
		switch s := u.states[i]; {
		case results[i].Err != nil:
		case s.duplicate:
			results[i].Err = &DuplicateError{Key: s.key}
		case !s.present:
			results[i].Changes = steps.Changes(steps.Field("address", "", row.Address.String(), nil))
		default:
			results[i].Changes = s.changes
		}
	}
	return results
}

// updates applies several rows together.
type updates struct {
	target  *Target
	ctx     context.Context //nolint:containedctx // of one call of UpdateBatch
	states  []state
	results []reconciler.BatchResult

	exactly  presence // IPv6 addresses, listed on demand; nil if not listed yet
	indexes  rtnl.Indexes
	refusals map[string]error // results of Config.Allowed by device
}

// state is a row with its existing address, if any.
type state struct {
	row     Address
	key     Key
	index   int // of the device
	is      Seen
	present bool
	changes []reconciler.Change // to make to an address that is present
	// unrouted is whether the route to the network of an address that is present is lost, which is that of routeOf: the address
	// itself, or one of others that came first.
	unrouted bool
	routeOf  Seen
	// duplicate is whether the address is ours, and the kernel has found that another host has it, and may have removed it. It is added anew to have the
	// kernel look again: we may have had it ourselves, on another device.
	duplicate bool
	cleared   bool   // it was removed to be added with another scope
	metric    uint32 // of that route, to be requested; 0 is the default
}

func (s state) seenKey() SeenKey { return SeenKey{s.index, s.key.Address} }

func (t *Target) newUpdates(ctx context.Context, rows []Address) *updates {
	return &updates{
		target: t, ctx: ctx,
		states: make([]state, len(rows)), results: make([]reconciler.BatchResult, len(rows)),
		indexes: rtnl.Indexes{Conn: t.conn}, refusals: map[string]error{},
	}
}

// look looks up the existing addresses of rows.
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
	s.row, s.key = row, row.Key()
	if s.index, err = u.indexOf(row.Device); err != nil {
		return s, err
	}
	if left := u.target.duplicates.left(s.seenKey()); left > 0 {
		return s, reconciler.RetryAfter(left, &DuplicateError{Key: s.key})
	}
	s.is, s.present = present(s.seenKey())
	if s.duplicate = !s.present && u.target.duplicates.isRemoved(s.seenKey()); s.duplicate {
		return s, nil
	}
	if s.is.Duplicate {
		rec, known := u.target.records.Get(s.key.String())
		if s.duplicate = s.row.Adopt || u.target.isOurs(s.is, rec, known); !s.duplicate {
			return s, &DuplicateError{Key: s.key}
		}
		return s, nil
	}
	if s.present {
		err = u.lookCloser(&s)
	}
	if s.present && err == nil {
		err = u.target.compare(&s)
	}
	return s, err
}

// lookCloser asks the kernel for the lifetimes and the mark of an address that the mirror may not know.
func (u *updates) lookCloser(s *state) (err error) {
	marked := s.is.Ours || !s.row.Adopt
	if !s.is.Tentative || marked && s.row.lifetimes().endless() && s.is.lifetimes().endless() {
		return nil
	}
	if u.exactly == nil {
		if u.exactly, err = u.target.presentNow(u.ctx, unix.AF_INET6); err != nil {
			return err
		}
	}
	is, present := u.exactly(s.seenKey())
	s.is, s.present = is.since(s.is), present
	return nil
}

// compare determines the changes to an existing address. An address that existed before us
// is not changed: a row that differs from it and does not adopt it is in error.
func (t *Target) compare(s *state) error {
	rec, known := t.records.Get(s.key.String())
	if s.row.Adopt || t.isOurs(s.is, rec, known) {
		s.changes = append(s.row.differences(s.is), t.marking(s.is)...)
		if s.routeOf, s.unrouted = t.unrouted.routeOf(s.seenKey()); s.unrouted {
			s.changes = append(s.changes, steps.Changes(steps.Field(networkRoute, "", s.key.Address.Masked().String(), nil))...)
		}
		if after, ends := s.given().due(); ends && after == 0 && len(s.changes) == 0 {
			s.changes = s.renewal()
		}
		return nil
	}
	if changes := s.row.leaving(s.is).differences(s.is); len(changes) > 0 {
		return &ForeignError{Key: s.key, Change: changes[0]}
	}
	return nil
}

// isOurs reports whether an existing address is ours: by our mark, because others may have added it in place of the one
// that was recorded, or by its record where the kernel does not keep the mark.
func (t *Target) isOurs(s Seen, rec record, known bool) bool {
	if t.marks || !known || rec.Index != s.Index {
		return s.Ours
	}
	return !rec.Existed
}

// marking returns the change that gives an address our mark, if it lacks it.
func (t *Target) marking(is Seen) []reconciler.Change {
	if !t.marks || is.Ours && !is.unmarked {
		return nil
	}
	return steps.Changes(steps.Field("protocol", "", strconv.Itoa(Protocol), nil))
}

// given returns the row's lifetimes as they were given to an address, and when they were set.
func (s state) given() lifetimes {
	l := s.row.lifetimes()
	l.set = s.is.set
	return l
}

// renewal returns the changes that a renewal of lifetimes makes.
func (s state) renewal() []reconciler.Change {
	var changes []reconciler.Change
	want, age := s.row.lifetimes(), s.given().age()
	for _, l := range []struct {
		field string
		of    Lifetime
	}{{"validLifetime", want.valid}, {"preferredLifetime", want.preferred}} {
		if l.of != Forever && l.of.seconds > 0 {
			left := max(l.of.duration()-age, 0).Truncate(time.Second)
			changes = append(changes, reconciler.Change{Field: l.field, Is: left.String() + " left", Want: l.of.String()})
		}
	}
	return changes
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
func (u *updates) claim(txn statedb.ReadTxn) {
	for i, s := range u.states {
		if u.results[i].Err == nil {
			u.results[i].Err = u.target.claim(u.ctx, txn, &u.indexes, s)
		}
	}
}

// claim records an address. If an existing record is about another device, which had the name
// before, the address on that device is released first. The existing record of an absent
// address does not apply to the address that is added now.
func (t *Target) claim(ctx context.Context, txn statedb.ReadTxn, indexes *rtnl.Indexes, s state) error {
	old, known := t.records.Get(s.key.String())
	next := s.recordOf(s.present && !s.row.Adopt && !t.isOurs(s.is, old, known))
	switch {
	case known && old == next:
		return nil
	case known && old.Index != s.index:
		passed, err := t.passOn(ctx, txn, indexes, old)
		if err == nil && !passed {
			err = t.release(ctx, []record{old})[0]
		}
		if err != nil {
			return err
		}
	case known && next.Existed && !old.Existed:
		t.tellReplaced(s.key)
	}
	return t.records.Put(s.key.String(), next)
}

// reportDuplicates is called after duplicate addresses have been added anew. It takes the kernel a while to look.
func (u *updates) reportDuplicates() {
	for i, s := range u.states {
		if s.duplicate && u.results[i].Err == nil {
			u.target.duplicates.add(s.seenKey())
			u.results[i].Err = reconciler.RetryAfter(duplicateRetry, &DuplicateError{Key: s.key})
		}
	}
}

// requests sends a request for each chosen row that has not failed, and passes on the
// result.
func (u *updates) requests(chosen func(state) bool, flags uint16, outcome func(at int, err error)) {
	var at []int
	var requests []rtnl.Request
	for i, s := range u.states {
		if u.results[i].Err == nil && chosen(s) {
			at, requests = append(at, i), append(requests, s.making(flags))
		}
	}
	if len(at) == 0 {
		return
	}
	u.target.writing.Lock()
	defer u.target.writing.Unlock()
	for n, err := range u.target.conn.Execute(u.ctx, requests) {
		if err == nil {
			u.results[at[n]].Result.Changed = true
		} else {
			outcome(at[n], err)
		}
	}
}

// add adds the absent addresses.
func (u *updates) add() {
	absent := func(s state) bool { return !s.present }
	u.requests(absent, unix.NLM_F_CREATE|unix.NLM_F_EXCL, func(at int, err error) {
		if errors.Is(err, syscall.EEXIST) {
			u.states[at], u.results[at].Err = u.target.explainExists(u.ctx, u.states[at])
		} else {
			u.results[at].Err = u.target.notAdded(u.ctx, u.states[at], err)
		}
	})
}

// reroute gives the lost routes of IPv4 networks another metric, because the kernel adds them again
// only when their metric changes. renew sets it back, and also suffices for IPv6. The kernel does so only for a
// local address, so the route in the table local that makes it one, and that may be lost as well, comes first. An address of others that
// came first in the network is not touched: its route is added as the kernel does.
func (u *updates) reroute() {
	lost := func(s state) bool { return s.present && s.unrouted && s.key.Address.Addr().Is4() }
	u.addRoutes("local", lost, state.localRoute)
	u.addRoutes("network", func(s state) bool { return lost(s) && s.isBehind() }, func(s state) rtnl.Request { return s.routeOf.networkRoute() })
	for i := range u.states {
		u.states[i].metric = 1
	}
	u.requests(func(s state) bool { return lost(s) && !s.isBehind() }, unix.NLM_F_REPLACE, u.notRenewed)
	for i := range u.states {
		u.states[i].metric = 0
	}
}

// isBehind reports whether the lost route to the network of an address is that of another address.
func (s state) isBehind() bool { return s.routeOf.Address != s.key.Address }

// addRoutes adds the routes of the chosen rows, as far as they are not there.
func (u *updates) addRoutes(kind string, chosen func(state) bool, route func(state) rtnl.Request) {
	var requests []rtnl.Request
	var at []int
	for i, s := range u.states {
		if u.results[i].Err == nil && chosen(s) {
			requests, at = append(requests, route(s)), append(at, i)
		}
	}
	if len(requests) == 0 {
		return
	}
	for n, err := range u.target.conn.Execute(u.ctx, requests) {
		if err != nil && !errors.Is(err, syscall.EEXIST) {
			s := u.states[at[n]]
			u.results[at[n]].Err = fmt.Errorf("add the %s route of address %s on %s: %w", kind, s.key.Address, s.key.Device, err)
		}
	}
}

// localRoute returns the request that adds the route of an IPv4 address in the table local, as the kernel does.
func (s state) localRoute() rtnl.Request {
	r := rtnl.Request{Type: unix.RTM_NEWROUTE, Flags: unix.NLM_F_CREATE | unix.NLM_F_EXCL, Data: make([]byte, unix.SizeofRtMsg)}
	host := s.key.Address.Addr()
	r.Data[0], r.Data[1], r.Data[4] = unix.AF_INET, byte(host.BitLen()), unix.RT_TABLE_LOCAL
	r.Data[5], r.Data[6], r.Data[7] = unix.RTPROT_KERNEL, unix.RT_SCOPE_HOST, unix.RTN_LOCAL
	r.Add(unix.RTA_DST, host.AsSlice())
	r.Add(unix.RTA_PREFSRC, host.AsSlice())
	r.AddUint32(unix.RTA_OIF, uint32(s.index))
	return r
}

// renew gives existing addresses their lifetimes. When an IPv6 address had none, some kernels give the
// route of its network an expiry in the past (6.18 does); the same request once more corrects that.
func (u *updates) renew() {
	differs := func(s state) bool { return s.present && len(s.changes) > 0 }
	begins := func(s state) bool {
		return differs(s) && s.key.Address.Addr().Is6() && s.is.ValidLifetime == Forever && s.row.lifetimes().valid != Forever
	}
	for _, chosen := range []func(state) bool{differs, begins} {
		u.requests(chosen, unix.NLM_F_REPLACE, u.notRenewed)
	}
	for i, s := range u.states {
		if s.unrouted && u.results[i].Err == nil {
			u.target.unrouted.forget(s.seenKey())
		}
	}
}

// notRenewed handles an existing address that could not be changed.
func (u *updates) notRenewed(at int, err error) {
	s := u.states[at]
	u.results[at].Err = fmt.Errorf("change %s of address %s on %s: %w", s.changes[0].Field, s.key.Address, s.key.Device, err)
}

// shortestAgain is the shortest time until lifetimes are renewed.
const shortestAgain = 100 * time.Millisecond

// again requests that rows be applied again before their lifetimes expire.
func (u *updates) again() {
	for i, s := range u.states {
		if u.results[i].Err != nil {
			continue
		}
		l := s.given()
		if u.results[i].Result.Changed {
			l.set = sinceBoot()
		}
		after, ends := l.due()
		if !ends {
			continue
		}
		if rec, known := u.target.records.Get(s.key.String()); known && !rec.Existed {
			u.results[i].Result.Again = max(after, shortestAgain)
		}
	}
}

// explainExists handles an address that could not be added because it exists. If it was
// added since we looked, it is somebody else's, and is recorded as such before anything else
// can go wrong, unless the row adopts it or it has our mark.
func (t *Target) explainExists(ctx context.Context, s state) (state, error) {
	name, rec := s.key.String(), s.recordOf(!s.row.Adopt)
	if err := t.records.Put(name, rec); err != nil {
		return s, err
	}
	// The kernel announces an IPv6 address some time after it was added.
	present, err := t.presentNow(ctx, familyOf(s.key.Address.Addr()))
	if err != nil {
		return s, err
	}
	if s.is, s.present = present(s.seenKey()); !s.present {
		err = fmt.Errorf("add address %s to %s: it is there already with another prefix length: %w", s.key.Address, s.key.Device, syscall.EEXIST)
		return s, errors.Join(err, t.records.Remove(name))
	}
	if rec.Existed && s.is.Ours {
		rec.Existed = false
		err = t.records.Put(name, rec)
	}
	err = errors.Join(err, t.compare(&s))
	return s, err
}

// notAdded handles an address that could not be added. If it is certain that the kernel has
// not added it, the record is removed, because it would claim the address for us when somebody
// else adds it.
func (t *Target) notAdded(ctx context.Context, s state, err error) error {
	var refusal *rtnl.Error
	certain := errors.As(err, &refusal) || ctx.Err() != nil && errors.Is(err, ctx.Err())
	err = fmt.Errorf("add address %s to %s: %w", s.key.Address, s.key.Device, err)
	if !certain {
		return err
	}
	return errors.Join(err, t.records.Remove(s.key.String()))
}
