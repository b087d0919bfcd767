package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
)

// dumpedTable is everything that the kernel reports about a table.
type dumpedTable struct {
	Table  *nftables.Table
	Chains []dumpedChain
	Sets   []dumpedSet
}

type dumpedChain struct {
	Chain *nftables.Chain
	Rules []dumpedRule
}

type dumpedRule struct {
	Handle      uint64
	Expressions []string
	UserData    []byte
}

type dumpedSet struct {
	Set      *nftables.Set
	Elements []nftables.SetElement
}

// dump prints all tables in JSON.
func dump(conn *nftables.Conn) error {
	tables, err := conn.ListTables()
	if err != nil {
		return err
	}
	chains, err := conn.ListChains()
	if err != nil {
		return err
	}
	all := make([]dumpedTable, len(tables))
	for i, table := range tables {
		if all[i], err = dumpTable(conn, table, chains); err != nil {
			return fmt.Errorf("table %s: %w", table.Name, err)
		}
	}
	return json.NewEncoder(os.Stdout).Encode(all)
}

func dumpTable(conn *nftables.Conn, table *nftables.Table, chains []*nftables.Chain) (d dumpedTable, err error) {
	d.Table = table
	for _, chain := range chains {
		if chain.Table.Name != table.Name || chain.Table.Family != table.Family {
			continue
		}
		rules, err := conn.GetRules(table, chain)
		if err != nil {
			return d, err
		}
		d.Chains = append(d.Chains, dumpedChain{chain, dumpRules(rules)})
	}
	sets, err := conn.GetSets(table)
	if err != nil {
		return d, err
	}
	for _, set := range sets {
		elements, err := conn.GetSetElements(set)
		if err != nil {
			return d, err
		}
		slices.SortFunc(elements, func(a, b nftables.SetElement) int { return bytes.Compare(a.Key, b.Key) })
		d.Sets = append(d.Sets, dumpedSet{set, elements})
	}
	return d, nil
}

func dumpRules(rules []*nftables.Rule) (all []dumpedRule) {
	for _, rule := range rules {
		d := dumpedRule{Handle: rule.Handle, UserData: rule.UserData}
		for _, e := range rule.Exprs {
			d.Expressions = append(d.Expressions, describe(e))
		}
		all = append(all, d)
	}
	return all
}

func describe(e expr.Any) string { return fmt.Sprintf("%T %+v", e, e) }
