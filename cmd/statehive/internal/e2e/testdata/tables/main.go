// Command tables changes nftables tables as an operator beside the agent would, where
// the command nft is not installed.
package main

import (
	"errors"
	"fmt"
	"net/netip"
	"os"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
)

const usage = `usage: tables list | dump | make|remove inet TABLE | unrule inet TABLE CHAIN | policy inet TABLE CHAIN | element|unelement inet TABLE SET ADDRESS`

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "tables:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	conn, err := nftables.New()
	if err != nil {
		return err
	}
	if len(args) == 1 && args[0] == "list" {
		return list(conn)
	}
	if len(args) == 1 && args[0] == "dump" {
		return dump(conn)
	}
	if len(args) < 3 || args[1] != "inet" {
		return errors.New(usage)
	}
	table := &nftables.Table{Name: args[2], Family: nftables.TableFamilyINet}
	if err := change(conn, table, args[0], args[3:]); err != nil {
		return err
	}
	return conn.Flush()
}

func change(conn *nftables.Conn, table *nftables.Table, what string, args []string) error {
	switch {
	case what == "make" && len(args) == 0:
		return makeTable(conn, table)
	case what == "remove" && len(args) == 0:
		conn.DelTable(table)
	case what == "unrule" && len(args) == 1:
		rules, err := conn.GetRules(table, &nftables.Chain{Name: args[0]})
		if err != nil || len(rules) == 0 {
			return fmt.Errorf("%d rules, %w", len(rules), err)
		}
		rules[0].Chain = &nftables.Chain{Name: args[0]}
		return conn.DelRule(rules[0])
	case what == "policy" && len(args) == 1:
		policy := nftables.ChainPolicyDrop
		conn.AddChain(&nftables.Chain{Name: args[0], Table: table, Policy: &policy})
	case (what == "element" || what == "unelement") && len(args) == 2:
		set, err := conn.GetSetByName(table, args[0])
		if err != nil {
			return err
		}
		addr, err := netip.ParseAddr(args[1])
		if err != nil {
			return err
		}
		elements := []nftables.SetElement{{Key: addr.AsSlice()}}
		if what == "element" {
			return conn.SetAddElements(set, elements)
		}
		return conn.SetDeleteElements(set, elements)
	default:
		return errors.New(usage)
	}
	return nil
}

// makeTable makes a table with a chain, a rule and a set.
func makeTable(conn *nftables.Conn, table *nftables.Table) error {
	conn.AddTable(table)
	chain := conn.AddChain(&nftables.Chain{Name: "theirs", Table: table})
	conn.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: []expr.Any{&expr.Verdict{Kind: expr.VerdictReturn}}, UserData: []byte("their rule")})
	hosts := &nftables.Set{Table: table, Name: "hosts", KeyType: nftables.TypeIPAddr}
	return conn.AddSet(hosts, []nftables.SetElement{{Key: []byte{192, 0, 2, 1}}, {Key: []byte{192, 0, 2, 7}}})
}

// list prints chains with their policies, numbers of rules and of packets that were counted.
func list(conn *nftables.Conn) error {
	chains, err := conn.ListChains()
	if err != nil {
		return err
	}
	printed := map[string]bool{}
	for _, chain := range chains {
		rules, err := conn.GetRules(chain.Table, chain)
		if err != nil {
			return err
		}
		packets := uint64(0)
		for _, rule := range rules {
			for _, e := range rule.Exprs {
				if counter, ok := e.(*expr.Counter); ok {
					packets += counter.Packets
				}
			}
		}
		policy := "none"
		if chain.Policy != nil {
			policy = map[nftables.ChainPolicy]string{nftables.ChainPolicyAccept: "accept", nftables.ChainPolicyDrop: "drop"}[*chain.Policy]
		}
		fmt.Printf("%s %s policy %s rules %d packets %d\n", chain.Table.Name, chain.Name, policy, len(rules), packets)
		if printed[chain.Table.Name] {
			continue
		}
		printed[chain.Table.Name] = true
		sets, err := conn.GetSets(chain.Table)
		if err != nil {
			return err
		}
		for _, set := range sets {
			elements, err := conn.GetSetElements(set)
			if err != nil {
				return err
			}
			fmt.Printf("%s set %s elements %d\n", chain.Table.Name, set.Name, len(elements))
		}
	}
	return nil
}
