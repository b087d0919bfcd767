package route

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/target/rtnl"
)

// wanted is a row with its device found.
type wanted struct {
	row   Route
	index int // of the device; 0 if the row leaves it open
}

// indexes finds the indexes of devices by which routes may be made.
func (t *Target) indexes() *rtnl.Indexes {
	return &rtnl.Indexes{Conn: t.conn, Allowed: t.config.Allowed}
}

// resolve checks a row and finds its device.
func (t *Target) resolve(ctx context.Context, row Route, indexes *rtnl.Indexes) (w wanted, err error) {
	if row, err = row.Normalized(); err != nil {
		return w, reconciler.Terminal(err)
	}
	w.row = row
	if row.Device == "" {
		return w, nil
	}
	if w.index, err = indexes.Of(ctx, row.Device); err != nil {
		return w, fmt.Errorf("route %s: %w", describe(row), err)
	}
	return w, nil
}

// state is what the kernel has under the key of a row.
type state struct {
	ours    []kernelRoute
	foreign []kernelRoute
}

// look looks up what there is for a row, and refuses if others hold its key.
func (t *Target) look(ctx context.Context, w wanted, since time.Time) (state, error) {
	s, err := t.lookUp(ctx, w.row.Key(), since)
	if err != nil {
		return state{}, err
	}
	if len(s.foreign) > 0 && !w.isMetBy(s) {
		return state{}, t.foreignError(ctx, w.row, s.foreign[0])
	}
	return s, nil
}

func (w wanted) isMetBy(s state) bool { return len(s.ours) == 1 && w.matches(s.ours[0].Seen) }

// listings are those of routing tables that were made lately: rows that are looked
// at together share one, and so do those that fail again and again because others
// hold their keys.
type listings struct {
	mu      sync.Mutex
	byTable map[listed]listing
}

// listed is what is listed: the routes of a family in a table.
type listed struct {
	family Family
	table  Table
}

type listing struct {
	at     time.Time // when it began
	took   time.Duration
	states map[Key]state
}

// listingLife is how long a listing is kept at most.
const listingLife = 5 * time.Second

// lookUp lists the routes that have a key, or looks in a listing that began since
// then.
func (t *Target) lookUp(ctx context.Context, key Key, since time.Time) (state, error) {
	t.lists.mu.Lock()
	defer t.lists.mu.Unlock()
	which := listed{key.family(), key.Table}
	l, known := t.lists.byTable[which]
	if !known || l.at.Before(since) {
		var err error
		if l, err = t.listStates(ctx, which); err != nil {
			return state{}, err
		}
		if t.lists.byTable == nil {
			t.lists.byTable = map[listed]listing{}
		}
		t.lists.byTable[which] = l
		time.AfterFunc(listingLife, func() { t.lists.forget(which, l.at) })
	}
	return l.states[key], nil
}

// lately is the time since when a listing is good enough to tell who holds a key
// that is taken: making it again would take the kernel longer than it is worth.
func (t *Target) lately(key Key) time.Time {
	t.lists.mu.Lock()
	defer t.lists.mu.Unlock()
	l := t.lists.byTable[listed{key.family(), key.Table}]
	if _, told := l.states[key]; !told {
		return time.Now()
	}
	return time.Now().Add(-min(10*l.took, listingLife))
}

func (l *listings) forget(which listed, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byTable[which].at.Equal(at) {
		delete(l.byTable, which)
	}
}

// listStates lists a routing table by keys.
func (t *Target) listStates(ctx context.Context, which listed) (listing, error) {
	l := listing{at: time.Now(), states: map[Key]state{}}
	routes, err := t.list(ctx, which.family, which.table, 0)
	for _, r := range routes {
		s := l.states[r.Key]
		switch {
		case r.protocol != Protocol && r.tos == 0: // with one, it is beside a route of ours and not in its place
			s.foreign = append(s.foreign, r)
		case r.protocol == Protocol && !slices.ContainsFunc(s.ours, r.same):
			s.ours = append(s.ours, r)
		}
		l.states[r.Key] = s
	}
	l.took = time.Since(l.at)
	return l, err
}

// matches reports whether a route of ours is as the row wants it.
func (w wanted) matches(s Seen) bool {
	return s.Kind == "" && s.Gateway == w.row.Gateway && s.Source == w.row.Source && (w.index == 0 || s.index == w.index)
}

// differences returns what a route, or none, differs in from the row. The
// device is told by its name.
func (w wanted) differences(is Seen, found bool) []reconciler.Change {
	destination, device := "", w.row.Device
	if found {
		destination = To(is.Key.Destination).String()
	}
	if device == "" { // whichever device leads to the gateway
		device = is.Device
	}
	var changes []reconciler.Change
	for _, field := range []reconciler.Change{
		{Field: "destination", Is: destination, Want: w.row.Destination.String()},
		{Field: "gateway", Is: addrText(is.Gateway), Want: addrText(w.row.Gateway)},
		{Field: "device", Is: is.Device, Want: device},
		{Field: "source", Is: addrText(is.Source), Want: addrText(w.row.Source)},
		{Field: "type", Is: is.Kind},
	} {
		if field.Is != field.Want {
			changes = append(changes, field)
		}
	}
	return changes
}

func addrText(addr netip.Addr) string {
	if !addr.IsValid() {
		return ""
	}
	return addr.String()
}

// describe names a route in messages, in the words of ip(8).
func describe(r Route) string {
	var text strings.Builder
	text.WriteString(r.Destination.String())
	for _, part := range []struct{ word, value string }{
		{"via", addrText(r.Gateway)}, {"dev", r.Device}, {"src", addrText(r.Source)},
	} {
		if part.value != "" {
			fmt.Fprintf(&text, " %s %s", part.word, part.value)
		}
	}
	if r.Table != MainTable {
		fmt.Fprintf(&text, " table %s", r.Table)
	}
	if r.Metric != usualMetric(r.Family) {
		fmt.Fprintf(&text, " metric %d", r.Metric)
	}
	return text.String()
}

// ErrForeign is matched by the error for a key whose route others made.
var ErrForeign = errors.New("somebody else's route is there")

// ForeignError is the error for a row whose key others hold. It matches ErrForeign.
type ForeignError struct {
	Key      Key
	Protocol string // its name, or its number
	Gateway  netip.Addr
	Device   string
}

// Error implements error.
func (e *ForeignError) Error() string {
	holder := "protocol " + e.Protocol
	if e.Gateway.IsValid() {
		holder += " via " + e.Gateway.String()
	}
	if e.Device != "" {
		holder += " dev " + e.Device
	}
	return fmt.Sprintf("route %s: %v (%s); it is left alone: remove it, or choose another metric or table", e.Key, ErrForeign, holder)
}

// Unwrap returns ErrForeign.
func (e *ForeignError) Unwrap() error { return ErrForeign }

func (t *Target) foreignError(ctx context.Context, row Route, holder kernelRoute) error {
	err := &ForeignError{Key: row.Key(), Protocol: rtnl.Protocol(holder.protocol).String(), Gateway: holder.Gateway}
	if holder.index > 0 {
		err.Device = t.conn.LinkName(ctx, holder.index)
	}
	return err
}
