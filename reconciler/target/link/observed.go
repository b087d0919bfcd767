package link

import (
	"context"
	"iter"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/target/mirror"
	"github.com/statehive/statehive/reconciler/target/rtnl"
	"github.com/statehive/statehive/reconciler/target/steps"
	"github.com/statehive/statehive/statedb"
)

// Seen is a link of the kernel, no matter who made it.
type Seen struct {
	Name string `json:"name"`
	// OtherNames are the alternative names of the link, separated by spaces.
	OtherNames string `json:"otherNames,omitempty"`
	Index      int    `json:"index"`
	Type       string `json:"type"`
	Up         bool   `json:"up"`
	// Running is whether the link is operational: up, and with a carrier.
	Running bool   `json:"running"`
	MTU     uint32 `json:"mtu"`
	MAC     string `json:"mac,omitempty"`
	Alias   string `json:"alias,omitempty"`
	// Master is the index of the link that this one is a port of; 0 if it is not a port.
	Master int `json:"master,omitempty"`
	// Peer is the index of the other end of a veth; 0 if the other end is in another
	// network namespace.
	Peer int `json:"peer,omitempty"`
}

// SeenByIndex is the primary index: names move from one link to another.
var SeenByIndex = statedb.NewIndex("index", func(s Seen) int { return s.Index })

// SeenByName finds links by any of their names.
var SeenByName = statedb.NewMultiIndex("name", func(s Seen) iter.Seq[string] { return slices.Values(s.names()) })

func (s Seen) names() []string { return append([]string{s.Name}, strings.Fields(s.OtherNames)...) }

// SeenSchema declares the table "observed-links".
func SeenSchema() statedb.Schema[Seen] {
	return statedb.Schema[Seen]{
		Name: "observed-links", Primary: SeenByIndex, Secondary: []statedb.Indexer[Seen]{SeenByName},
	}
}

func seenOf(l rtnl.Link) Seen {
	return Seen{l.Name, l.Others, l.Index, l.Type, l.Up, l.Running, l.MTU, l.MAC, l.Alias, l.Master, l.Peer}
}

// Mirror keeps a table of [Seen] in step with the kernel. Its target looks up existing links
// in that table.
type Mirror struct{ *mirror.Mirror[Seen, event] }

// event is a decoded notification: a link has changed or is gone.
type event struct {
	link Seen
	gone bool
}

// NewMirror returns a mirror. It must run before the target is used and until t is
// closed. Nothing else may write to its table.
func (t *Target) NewMirror(db *statedb.DB, seen *statedb.RWTable[Seen]) (Mirror, error) {
	m, err := mirror.New(mirror.Config[Seen, event]{
		DB: db, Table: seen, Decode: decode,
		Subscribe:   func() (mirror.Subscription, error) { return rtnl.Subscribe(unix.RTNLGRP_LINK) },
		List:        func(ctx context.Context, _ func() error) ([]Seen, error) { return t.list(ctx) },
		Unannounced: func(context.Context) bool { return hasUnannounced(db.ReadTxn(), statedb.ReadOnly(seen)) },
		Apply: func(txn *statedb.WriteTxn, e event) (doubt string, err error) {
			return "", apply(txn, seen, e)
		},
	})
	t.mirror.Store(m)
	return Mirror{m}, err
}

// apply writes an event. The kernel does not announce that the other end of a veth has come from another network namespace, or gone to one,
// while that end is down.
func apply(txn *statedb.WriteTxn, seen *statedb.RWTable[Seen], e event) error {
	if other, _, found := seen.Get(txn, SeenByIndex.Query(otherIndex(txn, seen, e))); found && other.Type == Veth {
		switch {
		case !e.gone:
			other.Peer = e.link.Index
		case other.Peer == e.link.Index:
			other.Peer = 0
		}
		if _, _, err := seen.Insert(txn, other); err != nil {
			return err
		}
	}
	var err error
	if e.gone {
		_, _, err = seen.Delete(txn, e.link)
	} else {
		_, _, err = seen.Insert(txn, e.link)
	}
	return err
}

// otherIndex returns the index of the other end of the veth that an event is about, or 0.
func otherIndex(txn statedb.ReadTxn, seen *statedb.RWTable[Seen], e event) int {
	if !e.gone {
		return e.link.Peer
	}
	was, _, _ := seen.Get(txn, SeenByIndex.Query(e.link.Index))
	return was.Peer
}

// hasUnannounced reports whether there are links that are down: the kernel does not announce their alternative names.
func hasUnannounced(txn statedb.ReadTxn, seen *statedb.Table[Seen]) bool {
	for s := range seen.All(txn) {
		if !s.Up {
			return true
		}
	}
	return false
}

