package route

import (
	"context"
	"errors"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/statehive/statehive/reconciler/target/rtnl"
	"github.com/statehive/statehive/statedb/immutable"
)

// replacement is a row and the routes that it replaces.
type replacement struct {
	at      int
	old     []kernelRoute // ours
	foreign []kernelRoute // others', to be taken over
}

// replaceOld replaces old routes with the routes of rows.
func (u *updates) replaceOld() {
	var appended, extended, adopted, inTurn []replacement
	for _, r := range u.replace {
		u.target.forget(u.wants[r.at].row.Key())
		switch w := u.wants[r.at]; {
		case w.row.Family == Inet:
			appended = append(appended, r)
		case len(r.foreign) > 0 || w.row.Adopt && hasNexthops(r.old):
			adopted = append(adopted, r)
		case w.extends(r.old):
			extended = append(extended, r)
		default:
			inTurn = append(inTurn, r)
		}
	}
	u.appendThenRemove(appended)
	u.keepFirst(appended)
	u.changeNexthops(extended)
	u.takeOver(adopted)
	u.removeThenAdd(inTurn)
	for _, r := range u.replace {
		u.target.forget(u.wants[r.at].row.Key()) // it may have been listed meanwhile
	}
}

// appendThenRemove appends IPv4 routes after the old ones and then removes the old ones, so
// that a route exists all the time. NLM_F_REPLACE is not used because it replaces the first
// route, no matter who made it, and leaves the others. Nor is the new route put before the old
// one: the kernel removes the first route that matches, which may be the new one.
func (u *updates) appendThenRemove(replacements []replacement) {
	requests := make([]rtnl.Request, len(replacements))
	for n, r := range replacements {
		requests[n] = u.wants[r.at].wantedRoute().addition(unix.NLM_F_APPEND)
	}
	var at []int // the row of each removal
	var removals []rtnl.Request
	for n, err := range u.execute(requests) {
		r := replacements[n]
		switch {
		case errors.Is(err, syscall.EEXIST):
			if r, err = u.behind(r.at); err != nil {
				u.results[r.at].Err = err
				continue
			}
		case err != nil:
			u.fail(r.at, "replace", err)
			continue
		}
		u.replaced(r.at, nil)
		for _, old := range slices.Concat(r.old, r.foreign) {
			at, removals = append(at, r.at), append(removals, old.deletions()...)
		}
	}
	for n, err := range u.execute(removals) {
		if u.results[at[n]].Err == nil {
			u.replaced(at[n], err)
		}
	}
}

// keepFirst puts IPv4 routes that have replaced others before the routes of others that came after
// those, and now come before the new ones.
func (u *updates) keepFirst(replaced []replacement) {
	var at []int
	var requests []rtnl.Request
	began := time.Now()
	for _, r := range replaced {
		if u.results[r.at].Err == nil && u.isBehind(r.at, began) {
			route := u.wants[r.at].wantedRoute()
			at, requests = append(at, r.at, r.at), append(requests, route.deletion(), route.addition(0))
		}
	}
	for n, err := range u.execute(requests) {
		u.replaced(at[n], err)
	}
}

// isBehind reports whether a route of others is known to come before the one of a row, which exists. Rows that need a listing share one that
// began after since.
func (u *updates) isBehind(at int, since time.Time) bool {
	key := u.wants[at].row.Key()
	if chosen, ok, hidden := u.target.chosen(u.ctx, key); ok || !hidden {
		return ok && chosen.protocol != Protocol
	}
	s, err := u.target.lookUp(u.ctx, key, since)
	return err == nil && s.behind
}

// behind returns the routes that a row still has to replace if its own route turned out to
// exist already: the other routes with its key.
func (u *updates) behind(at int) (replacement, error) {
	w := u.wants[at]
	s, err := u.target.look(u.ctx, w, time.Now())
	wanted := func(r kernelRoute) bool { return r.protocol == Protocol && w.matches(r.alive()) }
	return replacement{at, slices.DeleteFunc(slices.Clone(s.ours), wanted), s.foreign}, err
}

// alive returns the route as it is when all of its links have a carrier. Without one it may count as dead, and is the same route.
func (s Seen) alive() Seen {
	s.Dead = false
	s.Nexthops = mapHops(s.Nexthops, func(h SeenNexthop) SeenNexthop { h.Dead = false; return h })
	return s
}

