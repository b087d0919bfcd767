package link

import (
	"context"
	"fmt"
	"iter"
	"net"
	"slices"
	"strings"
	"syscall"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/target/internal/mirror"
	"github.com/statehive/statehive/reconciler/target/internal/rtnl"
	"github.com/statehive/statehive/reconciler/target/internal/steps"
	"github.com/statehive/statehive/statedb"
)

// Seen is a link that the kernel has, whoever made it.
type Seen struct {
	Name string `json:"name"`
	// OtherNames are those that the link has besides, with spaces between them.
	OtherNames string `json:"otherNames,omitempty"`
	Index      int    `json:"index"`
	Type       string `json:"type"`
	Up         bool   `json:"up"`
	MTU        uint32 `json:"mtu"`
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

// Mirror keeps a table of [Seen] as the kernel is.
type Mirror struct{ *mirror.Mirror[Seen] }

// NewMirror returns a mirror, to be run before t is closed. Nobody else writes its
// table.
func (t *Target) NewMirror(db *statedb.DB, seen statedb.RWTable[Seen]) (Mirror, error) {
	m, err := mirror.New(mirror.Config[Seen]{
		DB: db, Table: seen, List: t.seen,
		Subscribe: mirror.Rtnetlink(unix.RTNLGRP_LINK),
		Tells:     func(syscall.NetlinkMessage) bool { return true },
	})
	return Mirror{m}, err
}

// seen lists all links.
func (t *Target) seen(ctx context.Context) ([]Seen, error) {
	links, err := rtnl.List(t.conn, (*netlink.Handle).LinkList)
	if err != nil {
		return nil, fmt.Errorf("list links: %w", err)
	}
	all := make([]Seen, 0, len(links))
	for _, link := range links {
		a := link.Attrs()
		all = append(all, Seen{
			a.Name, strings.Join(a.AltNames, " "), a.Index, link.Type(), a.Flags&net.FlagUp != 0, uint32(a.MTU),
		})
	}
	return all, ctx.Err()
}

// Observed compares links with what a mirror has seen.
func Observed(seen statedb.Table[Seen]) reconciler.Observation[Link] {
	return reconciler.Observes(seen,
		func(_ statedb.ReadTxn, s Seen) iter.Seq[statedb.Query[Link]] {
			return func(yield func(statedb.Query[Link]) bool) {
				for _, name := range s.names() {
					if !yield(ByKey.Query(Key(name))) {
						return
					}
				}
			}
		},
		func(txn statedb.ReadTxn, want Link) []reconciler.Change { return differences(txn, seen, want) })
}

func differences(txn statedb.ReadTxn, seen statedb.Table[Seen], want Link) []reconciler.Change {
	for is := range seen.List(txn, SeenByName.Query(want.Name)) {
		return steps.Changes(want.differences(is))
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
	return due
}
