package rule

import (
	"context"
	"fmt"
	"iter"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/target/mirror"
	"github.com/statehive/statehive/reconciler/target/route"
	"github.com/statehive/statehive/reconciler/target/rtnl"
	"github.com/statehive/statehive/reconciler/target/steps"
	"github.com/statehive/statehive/statedb"
)

// Seen is a rule of the kernel, no matter who made it.
type Seen struct {
	Key Key `json:"key"`
	// Order is the position among the rules with one key: the kernel evaluates the rule with the
	// lowest number first.
	Order    uint32        `json:"order"`
	From     netip.Prefix  `json:"from,omitzero"`
	To       netip.Prefix  `json:"to,omitzero"`
	Mark     Mark          `json:"mark,omitzero"`
	In       string        `json:"in,omitempty"`
	Out      string        `json:"out,omitempty"`
	Table    route.Table   `json:"table,omitempty"`
	Action   Action        `json:"action"`
	Protocol rtnl.Protocol `json:"protocol"` // 79 is ours
	// Other lists properties that rows cannot set, such as "tos 0x10"; empty if there are none.
	Other string `json:"other,omitempty"`
}

// SeenKey identifies an observed rule. Its text is as in "inet 100 #0", with the order at its
// end.
type SeenKey struct {
	Key   Key
	Order uint32
}

// SeenByKey is the primary index.
var SeenByKey = statedb.NewIndex("key", func(s Seen) SeenKey { return SeenKey{s.Key, s.Order} })

// SeenByRule finds all rules with the key of a row, in their order.
var SeenByRule = statedb.NewMultiIndex("rule", func(s Seen) iter.Seq[Key] { return slices.Values([]Key{s.Key}) })

// SeenByTable finds the rules that lead to a table.
var SeenByTable = statedb.NewIndex("table", func(s Seen) route.Table { return s.Table })

// SeenSchema declares the table "observed-rules".
func SeenSchema() statedb.Schema[Seen] {
	return statedb.Schema[Seen]{Name: "observed-rules", Primary: SeenByKey, Secondary: []statedb.Indexer[Seen]{SeenByRule, SeenByTable}}
}

// String returns the text form.
func (k SeenKey) String() string { return fmt.Sprintf("%s #%d", k.Key, k.Order) }

// MarshalText implements encoding.TextMarshaler.
func (k SeenKey) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (k *SeenKey) UnmarshalText(text []byte) error {
	rule, number, _ := strings.Cut(string(text), " #")
	order, err := strconv.ParseUint(number, 10, 32)
	var key Key
	if err != nil || key.UnmarshalText([]byte(rule)) != nil {
		return fmt.Errorf("%q is not the key of an observed rule, expected family, priority and order, as \"inet 100 #0\"", text)
	}
	*k = SeenKey{key, uint32(order)}
	return nil
}

// Mirror keeps a table of [Seen] in step with the kernel. Its target looks up existing rules
// in that table.
type Mirror struct{ *mirror.Mirror[Seen, event] }

// NewMirror returns a mirror. It must run before the target is used and until t is
// closed. Nothing else may write to its table.
func (t *Target) NewMirror(db *statedb.DB, seen *statedb.RWTable[Seen]) (Mirror, error) {
	k := &keeper{target: t, table: seen}
	m, err := mirror.New(mirror.Config[Seen, event]{
		DB: db, Table: seen, Decode: k.decode, List: k.list, Apply: k.apply,
		Subscribe: func() (mirror.Subscription, error) {
			return rtnl.Subscribe(unix.RTNLGRP_IPV4_RULE, unix.RTNLGRP_IPV6_RULE)
		},
	})
	t.mirror.Store(m)
	return Mirror{m}, err
}

// rules returns the rules with a key, in their order.
type rules func(Key) []Seen

// rules returns a function that looks up rules in a view if that is reliable, else in a new
// listing.
func (t *Target) rules(ctx context.Context, view mirror.View[Seen]) (rules, error) {
	if view.Reliable() {
		return rulesIn(view.Txn, view.Table), nil
	}
	all, err := t.list(ctx)
	if err != nil {
		return nil, err
	}
	byKey := make(map[Key][]Seen, len(all))
	for _, s := range all {
		byKey[s.Key] = append(byKey[s.Key], s)
	}
	return func(key Key) []Seen { return byKey[key] }, nil
}

func rulesIn(txn statedb.ReadTxn, table *statedb.Table[Seen]) rules {
	return func(key Key) (found []Seen) {
		for s := range table.List(txn, SeenByRule.Query(key)) {
			found = append(found, s)
		}
		return found
	}
}

// Observed returns the comparison of rows with the rules in a mirror's table.
func Observed(seen *statedb.Table[Seen]) reconciler.Observation[Rule] {
	return reconciler.Observes(seen,
		func(_ statedb.ReadTxn, s Seen) iter.Seq[statedb.Query[Rule]] {
			return slices.Values([]statedb.Query[Rule]{ByKey.Query(s.Key)})
		},
		func(txn statedb.ReadTxn, want Rule) []reconciler.Change {
			row, err := want.Normalized()
			if err != nil {
				return nil // Update reports it
			}
			return steps.Changes(row.compare(rulesIn(txn, seen)(row.Key())).steps)
		})
}
