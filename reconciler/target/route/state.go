package route

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/target/rtnl"
	"github.com/statehive/statehive/statedb/immutable"
)

// wanted is a row with the indexes of its devices.
type wanted struct {
	row   Route
	index int // of the device; 0 if only its name is known, or if none is given
	hops  []wantedHop
}

// indexes finds the indexes of devices that routes may use.
func (t *Target) indexes() *rtnl.Indexes {
	return &rtnl.Indexes{Conn: t.conn, Allowed: t.config.Allowed}
}

// resolve checks a row and finds its device.
func (t *Target) resolve(ctx context.Context, row Route, indexes *rtnl.Indexes) (w wanted, err error) {
	if row, err = row.Normalized(); err != nil {
		return w, reconciler.Terminal(err)
	}
	w.row, w.hops = row, wantedHops(row)
	if row.Device != "" {
		w.index, err = indexes.Of(ctx, row.Device)
	}
	for i, h := range w.hops {
		if h.Device != "" && err == nil {
			w.hops[i].index, err = indexes.Of(ctx, h.Device)
		}
	}
	if err != nil {
		return w, fmt.Errorf("route %s: %w", describe(row), err)
	}
	return w, nil
}

// wantedHops returns the next hops of a row, if it has several. Their devices are known only
// by name.
func wantedHops(row Route) (hops []wantedHop) {
	for _, h := range row.Nexthops.All() {
		hops = append(hops, wantedHop{Nexthop: h})
	}
	return hops
}

// state has the existing routes with the key of a row.
type state struct {
	ours    []kernelRoute
	foreign []kernelRoute
	behind  bool // whether a route of others comes before ours
}

// look looks up the routes with the key of a row, and returns an error if others hold the key. The state has routes of
// others only if the row adopts them.
func (t *Target) look(ctx context.Context, w wanted, since time.Time, also ...Key) (state, error) {
	s, err := t.lookUp(ctx, w.row.Key(), since, also...)
	if err != nil {
		return state{}, err
	}
	if w.row.Adopt || len(s.foreign) == 0 {
		return s, nil
	}
	if s.behind || len(s.ours) == 0 || w.row.Family == Inet6 && !w.isMetBy(s) {
		first := slices.MaxFunc(s.foreign, func(a, b kernelRoute) int { return cmp.Compare(a.preference, b.preference) })
		return state{}, t.foreignError(ctx, w.row, first)
	}
	s.foreign = nil
	return s, nil
}

// isMetBy reports whether the wanted route exists, and no other route comes before it or remains to be taken over.
func (w wanted) isMetBy(s state) bool {
	return len(s.ours) == 1 && w.matches(s.ours[0].Seen) && !s.behind && (!w.row.Adopt || len(s.foreign) == 0)
}

// isOlderThan reports whether a listing is older than what a mirror has seen of a route of ours.
func (s state) isOlderThan(is Seen) bool {
	here := func(r kernelRoute) bool { return same(r.Seen, is) }
	return is.Behind && !s.behind || is.Kind != severalKind && !slices.ContainsFunc(s.ours, here)
}

// isBehind reports whether the route of a row that adopts exists, but the kernel uses
// somebody else's route, as after an interrupted takeover.
func (t *Target) isBehind(ctx context.Context, w wanted) bool {
	if !w.row.Adopt {
		return false
	}
	chosen, ok, _ := t.chosen(ctx, w.row.Key())
	return ok && chosen.protocol != Protocol
}

// matches reports whether a route of ours is as the row wants it.
func (w wanted) matches(s Seen) bool {
	if w.row.Device == "" && s.GatewayDevice != "" || w.doubt(s) != nil {
		return false
	}
	if s.Kind != "" || s.Dead || s.Behind || s.Gateway != w.row.Gateway || s.Source != w.row.Source || s.MTU != w.row.MTU || s.OtherMTU != 0 ||
		s.Type != w.row.Type || s.Scope != w.row.scope() || !isDevice(w.row.Device, w.index, s.index, s.Device, s.OtherNames) {
		return false
	}
	return w.hasNexthops(s)
}

// doubt returns an error if it is in doubt through which device a gateway of an existing route is reached, so that it stays where it is.
func (w wanted) doubt(is Seen) error {
	if is.Nexthops.IsZero() && is.UncertainDevice == "" {
		return nil
	}
	for _, want := range w.nexthops() {
		for _, h := range is.seenNexthops() {
			if want.Device == "" && h.UncertainDevice != "" && want.Gateway == h.Gateway {
				return fmt.Errorf("route %s: its device %s no longer leads to the gateway %s, and it is not certain that %s does, through which it would be added now; "+
					"it stays: name the device, or give that one an address in the network of the gateway", describe(w.row), h.Device, h.Gateway, h.UncertainDevice)
			}
		}
	}
	return nil
}

// hasNexthops reports whether a route of ours has the same list of next hops as the row,
// or neither has one.
func (w wanted) hasNexthops(s Seen) bool {
	if len(w.hops) == 0 || s.Nexthops.IsZero() {
		return len(w.hops) == 0 && s.Nexthops.IsZero()
	}
	missing, surplus := pair(w.hops, s.Nexthops.Slice())
	return len(missing)+len(surplus) == 0
}

