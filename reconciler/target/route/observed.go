package route

import (
	"iter"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/target/internal/procsys"
	"github.com/statehive/statehive/reconciler/target/mirror"
	"github.com/statehive/statehive/reconciler/target/rtnl"
	"github.com/statehive/statehive/statedb"
	"github.com/statehive/statehive/statedb/immutable"
)

// Seen is an existing route of ours.
type Seen struct {
	Key     Key        `json:"key"`
	Gateway netip.Addr `json:"gateway,omitzero"`
	Device  string     `json:"device,omitempty"`
	// OtherNames are the alternative names of the device, separated by spaces.
	OtherNames string                      `json:"otherNames,omitempty"`
	index      int                         // of the device
	Nexthops   immutable.List[SeenNexthop] `json:"nexthops,omitzero"`
	Source     netip.Addr                  `json:"source,omitzero"`
	MTU        uint32                      `json:"mtu,omitempty"`
	// OtherMTU is that of one of several IPv6 next hops, if it is not MTU.
	OtherMTU uint32     `json:"otherMTU,omitempty"`
	Type     Type       `json:"type"`
	Scope    rtnl.Scope `json:"scope"`
	// Dead means that the route is not in use because its link is down.
	Dead bool `json:"dead,omitempty"`
	// Kind describes a property that rows cannot set, such as "tos 0x10". It is "several"
	// if more than one route has the key, and empty for a route that a row can describe.
	Kind string `json:"kind,omitempty"`
	// GatewayDevice is the device that leads to the gateway now, if that is another one than the route's.
	GatewayDevice string `json:"gatewayDevice,omitempty"`
	// UncertainDevice is the device that the kernel would choose for the gateway now, if the route's own no longer leads to it, but the other
	// one may not, either.
	UncertainDevice string `json:"uncertainDevice,omitempty"`
	// Behind means that the kernel uses a route of others instead, which comes before this one.
	Behind bool `json:"behind,omitempty"`
}

// SeenByKey is the primary index.
var SeenByKey = statedb.NewIndex("key", func(s Seen) Key { return s.Key })

// SeenSchema declares the table "observed-routes".
func SeenSchema() statedb.Schema[Seen] {
	return statedb.Schema[Seen]{Name: "observed-routes", Primary: SeenByKey}
}

// Mirror keeps a table of [Seen] in step with the kernel. Its target looks up existing routes
// in that table.
type Mirror struct{ *mirror.Mirror[Seen, event] }

// NewMirror returns a mirror. It must run before the target is used and until t is
// closed. Nothing else may write to its table.
func (t *Target) NewMirror(db *statedb.DB, seen *statedb.RWTable[Seen]) (Mirror, error) {
	k := &keeper{target: t, db: db, table: seen, parameters: procsys.New(procsys.Default), beside: map[Key]struct{}{}}
	m, err := mirror.New(mirror.Config[Seen, event]{
		DB: db, Table: seen, Decode: k.decode, List: k.list, Apply: k.apply, RecheckAt: k.recheckAt, Recheck: k.recheck, Unannounced: k.unannounced,
		// Routes vanish with links and addresses, and the kernel does not announce each.
		Subscribe: func() (mirror.Subscription, error) {
			k.anew = true // what others did meanwhile was not announced
			return rtnl.Subscribe(unix.RTNLGRP_LINK, unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR,
				unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV6_ROUTE, unix.RTNLGRP_IPV4_NETCONF, unix.RTNLGRP_IPV6_NETCONF)
		},
		Lost: func() { k.anew = true },
	})
	t.mirror.Store(m)
	return Mirror{m}, err
}

// Observed returns the comparison of rows with the routes in a mirror's table.
func Observed(seen *statedb.Table[Seen]) reconciler.Observation[Route] {
	return reconciler.Observes(seen,
		func(_ statedb.ReadTxn, s Seen) iter.Seq[statedb.Query[Route]] {
			return func(yield func(statedb.Query[Route]) bool) { yield(ByKey.Query(s.Key)) }
		},
		func(txn statedb.ReadTxn, want Route) []reconciler.Change { return differences(txn, seen, want) })
}

func differences(txn statedb.ReadTxn, seen *statedb.Table[Seen], want Route) []reconciler.Change {
	row, err := want.Normalized()
	if err != nil {
		return nil // Update reports it
	}
	w := wanted{row: row, hops: wantedHops(row)}
	is, _, found := seen.Get(txn, SeenByKey.Query(row.Key()))
	if found && w.matches(is) {
		return nil
	}
	return w.differences(is, found)
}
