package statedb_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/statehive/statehive/statedb"
)

// byNetwork is made of what rows have, so that it needs no field of its own.
var byNetwork = statedb.NewPrefixIndex("network", networkOf)

func networkOf(i item) netip.Prefix {
	if i.Group == "\xff" {
		return netip.Prefix{}
	}
	addr := netip.AddrFrom4([4]byte{10, byte(i.Number), byte(len(i.Tags)), 0})
	return netip.PrefixFrom(addr, 8*(1+len(i.Group)%4)).Masked()
}

// checkNetworks compares searches by containment with what the model has.
func (m model) checkNetworks(table *statedb.Table[item], txn statedb.ReadTxn) error {
	for _, text := range []string{"10.0.0.0/8", "10.1.0.0/16", "10.255.3.0/24", "10.1.1.0/32", "0.0.0.0/0", "10.0.0.0/12"} {
		asked := netip.MustParsePrefix(text)
		var outer, inner []string
		for _, row := range matching(modelByID.entries(m), func(string) bool { return true }) {
			p := networkOf(row.Item)
			if p.IsValid() && p.Bits() <= asked.Bits() && p.Contains(asked.Addr()) {
				outer = append(outer, fmt.Sprintf("%02d %q", p.Bits(), row.Item.ID))
			}
			if p.IsValid() && p.Bits() >= asked.Bits() && asked.Contains(p.Addr()) {
				inner = append(inner, fmt.Sprintf("%02d %q", p.Bits(), row.Item.ID))
			}
		}
		slices.SortStableFunc(outer, func(a, b string) int { return strings.Compare(a[:2], b[:2]) })
		if got := networksOfRows(byNetwork.Containing(txn, table, asked)); !slices.Equal(got, outer) {
			return fmt.Errorf("networks containing %v are %v, expected %v", asked, got, outer)
		}
		got := networksOfRows(byNetwork.Within(txn, table, asked))
		if slices.Sort(got); !slices.Equal(got, slices.Sorted(slices.Values(inner))) {
			return fmt.Errorf("networks within %v are %v, expected %v", asked, got, inner)
		}
	}
	return nil
}

func networksOfRows(rows rows) (found []string) {
	for i := range rows {
		found = append(found, fmt.Sprintf("%02d %q", networkOf(i).Bits(), i.ID))
	}
	return found
}