// hasNexthops reports whether any of the routes has several next hops.
func hasNexthops(routes []kernelRoute) bool {
	return slices.ContainsFunc(routes, func(r kernelRoute) bool { return !r.Nexthops.IsZero() })
}

// extends reports whether an IPv6 route of ours differs only in its gateways. Gateways
// can be added and removed one by one.
func (w wanted) extends(old []kernelRoute) bool {
	if len(old) != 1 || old[0].Kind != "" || !old[0].hasGateway() || !w.row.Gateway.IsValid() && len(w.hops) == 0 {
		return false
	}
	is := old[0].Seen
	return is.Source == w.row.Source && is.MTU == w.row.MTU && is.OtherMTU == 0 && is.Type == w.row.Type
}

// nexthops returns the next hops of a row, which may be only one.
func (w wanted) nexthops() []wantedHop {
	if len(w.hops) > 0 {
		return w.hops
	}
	return []wantedHop{{Nexthop{w.row.Gateway, w.row.Device, 1}, w.index}}
}

// seenNexthops returns the next hops of an existing route, which may be only one.
func (s Seen) seenNexthops() []SeenNexthop {
	if !s.Nexthops.IsZero() {
		return s.Nexthops.Slice()
	}
	return []SeenNexthop{{Gateway: s.Gateway, index: s.index, Device: s.Device, OtherNames: s.OtherNames, Weight: 1, Dead: s.Dead, GatewayDevice: s.GatewayDevice, UncertainDevice: s.UncertainDevice}}
}

// change describes the changes to the next hops of an IPv6 route.
type change struct {
	at                    int
	first, removed, after []kernelRoute // with one next hop each
}

// changeOf returns the changes to make. A next hop with a new weight can only be added after
// the one with the old weight was removed. The same holds for a dead next hop, and one whose gateway is reached through another device,
// but adding it is tried first: it is removed only if the kernel adds another one or answers that it exists, not if it refuses it.
func (u *updates) changeOf(r replacement) change {
	w, old := u.wants[r.at], r.old[0]
	missing, surplus := pair(w.nexthops(), old.seenNexthops())
	c := change{at: r.at}
	for _, h := range surplus {
		c.removed = append(c.removed, old.by(h))
	}
	for _, h := range missing {
		one := w.wantedRoute()
		one.Nexthops = hopsOf([]wantedHop{h})
		same := slices.IndexFunc(surplus, func(s SeenNexthop) bool {
			return s.Gateway == h.Gateway && isDevice(h.Device, h.index, s.index, s.Device, s.OtherNames)
		})
		if same >= 0 {
			c.after = append(c.after, one)
		}
		if same < 0 || surplus[same].Dead || surplus[same].GatewayDevice != "" {
			c.first = append(c.first, one)
		}
	}
	return c
}

// changeNexthops adds next hops to IPv6 routes and removes surplus ones. A surplus next hop that
// cannot be removed was added by somebody else; the row is then in error.
func (u *updates) changeNexthops(replacements []replacement) {
	changes := make([]change, len(replacements))
	for i, r := range replacements {
		changes[i] = u.changeOf(r)
	}
	add := func(r kernelRoute) []rtnl.Request { return []rtnl.Request{r.addition(unix.NLM_F_APPEND)} }
	notExisting := func(at int, err error) {
		if !errors.Is(err, syscall.EEXIST) {
			u.replaced(at, err)
		}
	}
	u.each(changes, func(c change) []kernelRoute { return c.first }, add, notExisting)
	u.each(changes, func(c change) []kernelRoute { return c.removed }, kernelRoute.deletions, func(at int, err error) {
		if errors.Is(err, syscall.ESRCH) {
			u.explainSurplus(at)
			return
		}
		u.replaced(at, err)
	})
	u.each(changes, func(c change) []kernelRoute { return c.after }, add, notExisting)
}

// each sends a request for each route of the changes whose rows have not failed.
func (u *updates) each(changes []change, which func(change) []kernelRoute, request func(kernelRoute) []rtnl.Request, outcome func(at int, err error)) {
	var at []int
	var requests []rtnl.Request
	for _, c := range changes {
		if u.results[c.at].Err != nil {
			continue
		}
		for _, r := range which(c) {
			at, requests = append(at, c.at), append(requests, request(r)...)
		}
	}
	for n, err := range u.execute(requests) {
		if u.results[at[n]].Err == nil {
			outcome(at[n], err)
		}
	}
}

