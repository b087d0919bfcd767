package route

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/vishvananda/netlink"

	"github.com/statehive/statehive/reconciler"
)

// wanted is a row with its device found.
type wanted struct {
	row   Route
	index int // of the device; 0 if the row leaves it open
}

func (t *Target) resolve(ctx context.Context, row Route) (wanted, error) {
	row, err := row.Normalized()
	if err != nil {
		return wanted{}, reconciler.Terminal(err)
	}
	if err := ctx.Err(); err != nil || row.Device == "" {
		return wanted{row: row}, err
	}
	link, err := t.conn.LinkByName(row.Device)
	if err != nil {
		return wanted{}, fmt.Errorf("route %s: %w", describe(row), err)
	}
	return wanted{row, link.Attrs().Index}, nil
}

// state is what the kernel has under the key of a row.
type state struct {
	ours    []netlink.Route
	foreign []netlink.Route
}

// look looks up what there is for a row, and refuses if others hold its key.
func (t *Target) look(w wanted) (state, error) {
	s, err := t.lookUp(w.row.Key())
	if err != nil {
		return state{}, err
	}
	if len(s.foreign) > 0 && !w.isMetBy(s) {
		return state{}, t.foreignError(w.row, s.foreign[0])
	}
	return s, nil
}

func (w wanted) isMetBy(s state) bool { return len(s.ours) == 1 && w.matches(s.ours[0]) }

// lookUp finds the routes that have a key.
func (t *Target) lookUp(key Key) (state, error) {
	routes, err := t.list(key.family(), netlink.Route{Table: int(key.Table)})
	if err != nil {
		return state{}, err
	}
	var s state
	for _, r := range routes {
		switch {
		case keyOf(r) != key:
		case r.Protocol == Protocol:
			s.ours = append(s.ours, r)
		case r.Tos == 0: // with one, it is beside a route of ours and not in its place
			s.foreign = append(s.foreign, r)
		}
	}
	return s, nil
}

// matches says whether a route of ours is as the row wants it.
func (w wanted) matches(r netlink.Route) bool {
	return len(r.MultiPath) == 0 && r.Via == nil && r.Type == unicast && r.Tos == 0 &&
		addrOf(r.Gw) == w.row.Gateway && addrOf(r.Src) == w.row.Source &&
		(w.index == 0 || r.LinkIndex == w.index)
}

// fields are what a route says besides its table and metric, as text.
type fields struct{ destination, gateway, device, source, kind string }

func (w wanted) fields() fields {
	return fields{
		destination: w.row.Destination.String(),
		gateway:     addrText(w.row.Gateway),
		device:      w.row.Device,
		source:      addrText(w.row.Source),
	}
}

// fieldsOf returns the fields of a listed route; nameOf is that of a device.
func fieldsOf(r netlink.Route, nameOf func(int) string) fields {
	f := fields{
		destination: To(prefixOf(r)).String(),
		gateway:     addrText(addrOf(r.Gw)),
		source:      addrText(addrOf(r.Src)),
	}
	if r.Via != nil {
		f.gateway = r.Via.String() // of the other family
	}
	if r.LinkIndex > 0 {
		f.device = nameOf(r.LinkIndex)
	}
	switch {
	case len(r.MultiPath) > 0:
		f.kind = "multipath"
	case r.Type != unicast:
		f.kind = typeName(r.Type)
	case r.Tos != 0:
		f.kind = fmt.Sprintf("tos %#02x", r.Tos)
	}
	return f
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

// ForeignError says who holds the key of a row. It matches ErrForeign.
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

func (t *Target) foreignError(row Route, holder netlink.Route) error {
	err := &ForeignError{Key: row.Key(), Protocol: holder.Protocol.String(), Gateway: addrOf(holder.Gw)}
	if holder.LinkIndex > 0 {
		err.Device = t.conn.LinkName(holder.LinkIndex)
	}
	return err
}