func decode(m syscall.NetlinkMessage) (event, bool) {
	l, ok := rtnl.DecodeLink(m)
	isLink := m.Header.Type == unix.RTM_NEWLINK || m.Header.Type == unix.RTM_DELLINK
	return event{seenOf(l), m.Header.Type == unix.RTM_DELLINK}, ok && isLink
}

// list returns all links.
func (t *Target) list(ctx context.Context) ([]Seen, error) {
	links, err := t.conn.Links(ctx)
	all := make([]Seen, len(links))
	for i, l := range links {
		all[i] = seenOf(l)
	}
	return all, err
}

// Unrecorded returns a reporter of links that have our alias but no record.
func (t *Target) Unrecorded(db *statedb.DB, seen *statedb.Table[Seen]) mirror.Unrecorded[Seen] {
	return mirror.Unrecorded[Seen]{
		DB: db, Table: seen, What: "links",
		Name: func(s Seen) string { return s.Name },
		Is: func(s Seen) bool {
			if s.Alias != alias {
				return false
			}
			for _, name := range s.names() {
				if rec, _ := t.records.Get(name); (state{link: &s, rec: rec}).created() {
					return false
				}
			}
			return true
		},
		Remedy: "declare them with adopt: true, or, unless a document that is refused declares them, remove them (ip link del NAME)",
	}
}

// Observed returns the comparison of rows with the links in a mirror's table. A link that
// others made in place of one of ours counts as a difference, and so does a veth whose other
// end was renamed.
func (t *Target) Observed(seen *statedb.Table[Seen]) reconciler.Observation[Link] {
	return reconciler.Observes(seen, rowsOf(seen),
		func(txn statedb.ReadTxn, want Link) []reconciler.Change { return t.differences(txn, seen, want) })
}

// rowsOf returns a function that yields queries for the rows that a link matters to: its own row, the row of the veth
// whose other end it is, whatever the name of that end, and the rows of its ports.
func rowsOf(seen *statedb.Table[Seen]) func(statedb.ReadTxn, Seen) iter.Seq[statedb.Query[Link]] {
	return func(txn statedb.ReadTxn, s Seen) iter.Seq[statedb.Query[Link]] {
		return func(yield func(statedb.Query[Link]) bool) {
			var queries []statedb.Query[Link]
			for _, name := range s.names() {
				queries = append(append(queries, rowsFor(name)...), ByMaster.Query(Key(name)))
			}
			if other, _, found := seen.Get(txn, SeenByIndex.Query(s.Peer)); found {
				for _, name := range other.names() {
					queries = append(queries, ByKey.Query(Key(name)))
				}
			}
			for _, q := range queries {
				if !yield(q) {
					return
				}
			}
		}
	}
}

func (t *Target) differences(txn statedb.ReadTxn, seen *statedb.Table[Seen], want Link) []reconciler.Change {
	if row, err := want.Normalized(); err == nil {
		want = row // otherwise Update reports the error
	}
	for is := range seen.List(txn, SeenByName.Query(want.Name)) {
		due := want.differences(is)
		applied := t.applied(txn, &is, want)
		if applied.Name != want.Name && !applied.declaresSame(want) {
			due = append(due, steps.Field("applied document", applied.Name, want.Name, nil)...)
		}
		rec, _ := t.records.Get(applied.Name)
		if s := (state{link: &is, rec: rec}); want.Type != "" && !s.created() {
			due = append(due, steps.Field("owner", "others", alias, nil)...)
		} else if s.created() && is.Up { // the kernel does not report the alias of a link that is down
			due = append(due, steps.Field("alias", is.Alias, alias, nil)...)
		}
		peer, _, here := seen.Get(txn, SeenByIndex.Query(is.Peer))
		if _, _, taken := seen.Get(txn, SeenByName.Query(want.Peer)); want.Type == Veth && (here || taken) && !slices.Contains(peer.names(), want.Peer) {
			due = append(due, steps.Field("peer", peer.Name, want.Peer, nil)...)
		}
		if master, _, _ := seen.Get(txn, SeenByIndex.Query(is.Master)); want.Master != "" && !slices.Contains(master.names(), want.Master) {
			due = append(due, steps.Field("master", master.Name, want.Master, nil)...)
		}
		return steps.Changes(due)
	}
	return steps.Changes(steps.Field("name", "", want.Name, nil))
}

func (l Link) differences(is Seen) []steps.Step {
	due := steps.Field("up", is.Up, l.Up, nil)
	if l.Type != "" {
		due = append(due, steps.Field("type", is.Type, l.Type, nil)...)
	}
	if l.MTU != 0 {
		due = append(due, steps.Field("mtu", is.MTU, l.MTU, nil)...)
	}
	if l.MAC != "" {
		due = append(due, steps.Field("mac", is.MAC, l.MAC, nil)...)
	}
	return due
}
