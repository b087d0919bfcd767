package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/statehive/statehive/reconciler/target/route"
)

// many are objects of one kind that come and go together.
type many struct {
	table    string // and reconciler
	n        int
	document string
	rows     map[string]int      // of the documents that are there all the time
	inKernel func() (int, error) // how many objects there are beyond those of these
	in, out  string              // names of figures; without out, the removal is not measured
}

func routesOfAgent(ctx context.Context, t *trial) error {
	all := routes(t.Routes)
	m := many{
		table: "routes", n: len(all), document: routeDocuments(all), rows: map[string]int{"links": 2, "addresses": 1},
		inKernel: countRoutes, in: routesAdded, out: routesRemoved,
	}
	return t.withAgent(ctx, cableDocument, m, func(a *agent) error {
		if t.wants("e") && t.Idle > 0 {
			if err := t.idle(ctx, a); err != nil {
				return err
			}
		}
		if t.wants("n") {
			if err := t.plan(ctx, a); err != nil {
				return err
			}
		}
		if t.wants("d") {
			return t.startOver(ctx, a, m)
		}
		return nil
	})
}

func addressesOfAgent(ctx context.Context, t *trial) error {
	all := addresses(t.Addresses, t.Devices)
	m := many{
		table: "addresses", n: len(all), document: addressDocuments(all), rows: map[string]int{"links": t.devices()},
		inKernel: countAddresses, in: addressesAdded, out: addressesRemoved,
	}
	return t.withAgent(ctx, deviceDocuments(t.devices()), m, func(*agent) error { return nil })
}

// devices is an even number: they are pairs.
func (o options) devices() int { return (o.Devices + 1) / 2 * 2 }

func linksOfAgent(ctx context.Context, t *trial) error {
	all := links(t.Links)
	m := many{table: "links", n: len(all), document: linkDocuments(all), inKernel: countLinks, in: linksAdded, out: linksRemoved}
	return t.withAgent(ctx, "", m, func(*agent) error { return nil })
}

// withAgent measures how the agent adds objects to a base and removes them again,
// with something else between.
func (t *trial) withAgent(ctx context.Context, base string, m many, between func(*agent) error) (err error) {
	err = t.phase(ctx, m.in, parsing, func(ctx context.Context) (float64, error) { return t.parse(ctx, m.document) })
	if err != nil {
		return err
	}
	a, err := t.newAgent()
	if err != nil {
		return err
	}
	defer a.kill()
	if err := t.settle(ctx, a, base, m); err != nil {
		return fmt.Errorf("the agent before anything is measured: %w", err)
	}
	err = t.phase(ctx, m.in, ours, func(ctx context.Context) (float64, error) { return m.add(ctx, a) })
	if err != nil {
		return err
	}
	if err := between(a); err != nil || m.out == "" {
		return err
	}
	return t.phase(ctx, m.out, ours, func(ctx context.Context) (float64, error) { return m.remove(ctx, a) })
}

// quiet is for how long nothing happens before what is measured begins.
const quiet = 2 * time.Second

// settle starts the agent over the base, and waits until it is idle.
func (t *trial) settle(ctx context.Context, a *agent, base string, m many) error {
	ctx, cancel := context.WithTimeout(ctx, t.Deadline)
	defer cancel()
	for name, text := range map[string]string{"base.yaml": keptDocument + base, "many.yaml": emptyDocument} {
		if _, err := a.write(name, text); err != nil {
			return err
		}
	}
	if err := a.start(); err != nil {
		return err
	}
	if _, err := a.done(ctx, m.expected(0)); err != nil {
		return err
	}
	return pause(ctx, quiet)
}

// expected are the rows of all tables when n of the objects are there.
func (m many) expected(n int) map[string]int {
	rows := map[string]int{"sysctls": 1}
	if n == 0 {
		rows["sysctls"] = 2 // that of the document which is there instead
	}
	for table, count := range m.rows {
		rows[table] = count
	}
	rows[m.table] += n
	return rows
}

// add measures from the document's being there to the last status.
func (m many) add(ctx context.Context, a *agent) (float64, error) {
	renamed, err := a.write("many.yaml", m.document)
	if err != nil {
		return 0, err
	}
	done, err := a.done(ctx, m.expected(m.n))
	if err != nil {
		return 0, err
	}
	return done.Sub(renamed).Seconds(), m.check(m.n)
}

// remove measures from the approval until nothing is left.
func (m many) remove(ctx context.Context, a *agent) (float64, error) {
	if _, err := a.write("many.yaml", emptyDocument); err != nil {
		return 0, err
	}
	plan, err := a.plan(ctx, m.table, m.n)
	if err == nil {
		err = pause(ctx, quiet)
	}
	if err != nil {
		return 0, err
	}
	approved, err := a.approve(ctx, m.table, plan)
	if err != nil {
		return 0, err
	}
	done, err := a.done(ctx, m.expected(0))
	if err != nil {
		return 0, err
	}
	return done.Sub(approved).Seconds(), m.check(0)
}

// check compares what the kernel has with what the agent says.
func (m many) check(n int) error {
	is, err := m.inKernel()
	if err == nil && is != n {
		err = fmt.Errorf("the agent is done, but the kernel has %d %s, expected %d", is, m.table, n)
	}
	return err
}

// countRoutes counts those of agents.
func countRoutes() (int, error) {
	all, err := netlink.RouteListFiltered(netlink.FAMILY_ALL, &netlink.Route{Protocol: netlink.RouteProtocol(route.Protocol)}, netlink.RT_FILTER_PROTOCOL)
	return len(all), err
}

// countAddresses counts those of [addresses]: no others are of a host alone.
func countAddresses() (n int, err error) {
	all, err := netlink.AddrList(nil, netlink.FAMILY_ALL)
	for _, a := range all {
		if ones, bits := a.Mask.Size(); ones == bits && !a.IP.IsLoopback() {
			n++
		}
	}
	return n, err
}

// countLinks counts all but the loopback device, which is in every namespace.
func countLinks() (int, error) {
	all, err := netlink.LinkList()
	if err == nil && len(all) == 0 {
		err = errors.New("there are no links, not even the loopback device")
	}
	return len(all) - 1, err
}
