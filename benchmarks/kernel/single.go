package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/target/address"
	"github.com/statehive/statehive/reconciler/target/link"
	"github.com/statehive/statehive/reconciler/target/route"
	"github.com/statehive/statehive/statedb"
)

// calm is how long a row is left alone before it drifts: more than
// reconciler.Drift.Settle.
const calm = 2 * time.Second

// singleRows measures single rows among many, in this process.
func singleRows(ctx context.Context, t *trial) error {
	if _, err := t.ip(ctx, cableBatch); err != nil {
		return err
	}
	in, err := newInProcess()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop, err := in.run(ctx)
	if err != nil {
		return err
	}
	err = t.measureSingle(ctx, in)
	cancel()
	return errors.Join(err, stop())
}

func (t *trial) measureSingle(ctx context.Context, in *inProcess) error {
	all := routes(t.Routes)
	order := rand.New(rand.NewPCG(1, 2)).Perm(t.Routes)
	filled, cancel := context.WithTimeout(ctx, t.Deadline)
	defer cancel()
	if err := in.fill(filled, all); err != nil {
		return fmt.Errorf("the routes before anything is measured: %w", err)
	}
	if err := pause(ctx, calm); err != nil {
		return err
	}
	drifting, changing := order[:t.Drifts], order[t.Drifts:]
	if t.wants("g") {
		err := t.phase(ctx, driftLatency, ours, func(ctx context.Context) (float64, error) {
			return t.each(ctx, in, driftLatency, t.Drifts, func(i int) (time.Duration, error) { return in.drift(ctx, all[drifting[i]]) })
		})
		if err != nil {
			return err
		}
	}
	if !t.wants("f") {
		return nil
	}
	return t.phase(ctx, changeLatency, ours, func(ctx context.Context) (float64, error) {
		return t.each(ctx, in, changeLatency, t.Changes, func(i int) (time.Duration, error) {
			n := changing[i%len(changing)]
			all[n].gateway = gateway(n + 1 + i%(maxGateways-1))
			return in.change(ctx, all[n])
		})
	})
}

// inProcess is what the agent has for routes, in this process.
type inProcess struct {
	db         *statedb.DB
	table      *statedb.RWTable[route.Route]
	target     *route.Target
	mirror     route.Mirror
	reconciler *reconciler.Reconciler[route.Route]
	notes      chan routeNote
}

func newInProcess() (in *inProcess, err error) {
	in = &inProcess{db: statedb.New(), notes: make(chan routeNote, 1024)}
	if in.table, err = statedb.NewTable(in.db, route.Schema()); err != nil {
		return nil, err
	}
	links, linksErr := statedb.NewTable(in.db, link.Schema())
	addresses, addressesErr := statedb.NewTable(in.db, address.Schema())
	seen, seenErr := statedb.NewTable(in.db, route.SeenSchema())
	seenLinks, seenLinksErr := statedb.NewTable(in.db, link.SeenSchema())
	seenAddresses, seenAddressesErr := statedb.NewTable(in.db, address.SeenSchema())
	if err := errors.Join(linksErr, addressesErr, seenErr, seenLinksErr, seenAddressesErr); err != nil {
		return nil, err
	}
	if in.target, err = route.New(route.Config{}); err != nil {
		return nil, err
	}
	if in.mirror, err = in.target.NewMirror(in.db, seen); err == nil {
		in.reconciler, err = reconciler.New(reconciler.Params[route.Route]{
			DB: in.db, Table: in.table, Target: in.target,
			DependsOn: route.DependsOn(route.Dependencies{
				DB: in.db, Devices: link.NewDevices(in.db, statedb.ReadOnly(links), statedb.ReadOnly(seenLinks), reconciler.Observation[link.Link]{}),
				Addresses: statedb.ReadOnly(addresses), KernelAddresses: statedb.ReadOnly(seenAddresses),
				Routes: statedb.ReadOnly(in.table), KernelRoutes: statedb.ReadOnly(seen),
			}),
			Observed: route.Observed(statedb.ReadOnly(seen)),
		})
	}
	if err != nil {
		return nil, errors.Join(err, in.target.Close())
	}
	return in, nil
}

