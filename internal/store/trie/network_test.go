package trie

import (
	"bytes"
	"maps"
	"net/netip"
	"slices"
	"testing"

	"github.com/gaissmai/bart"
	"pgregory.net/rapid"
)

func networkKey(p netip.Prefix) []byte {
	address := p.Masked().Addr().AsSlice()
	return append(append([]byte{byte(len(address))}, address...), byte(p.Bits()))
}

// anyNetwork draws networks of both families that often contain each other.
func anyNetwork() *rapid.Generator[netip.Prefix] {
	octets := rapid.SampledFrom([]byte{0, 1, 0x0a, 0x5f, 0x80, 0xff})
	return rapid.Custom(func(t *rapid.T) netip.Prefix {
		size := rapid.SampledFrom([]int{4, 4, 4, 16}).Draw(t, "size")
		address, _ := netip.AddrFromSlice(rapid.SliceOfN(octets, size, size).Draw(t, "address"))
		return netip.PrefixFrom(address, rapid.IntRange(0, 8*size).Draw(t, "length")).Masked()
	})
}

// A table of routes finds the same networks, in all versions of a tree. With suffixes there
// are keys with the same network, and keys that are none.
func TestLongestMatchAgreesWithBart(t *testing.T) {
	for name, suffixes := range map[string][]string{"bare": {""}, "with suffixes": {"", "\x00", "\x01\xff", "\xff"}} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) { checkLongestMatches(t, suffixes) })
		})
	}
}

func checkLongestMatches(t *rapid.T, suffixes []string) {
	h := newHistory(embeddedLeaf)
	var routes []*bart.Table[[]string] // of each version: the suffixes of a network, in order
	now := &bart.Table[[]string]{}
	for range rapid.IntRange(1, 3).Draw(t, "transactions") {
		h.begin()
		for range rapid.IntRange(0, 40).Draw(t, "writes") {
			network, suffix := anyNetwork().Draw(t, "network"), rapid.SampledFrom(suffixes).Draw(t, "suffix")
			known, _ := now.Get(network)
			if rapid.IntRange(0, 3).Draw(t, "remove if 0") == 0 {
				h.txn.Remove(append(networkKey(network), suffix...))
				known = slices.DeleteFunc(slices.Clone(known), func(s string) bool { return s == suffix })
			} else {
				key := append(networkKey(network), suffix...)
				h.txn.Insert(key, embeddedLeaf(key, 1))
				known = slices.Compact(slices.Sorted(slices.Values(append(slices.Clone(known), suffix))))
			}
			now.Delete(network)
			if len(known) > 0 {
				now.Insert(network, known)
			}
		}
		if invalid := append([]byte{0}, suffixes[len(suffixes)-1]...); rapid.Bool().Draw(t, "invalid") {
			h.txn.Insert(invalid, embeddedLeaf(invalid, 1))
		}
		h.commit(nil)
		routes = append(routes, now.Clone())
	}
	probes := rapid.SliceOfN(anyNetwork(), 1, 10).Draw(t, "probes")
	probes = slices.AppendSeq(probes, maps.Keys(maps.Collect(now.All())))
	for i, routes := range routes {
		for _, probe := range probes {
			var want []byte
			if longest, known, ok := routes.LookupPrefixLPM(probe); ok {
				want = append(networkKey(longest), known[0]...)
			}
			var got []byte
			if leaf := h.versions[1+i].tree.LongestMatch(networkKey(probe)); leaf != nil {
				got = Key(leaf)
			}
			if !bytes.Equal(got, want) {
				t.Fatalf("version %d: found %x for %v, expected %x", i, got, probe, want)
			}
		}
	}
}
