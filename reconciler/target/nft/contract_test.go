package nft

import (
	"testing"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/targettest"
)

func keyText(row Table) string { return row.Key().String() }

func TestTargetKeepsTheContract(t *testing.T) { keepsTheContract(t, newTargetOf) }

func TestTargetWithAMirrorKeepsTheContract(t *testing.T) {
	keepsTheContract(t, func(t *testing.T) *Target {
		t.Helper()
		return withMirror(t).Target
	})
}

func newTargetOf(t *testing.T) *Target {
	t.Helper()
	return newTarget(t)
}

func keepsTheContract(t *testing.T, open func(*testing.T) *Target) {
	t.Helper()
	clean(t)
	named := func(sample, name string, family Family) Table {
		row := samples()[sample]
		row.Name, row.Family = name, family
		return row
	}
	targettest.Run(t, targettest.Contract[Table]{
		Open: func(t *testing.T) reconciler.Target[Table] { return open(t) },
		Key:  keyText,
		Rows: []Table{
			named("every match", "filter", Inet),
			named("translations", "nat", Inet),
			named("a chain of IPv4", "filter", IP),
			named("a chain of IPv6", "filter", IP6),
			named("sets of ranges", "sets", Inet),
			named("empty", "empty", Inet),
		},
		Variants: []Table{
			named("sets of single elements", "filter", Inet),
			named("empty", "nat", Inet),
			named("a chain of type route", "filter", IP),
			named("sets of single elements", "sets", Inet),
			named("every match", "empty", Inet),
		},
		Invalid: []Table{
			{Name: "filter", Family: "arp"},
			{Name: "no name", Family: Inet},
			{Name: "t", Family: Inet, Chains: []Chain{{Name: "c", Rules: []Rule{{}}}}},
			{Name: "t", Family: IP, Chains: []Chain{{Name: "c", Rules: []Rule{{Match: Match{Saddr: addresses("2001:db8::1")}, Drop: true}}}}},
		},
		Holds:   holds,
		Remove:  remove,
		Disturb: disturb,
		Foreign: foreign,
	})
}

// holds looks with the library whether there are as many chains, rules, sets and elements as
// the row says.
func holds(t *testing.T, row Table) bool {
	t.Helper()
	if !exists(t, row.Key()) {
		return false
	}
	conn, table := tables(t), libraryTable(row.Key())
	chains, rules := 0, 0
	all, err := conn.ListChainsOfTableFamily(table.Family)
	if err != nil {
		t.Fatal(err)
	}
	for _, chain := range all {
		if chain.Table.Name != row.Name {
			continue
		}
		chains++
		there, err := conn.GetRules(table, chain)
		if err != nil {
			t.Fatal(err)
		}
		rules += len(there)
	}
	sets, err := conn.GetSets(table)
	if err != nil {
		t.Fatal(err)
	}
	elements := 0
	for _, set := range sets {
		there, err := conn.GetSetElements(set)
		if err != nil {
			t.Fatal(err)
		}
		elements += len(there)
	}
	wantRules, wantElements := 0, 0
	for _, chain := range row.Chains {
		wantRules += len(chain.Rules)
	}
	for _, set := range row.Sets {
		spans, ranges, err := set.spans()
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range spans {
			wantElements++
			if _, more := following(s.last); more && ranges {
				wantElements++
			}
		}
	}
	return chains == len(row.Chains) && rules == wantRules && len(sets) == len(row.Sets) && elements == wantElements
}

func remove(t *testing.T, row Table) {
	t.Helper()
	if exists(t, row.Key()) {
		conn := tables(t)
		conn.DelTable(libraryTable(row.Key()))
		flush(t, conn)
	}
}

// disturb adds a chain with a rule.
func disturb(t *testing.T, row Table) {
	t.Helper()
	conn := tables(t)
	chain := conn.AddChain(libraryChain(row.Key(), "disturbing"))
	conn.AddRule(&nftables.Rule{Table: chain.Table, Chain: chain, Exprs: []expr.Any{&expr.Verdict{Kind: expr.VerdictAccept}}})
	flush(t, conn)
}

// foreign makes tables as others do, of the same name in another family too, and with
// a comment.
func foreign(t *testing.T) func() bool {
	t.Helper()
	keys := []Key{{IP, "nat"}, {IP6, "sets"}, {"bridge", "filter"}, {Inet, "theirs"}}
	conn := tables(t)
	for _, key := range keys {
		conn.AddTable(libraryTable(key))
		chain := conn.AddChain(libraryChain(key, "input"))
		conn.AddRule(&nftables.Rule{Table: chain.Table, Chain: chain, Exprs: []expr.Any{&expr.Counter{}}})
	}
	flush(t, conn)
	t.Cleanup(func() {
		conn := tables(t)
		for _, key := range keys {
			conn.DelTable(libraryTable(key))
		}
		flush(t, conn)
	})
	return func() bool {
		for _, key := range keys {
			rules, err := tables(t).GetRules(libraryTable(key), libraryChain(key, "input"))
			if err != nil || len(rules) != 1 {
				return false
			}
		}
		return true
	}
}
