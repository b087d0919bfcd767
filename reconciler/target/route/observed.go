package route

import (
	"context"
	"iter"
	"slices"
	"strings"
	"syscall"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/target/internal/mirror"
	"github.com/statehive/statehive/reconciler/target/internal/steps"
	"github.com/statehive/statehive/statedb"
)

// Seen is a route of ours that the kernel has.
type Seen struct {
	Key     Key    `json:"key"`
	Gateway string `json:"gateway,omitempty"`
	Device  string `json:"device,omitempty"`
	// OtherNames are those that the device has besides, with spaces between them.
	OtherNames string `json:"otherNames,omitempty"`
	Source     string `json:"source,omitempty"`
	// Kind says what else is special about it: nothing about one that a row makes.
	Kind string `json:"kind,omitempty"`
}

// SeenByKey is the primary index.
var SeenByKey = statedb.NewIndex("key", func(s Seen) Key { return s.Key })

// SeenSchema declares the table "observed-routes".
func SeenSchema() statedb.Schema[Seen] {
	return statedb.Schema[Seen]{Name: "observed-routes", Primary: SeenByKey}
}

// Mirror keeps a table of [Seen] as the kernel is.
type Mirror struct{ *mirror.Mirror[Seen] }

// NewMirror returns a mirror, to be run before t is closed. Nobody else writes its
// table.
func (t *Target) NewMirror(db *statedb.DB, seen statedb.RWTable[Seen]) (Mirror, error) {
	m, err := mirror.New(mirror.Config[Seen]{
		DB: db, Table: seen, Tells: tells, List: t.seen,
		// Routes go with links and addresses, and not every one of them is told.
		Subscribe: mirror.Rtnetlink(unix.RTNLGRP_LINK, unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR,
			unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV6_ROUTE),
	})
	return Mirror{m}, err
}

// tells says whether a message may be about a route of ours. Others' routes may
// be many; they matter when they replace one.
func tells(m syscall.NetlinkMessage) bool {
	switch m.Header.Type {
	case unix.RTM_NEWADDR:
		return false
	case unix.RTM_NEWROUTE, unix.RTM_DELROUTE:
		return len(m.Data) < unix.SizeofRtMsg || m.Header.Flags&unix.NLM_F_REPLACE != 0 ||
			nl.DeserializeRtMsg(m.Data).Protocol == Protocol
	}
	return true
}

// seen lists the routes of ours: of several with one key the first, which counts.
func (t *Target) seen(ctx context.Context) ([]Seen, error) {
	var all []Seen
	known := map[Key]bool{}
	devices := map[int]device{}
	for _, family := range []Family{Inet, Inet6} {
		routes, err := t.list(family, netlink.Route{Protocol: Protocol})
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return nil, err
		}
		for _, r := range routes {
			if key := keyOf(r); !known[key] {
				known[key] = true
				all = append(all, t.seenOf(r, devices))
			}
		}
	}
	return all, nil
}

// device is what a device is called.
type device struct{ name, others string }

func (t *Target) seenOf(r netlink.Route, devices map[int]device) Seen {
	d, known := devices[r.LinkIndex]
	if !known && r.LinkIndex > 0 {
		name, others := t.conn.LinkNames(r.LinkIndex)
		d = device{name, strings.Join(others, " ")}
		devices[r.LinkIndex] = d
	}
	f := fieldsOf(r, func(int) string { return d.name })
	return Seen{keyOf(r), f.gateway, f.device, d.others, f.source, f.kind}
}

// Observed compares routes with what a mirror has seen.
func Observed(seen statedb.Table[Seen]) reconciler.Observation[Route] {
	return reconciler.Observes(seen,
		func(_ statedb.ReadTxn, s Seen) iter.Seq[statedb.Query[Route]] {
			return slices.Values([]statedb.Query[Route]{ByKey.Query(s.Key)})
		},
		func(txn statedb.ReadTxn, want Route) []reconciler.Change { return differences(txn, seen, want) })
}

func differences(txn statedb.ReadTxn, seen statedb.Table[Seen], want Route) []reconciler.Change {
	row, err := want.Normalized()
	if err != nil {
		return nil // which is for Update to say
	}
	is, _, found := seen.Get(txn, SeenByKey.Query(row.Key()))
	if slices.Contains(strings.Fields(is.OtherNames), row.Device) {
		is.Device = row.Device
	}
	return steps.Changes(wanted{row: row}.differences(is.fields(found), nil))
}

// fields are the fields of what was seen, or of nothing.
func (s Seen) fields(found bool) fields {
	if !found {
		return fields{}
	}
	return fields{To(s.Key.Destination).String(), s.Gateway, s.Device, s.Source, s.Kind}
}