// explainSurplus handles a row whose route has a surplus next hop that is not ours. Somebody
// may just have removed that next hop.
func (u *updates) explainSurplus(at int) {
	w := u.wants[at]
	s, err := u.target.lookUp(u.ctx, w.row.Key(), time.Now())
	switch {
	case err != nil:
		u.results[at].Err = err
	case len(s.foreign) > 0: // our next hops come after those of others in the same route
		u.results[at].Err = u.target.foreignError(u.ctx, w.row, s.foreign[0])
	case len(s.ours) == 1:
		_, surplus := pair(w.nexthops(), s.ours[0].seenNexthops())
		for _, h := range surplus {
			u.results[at].Err = u.target.nexthopError(u.ctx, w.row, h)
		}
	}
}

// takeOver makes IPv6 routes replace routes of others with the same keys. If the new route has
// a gateway, the kernel replaces the routes with gateways, else one of the routes without.
// Remaining routes of others are removed after that. Routes of ours that the kernel would not
// replace are removed first: later, one without a gateway could not be told from the new one.
func (u *updates) takeOver(replacements []replacement) {
	var first, second, third []rtnl.Request
	var at []int
	for _, r := range replacements {
		w := u.wants[r.at]
		for _, old := range r.old {
			if old.hasGateway() != w.wantedRoute().hasGateway() {
				first = append(first, old.deletions()...)
			}
		}
		second = append(second, w.wantedRoute().addition(unix.NLM_F_REPLACE))
	}
	u.execute(first) // the next step finds the remaining routes
	outcomes := u.execute(second)
	for n, r := range replacements {
		u.replaced(r.at, outcomes[n])
		if outcomes[n] != nil {
			continue
		}
		for _, other := range r.foreign {
			for _, request := range other.deletions() {
				at, third = append(at, r.at), append(third, request)
			}
		}
	}
	for n, err := range u.execute(third) {
		u.replaced(at[n], err)
	}
}

// removeThenAdd removes old IPv6 routes and adds the new ones. The end of the context does not
// interrupt it in between. If the kernel refuses the new route, the old one is added again.
func (u *updates) removeThenAdd(replacements []replacement) {
	if len(replacements) == 0 || u.ctx.Err() != nil {
		for _, r := range replacements {
			u.fail(r.at, "replace", u.ctx.Err())
		}
		return
	}
	var requests []rtnl.Request
	added := make([]int, len(replacements))
	for n, r := range replacements {
		for _, old := range r.old {
			requests = append(requests, old.deletions()...)
		}
		added[n] = len(requests)
		requests = append(requests, u.wants[r.at].wantedRoute().addition(unix.NLM_F_EXCL))
	}
	ctx := context.WithoutCancel(u.ctx)
	outcomes := u.target.conn.Execute(ctx, requests)
	var restore []rtnl.Request
	for n, r := range replacements {
		u.replaced(r.at, outcomes[added[n]])
		if u.results[r.at].Err != nil && len(r.old) == 1 && r.old[0].Kind == "" {
			restore = append(restore, r.old[0].restoration()...)
		}
	}
	u.target.conn.Execute(ctx, restore) // if that fails too, the row's own error says why
}

// restoration returns the requests that add an IPv6 route again, in addition to next hops of
// others that may exist. Next hops are added one by one, so that the kernel refuses only
// those that exist.
func (r kernelRoute) restoration() (requests []rtnl.Request) {
	if r.Nexthops.IsZero() {
		return []rtnl.Request{r.addition(unix.NLM_F_APPEND)}
	}
	for _, h := range r.Nexthops.All() {
		one := r
		one.Nexthops = immutable.ListOf(h)
		requests = append(requests, one.addition(unix.NLM_F_APPEND))
	}
	return requests
}

// replaced records the outcome of one request of a replacement.
func (u *updates) replaced(at int, err error) {
	if err != nil && !errors.Is(err, syscall.ESRCH) {
		u.fail(at, "replace", err)
		return
	}
	u.results[at].Result.Changed = true
}