// differences returns how an existing route, or a missing one, differs from the row. Devices
// are given by name. The scope is given only if the row sets it or nothing else differs.
func (w wanted) differences(is Seen, found bool) []reconciler.Change {
	var changes []reconciler.Change
	add := func(field, is, want string) {
		if is != want {
			changes = append(changes, reconciler.Change{Field: field, Is: is, Want: want})
		}
	}
	destination, isType, wantType, isScope := "", "", w.row.Type.String(), ""
	switch {
	case found:
		destination, isType, isScope = To(is.Key.Destination).String(), is.typeText(), is.Scope.String()
	case w.row.Type == Unicast: // the default need not be mentioned
		wantType = ""
	}
	isDevice, wantDevice := w.deviceTexts(is)
	add("destination", destination, w.row.Destination.String())
	add("gateway", addrText(is.Gateway), addrText(w.row.Gateway))
	add("device", isDevice, wantDevice)
	inDoubt := w.doubt(is) != nil
	if !w.hasNexthops(is) || inDoubt && !is.Nexthops.IsZero() {
		add("nexthops", seenText(is.Nexthops), nexthopsText(w.row.Nexthops))
	}
	add("source", addrText(is.Source), addrText(w.row.Source))
	mtu := is.MTU
	if mtu == w.row.MTU && is.OtherMTU != 0 {
		mtu = is.OtherMTU
	}
	add("mtu", mtuText(mtu), mtuText(w.row.MTU))
	add("type", isType, wantType)
	if inDoubt && is.Nexthops.IsZero() {
		add("gateway device", is.Device, is.Device+" or "+is.UncertainDevice)
	}
	if is.Behind {
		add("place", "behind a route of others", "first")
	}
	if !w.row.Scope.IsZero() || len(changes) == 0 {
		add("scope", isScope, w.row.scope().String())
	}
	return changes
}

// deviceTexts returns the device of a route and the device of the row. If they are the same, both
// have the row's name. If the row has none, it is the one that leads to the gateway.
func (w wanted) deviceTexts(s Seen) (is, want string) {
	is, want = s.Device, w.row.Device
	if s.Type != Unicast {
		is = "" // the kernel puts IPv6 routes of these types on lo
	}
	switch {
	case want != "" && isDevice(want, w.index, s.index, s.Device, s.OtherNames):
		is = want
	case want == "" && w.row.Gateway.IsValid():
		want = cmp.Or(s.GatewayDevice, is)
	}
	if s.Dead {
		is += " dead"
	}
	return is, want
}

// typeText returns the type of a route, or the property that rows cannot set.
func (s Seen) typeText() string {
	if s.Kind != "" {
		return s.Kind
	}
	return s.Type.String()
}

func mtuText(mtu uint32) string {
	if mtu == 0 {
		return ""
	}
	return strconv.FormatUint(uint64(mtu), 10)
}

func addrText(addr netip.Addr) string {
	if !addr.IsValid() {
		return ""
	}
	return addr.String()
}

// describe returns the name of a route in messages, in the syntax of ip(8).
func describe(r Route) string {
	var text strings.Builder
	if r.Type != Unicast {
		text.WriteString(r.Type.String() + " ")
	}
	text.WriteString(r.Destination.String())
	for _, part := range []struct{ word, value string }{
		{"via", addrText(r.Gateway)}, {"dev", r.Device}, {"src", addrText(r.Source)},
	} {
		if part.value != "" {
			fmt.Fprintf(&text, " %s %s", part.word, part.value)
		}
	}
	for _, h := range r.Nexthops.All() {
		text.WriteString(" nexthop " + h.text())
	}
	if r.Table != MainTable {
		fmt.Fprintf(&text, " table %s", r.Table)
	}
	if r.Metric != usualMetric(r.Family) {
		fmt.Fprintf(&text, " metric %d", r.Metric)
	}
	return text.String()
}

// ErrForeign is matched by the error for a key whose route somebody else made.
var ErrForeign = errors.New("somebody else's route is there")

// ForeignError is the error for a row whose key others hold. It matches ErrForeign.
type ForeignError struct {
	Key      Key
	Protocol string // name or number; empty if it is not known
	Type     Type
	Gateway  netip.Addr
	Device   string
	Nexthops string // in the syntax of ip(8), if the route has several
}

// Error implements error.
func (e *ForeignError) Error() string {
	var holder []string
	for _, part := range []struct{ word, value string }{
		{"protocol ", e.Protocol}, {"", e.Type.String()}, {"via ", addrText(e.Gateway)}, {"dev ", e.Device}, {"", e.Nexthops},
	} {
		if part.value != "" && part.value != Unicast.String() {
			holder = append(holder, part.word+part.value)
		}
	}
	return fmt.Sprintf("route %s: %v (%s); it is left alone: remove it, take it over with adopt: true, or choose another metric or table",
		e.Key, ErrForeign, strings.Join(holder, " "))
}

// Unwrap returns ErrForeign.
func (e *ForeignError) Unwrap() error { return ErrForeign }

func (t *Target) foreignError(ctx context.Context, row Route, holder kernelRoute) error {
	s := t.named(ctx, holder.Seen)
	err := &ForeignError{
		Key: row.Key(), Protocol: rtnl.Protocol(holder.protocol).String(), Type: s.Type, Gateway: s.Gateway, Device: s.Device, Nexthops: seenText(s.Nexthops),
	}
	if err.Type != Unicast {
		err.Device = "" // IPv6: lo
	}
	return err
}

// nexthopError returns the error for a row whose IPv6 route has a next hop that others added.
func (t *Target) nexthopError(ctx context.Context, row Route, h SeenNexthop) error {
	h.Device = t.conn.LinkName(ctx, h.index)
	return &ForeignError{Key: row.Key(), Nexthops: "next hop " + seenText(immutable.ListOf(h))}
}

// named returns the route with the names of its devices, for messages.
func (t *Target) named(ctx context.Context, s Seen) Seen {
	if s.index > 0 {
		s.Device = t.conn.LinkName(ctx, s.index)
	}
	s.Nexthops = mapHops(s.Nexthops, func(h SeenNexthop) SeenNexthop {
		h.Device = t.conn.LinkName(ctx, h.index)
		return h
	})
	return s
}
