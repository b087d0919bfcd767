package route

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/vishvananda/netlink"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/target/internal/rtnl"
	"github.com/statehive/statehive/reconciler/target/internal/steps"
	"github.com/statehive/statehive/statedb"
)

// Protocol marks the routes that we make.
const Protocol = 79

// Target makes routes in the network namespace that it was made in.
type Target struct{ conn *rtnl.Conn }

var (
	_ reconciler.Target[Route]   = (*Target)(nil)
	_ reconciler.Observer[Route] = (*Target)(nil)
	_ reconciler.Differ[Route]   = (*Target)(nil)
)

// New returns a target. Close it after use.
func New() (*Target, error) {
	conn, err := rtnl.Dial()
	if err != nil {
		return nil, err
	}
	return &Target{conn}, nil
}

// Close releases the target's socket.
func (t *Target) Close() error {
	t.conn.Close()
	return nil
}

// Init implements reconciler.Target. There is nothing to prepare.
func (t *Target) Init(ctx context.Context) error { return ctx.Err() }

// Update implements reconciler.Target.
func (t *Target) Update(ctx context.Context, _ statedb.ReadTxn, row Route) (reconciler.Result, error) {
	w, err := t.resolve(ctx, row)
	if err != nil || t.isInSync(w) {
		return reconciler.Result{}, err
	}
	s, err := t.look(w)
	if err != nil {
		return reconciler.Result{}, err
	}
	return steps.Take(ctx, t.steps(w, s))
}

// Diff implements reconciler.Differ.
func (t *Target) Diff(ctx context.Context, _ statedb.ReadTxn, row Route) ([]reconciler.Change, error) {
	w, err := t.resolve(ctx, row)
	if err != nil || t.isInSync(w) {
		return nil, err
	}
	s, err := t.look(w)
	if err != nil {
		return nil, err
	}
	return steps.Changes(t.steps(w, s)), nil
}

// steps says what is to be done. Whatever differs, one request does it.
func (t *Target) steps(w wanted, s state) []steps.Step {
	do := func() error { return t.change(w, s) }
	is := fields{}
	if len(s.ours) > 0 {
		is = fieldsOf(s.ours[0], t.conn.LinkName)
	} else {
		do = func() error { return t.add(w) }
	}
	return w.differences(is, do)
}

// differences returns a step for each field in which a route differs, of which
// the first does it all.
func (w wanted) differences(is fields, do func() error) []steps.Step {
	want := w.fields()
	if w.row.Device == "" { // whichever device leads to the gateway
		want.device = is.device
	}
	due := steps.Field("destination", is.destination, want.destination, do)
	due = append(due, steps.Field("gateway", is.gateway, want.gateway, do)...)
	due = append(due, steps.Field("device", is.device, want.device, do)...)
	due = append(due, steps.Field("source", is.source, want.source, do)...)
	due = append(due, steps.Field("type", is.kind, want.kind, do)...)
	for i := range due {
		if i > 0 {
			due[i].Do = nil
		}
	}
	return due
}

// Delete implements reconciler.Target. It removes what has the key of the row
// and is ours.
func (t *Target) Delete(ctx context.Context, _ statedb.ReadTxn, row Route) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s, err := t.lookUp(row.Key())
	if err != nil {
		return err
	}
	return t.remove(s.ours)
}

// Observe implements reconciler.Observer: it yields all routes of our protocol.
// Of one with several next hops, which rows do not make, it yields the key.
func (t *Target) Observe(ctx context.Context) iter.Seq2[Route, error] {
	return func(yield func(Route, error) bool) {
		devices := map[int]string{}
		seen := map[Key]bool{}
		for _, family := range []Family{Inet, Inet6} {
			routes, err := t.list(family, netlink.Route{Protocol: Protocol})
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				yield(Route{}, err)
				return
			}
			for _, r := range routes {
				row := t.rowOf(r, devices)
				if seen[row.Key()] {
					continue
				}
				seen[row.Key()] = true
				if !yield(row, nil) {
					return
				}
			}
		}
	}
}

// Prune implements reconciler.Target. It is never called, since the target can
// observe.
func (t *Target) Prune(context.Context, statedb.ReadTxn, iter.Seq2[Route, statedb.Revision]) (int, error) {
	return 0, fmt.Errorf("prune routes: %w: they are observed", errors.ErrUnsupported)
}
