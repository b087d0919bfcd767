package nft

import (
	"iter"

	"golang.org/x/sys/unix"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/target/mirror"
	"github.com/statehive/statehive/reconciler/target/rtnl"
	"github.com/statehive/statehive/reconciler/target/steps"
	"github.com/statehive/statehive/statedb"
)

// SeenByKey is the primary index.
var SeenByKey = statedb.NewIndex("key", func(s Seen) Key { return s.Key })

// SeenSchema declares the table "observed-nft-tables".
func SeenSchema() statedb.Schema[Seen] {
	return statedb.Schema[Seen]{Name: "observed-nft-tables", Primary: SeenByKey}
}

// Mirror keeps a table of [Seen] in step with the kernel. Its target looks up existing tables
// in that table.
type Mirror struct{ *mirror.Mirror[Seen, event] }

// NewMirror returns a mirror. It must run before the target is used and until t is
// closed. Nothing else may write to its table.
func (t *Target) NewMirror(db *statedb.DB, seen *statedb.RWTable[Seen]) (Mirror, error) {
	k := &keeper{target: t, table: seen}
	m, err := mirror.New(mirror.Config[Seen, event]{
		DB: db, Table: seen, Decode: k.decode, List: k.list, Apply: k.apply,
		Subscribe: func() (mirror.Subscription, error) { return rtnl.SubscribeNetfilter(unix.NFNLGRP_NFTABLES) },
	})
	t.mirror.Store(m)
	return Mirror{m}, err
}

// Observed returns the comparison of rows with the tables in a mirror's table.
func Observed(seen *statedb.Table[Seen]) reconciler.Observation[Table] {
	return reconciler.Observes(seen,
		func(_ statedb.ReadTxn, s Seen) iter.Seq[statedb.Query[Table]] {
			return func(yield func(statedb.Query[Table]) bool) { yield(ByKey.Query(s.Key)) }
		},
		func(txn statedb.ReadTxn, want Table) []reconciler.Change {
			if want.digest == "" {
				return nil // Update reports the error
			}
			is, _, found := seen.Get(txn, SeenByKey.Query(want.Key()))
			return steps.Changes(is.steps(want, found))
		})
}

// steps returns the differences between a table and a row, as far as digests show them.
func (s Seen) steps(want Table, found bool) []steps.Step {
	switch {
	case !found:
		return steps.Field("name", "", want.Name, nil)
	case !s.ours():
		return steps.Field("owner", "others", "statehive", nil)
	}
	return steps.Field("content", s.Content, want.digest, nil)
}