// run runs everything until ctx ends; stop waits for that.
func (in *inProcess) run(ctx context.Context) (stop func() error, err error) {
	unwatch, err := watchRoutes(func(n routeNote) {
		select {
		case in.notes <- n:
		default: // nobody waits for one; what is waited for finds room, see await
		}
	})
	if err != nil {
		return nil, errors.Join(err, in.target.Close())
	}
	var running sync.WaitGroup
	errs := make(chan error, 2)
	running.Go(func() { errs <- in.mirror.Run(ctx, unheard{}) })
	running.Go(func() { errs <- in.reconciler.Run(ctx) })
	return func() error {
		running.Wait()
		return errors.Join(<-errs, <-errs, unwatch(), in.target.Close())
	}, nil
}

// unheard is health that nobody asks for.
type unheard struct{}

func (unheard) OK(string)              {}
func (unheard) Degraded(string, error) {}
func (unheard) Stopped(string)         {}

func rowOf(r routeAt) route.Route {
	row := route.Default()
	row.Destination, row.Gateway = route.To(r.destination), r.gateway
	return row
}

func (in *inProcess) write(ctx context.Context, rows ...routeAt) error {
	return in.db.Update(ctx, func(txn *statedb.WriteTxn) error {
		for _, r := range rows {
			row, err := rowOf(r).Normalized()
			if err == nil {
				_, _, err = in.table.Insert(txn, row)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}, in.table)
}

// fill writes all rows, and waits until they are done.
func (in *inProcess) fill(ctx context.Context, all []routeAt) error {
	if err := in.write(ctx, all...); err != nil {
		return err
	}
	return in.reconciler.WaitTable(ctx)
}

// each returns the 99th percentile, in seconds, of what single measures n times, and
// notes the median. Each but the first begins when the row before is done, and up to
// 20 ms later.
func (t *trial) each(ctx context.Context, in *inProcess, name string, n int, single func(i int) (time.Duration, error)) (float64, error) {
	choose := rand.New(rand.NewPCG(3, 4))
	var all []float64
	for i := range n {
		took, err := single(i)
		if err == nil {
			err = in.reconciler.WaitTable(ctx)
		}
		if err == nil {
			err = pause(ctx, time.Duration(choose.IntN(20_000))*time.Microsecond)
		}
		if err != nil {
			return 0, fmt.Errorf("number %d: %w", i+1, err)
		}
		all = append(all, took.Seconds())
	}
	return percentile(all, 99), t.note(name, typical, median(all))
}

// change gives a row another gateway. It returns how long it takes from there until
// the kernel tells of the change.
func (in *inProcess) change(ctx context.Context, r routeAt) (time.Duration, error) {
	in.forget()
	began := time.Now()
	if err := in.write(ctx, r); err != nil {
		return 0, err
	}
	note, err := in.await(ctx, r.destination, func(n routeNote) bool { return !n.gone && n.gateway == r.gateway })
	return note.at.Sub(began), err
}

// drift removes a route from the kernel. It returns how long it takes from the
// kernel's telling of that until it tells that the route is back.
func (in *inProcess) drift(ctx context.Context, r routeAt) (time.Duration, error) {
	in.forget()
	dst := &net.IPNet{IP: r.destination.Addr().AsSlice(), Mask: net.CIDRMask(r.destination.Bits(), 32)}
	if err := netlink.RouteDel(&netlink.Route{Dst: dst, Gw: r.gateway.AsSlice(), Protocol: netlink.RouteProtocol(route.Protocol)}); err != nil {
		return 0, fmt.Errorf("remove %v: %w", r.destination, err)
	}
	gone, err := in.await(ctx, r.destination, func(n routeNote) bool { return n.gone })
	if err != nil {
		return 0, err
	}
	back, err := in.await(ctx, r.destination, func(n routeNote) bool { return !n.gone })
	return back.at.Sub(gone.at), err
}

// forget makes room for notes of what comes.
func (in *inProcess) forget() {
	for {
		select {
		case <-in.notes:
		default:
			return
		}
	}
}

// await waits for a note of a route.
func (in *inProcess) await(ctx context.Context, destination netip.Prefix, is func(routeNote) bool) (routeNote, error) {
	for {
		select {
		case n := <-in.notes:
			if n.destination == destination && is(n) {
				return n, nil
			}
		case <-ctx.Done():
			return routeNote{}, fmt.Errorf("%v: %w", destination, context.Cause(ctx))
		}
	}
}
