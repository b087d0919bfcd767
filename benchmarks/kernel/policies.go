package main

import (
	"context"
	"fmt"
	"net/netip"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// lookedIn is the table that all rules look in.
const lookedIn = 100

// ruleAt is one of the rules, each of which is about a network.
type ruleAt struct {
	priority int
	from     netip.Prefix
}

func rules(n int) []ruleAt {
	all := make([]ruleAt, n)
	for i := range all {
		all[i] = ruleAt{1000 + i, netip.PrefixFrom(addr4(12<<24+uint32(i)<<8), 24)} // 12.0.0.0 and up
	}
	return all
}

func ruleDocuments(all []ruleAt) string {
	var b strings.Builder
	for _, r := range all {
		fmt.Fprintf(&b, "---\nkind: rule\npriority: %d\nfrom: %v\ntable: %d\n", r.priority, r.from, lookedIn)
	}
	return b.String()
}

func ruleBatch(all []ruleAt, verb string) string {
	var b strings.Builder
	for _, r := range all {
		fmt.Fprintf(&b, "rule %s priority %d from %v table %d protocol 79\n", verb, r.priority, r.from, lookedIn)
	}
	return b.String()
}

func rulesOfAgent(ctx context.Context, t *trial) error {
	all := rules(t.Objects)
	m := many{table: "rules", n: len(all), document: ruleDocuments(all), inKernel: countRules, in: rulesAdded, out: rulesRemoved}
	return t.withAgent(ctx, "", m, func(*agent) error { return nil })
}

func rulesByIP(ctx context.Context, t *trial) error {
	all := rules(t.Objects)
	return t.batches(ctx, "", ruleBatch(all, "add"), ruleBatch(all, "del"), rulesAdded, rulesRemoved)
}

// countRules counts those of [rules]: no others look in their table.
func countRules() (n int, err error) {
	all, err := netlink.RuleList(netlink.FAMILY_V4)
	for _, r := range all {
		if r.Table == lookedIn {
			n++
		}
	}
	return n, err
}

// neighborAt is one of the neighbors, all of which are on the cable.
type neighborAt struct {
	address netip.Addr
	mac     string
}

// neighbors are half of each family.
func neighbors(n int) []neighborAt {
	all := make([]neighborAt, n)
	for i, a := range addresses(n, 1) {
		all[i] = neighborAt{a.address.Addr(), fmt.Sprintf("02:00:00:%02x:%02x:%02x", i>>16, i>>8&255, i&255)}
	}
	return all
}

func neighborDocuments(all []neighborAt) string {
	var b strings.Builder
	for _, n := range all {
		fmt.Fprintf(&b, "---\nkind: neighbor\ndevice: %s\naddress: \"%v\"\nmac: %q\n", cableName, n.address, n.mac)
	}
	return b.String()
}

func neighborBatch(all []neighborAt, verb string) string {
	var b strings.Builder
	for _, n := range all {
		fmt.Fprintf(&b, "neigh %s %v lladdr %s dev %s nud permanent protocol 79\n", verb, n.address, n.mac, cableName)
	}
	return b.String()
}

func neighborsOfAgent(ctx context.Context, t *trial) error {
	all := neighbors(t.Objects)
	m := many{
		table: "neighbors", n: len(all), document: neighborDocuments(all), rows: map[string]int{"links": 2, "addresses": 1},
		inKernel: countNeighbors, in: neighborsAdded, out: neighborsRemoved,
	}
	return t.withAgent(ctx, cableDocument, m, func(*agent) error { return nil })
}

func neighborsByIP(ctx context.Context, t *trial) error {
	all := neighbors(t.Objects)
	return t.batches(ctx, cableBatch, neighborBatch(all, "add"), neighborBatch(all, "del"), neighborsAdded, neighborsRemoved)
}

// countNeighbors counts those that were made for good: the kernel makes none.
func countNeighbors() (n int, err error) {
	all, err := netlink.NeighList(0, unix.AF_UNSPEC)
	for _, neighbor := range all {
		if neighbor.State&netlink.NUD_PERMANENT != 0 {
			n++
		}
	}
	return n, err
}
