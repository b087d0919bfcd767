package statedb_test

import (
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/gaissmai/bart"

	"github.com/statehive/statehive/statedb"
)

// benchNetworks are different IPv4 prefixes with the lengths of a routing table:
// most of them /24, few shorter than /16.
func benchNetworks(n int) []network {
	random := rand.New(rand.NewPCG(1, 2))
	seen := map[netip.Prefix]bool{}
	rows := make([]network, 0, n)
	for len(rows) < n {
		length := 24
		if random.IntN(2) == 0 {
			length = 8 + random.IntN(17)
		}
		bits := random.Uint32()
		addr := netip.AddrFrom4([4]byte{byte(bits >> 24), byte(bits >> 16), byte(bits >> 8), byte(bits)})
		prefix := netip.PrefixFrom(addr, length).Masked()
		if !seen[prefix] {
			seen[prefix] = true
			rows = append(rows, network{prefix.String(), prefix})
		}
	}
	return rows
}

func benchAddrs() []netip.Addr {
	random := rand.New(rand.NewPCG(3, 4))
	addrs := make([]netip.Addr, 1<<10)
	for i := range addrs {
		bits := random.Uint32()
		addrs[i] = netip.AddrFrom4([4]byte{byte(bits >> 24), byte(bits >> 16), byte(bits >> 8), byte(bits)})
	}
	return addrs
}

func (n *networks) fill(b *testing.B, table *statedb.RWTable[network], rows []network) {
	b.Helper()
	err := n.db.Update(b.Context(), func(txn *statedb.WriteTxn) error {
		for _, row := range rows {
			if _, _, err := table.Insert(txn, row); err != nil {
				return err
			}
		}
		return nil
	}, table)
	if err != nil {
		b.Fatal(err)
	}
}

// BenchmarkPrefixInsert fills an empty table with 10,000 prefixes, 100 in each
// transaction; bart has no transactions: it makes a version of each insert, or
// changes the table in place.
func BenchmarkPrefixInsert(b *testing.B) {
	const batch = 100
	rows := benchNetworks(benchRows)
	table := func(of func(*networks) *statedb.RWTable[network]) func(*testing.B) {
		return func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				n := newNetworks(b)
				for i := 0; i < len(rows); i += batch {
					n.fill(b, of(n), rows[i:i+batch])
				}
			}
			perRow(b, len(rows))
		}
	}
	b.Run("primary", table(func(n *networks) *statedb.RWTable[network] { return n.primary }))
	b.Run("secondary", table(func(n *networks) *statedb.RWTable[network] { return n.secondary }))
	b.Run("bart-persistent", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			t := &bart.Table[network]{}
			for _, row := range rows {
				t = t.InsertPersist(row.Prefix, row)
			}
		}
		perRow(b, len(rows))
	})
	b.Run("bart-in-place", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			t := &bart.Table[network]{}
			for _, row := range rows {
				t.Insert(row.Prefix, row)
			}
		}
		perRow(b, len(rows))
	})
}

// BenchmarkPrefixLookup looks random addresses up in 10,000 prefixes.
func BenchmarkPrefixLookup(b *testing.B) {
	rows, addrs := benchNetworks(benchRows), benchAddrs()
	n := newNetworks(b)
	n.fill(b, n.primary, rows)
	n.fill(b, n.secondary, rows)
	txn := n.db.ReadTxn()
	for _, table := range []*statedb.Table[network]{statedb.ReadOnly(n.primary), statedb.ReadOnly(n.secondary)} {
		b.Run(table.Name(), func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				byPrefix.Lookup(txn, table, addrs[i%len(addrs)])
			}
		})
	}
	t := &bart.Table[network]{}
	for _, row := range rows {
		t.Insert(row.Prefix, row)
	}
	b.Run("bart", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			t.Lookup(addrs[i%len(addrs)])
		}
	})
}

// BenchmarkPrefixGet finds each of 10,000 prefixes by itself.
func BenchmarkPrefixGet(b *testing.B) {
	rows := benchNetworks(benchRows)
	n := newNetworks(b)
	n.fill(b, n.primary, rows)
	txn := n.db.ReadTxn()
	b.Run("primary", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			if _, _, ok := n.primary.Get(txn, byPrefix.Query(rows[i*31%len(rows)].Prefix)); !ok {
				b.Fatal("not found")
			}
		}
	})
	t := &bart.Table[network]{}
	for _, row := range rows {
		t.Insert(row.Prefix, row)
	}
	b.Run("bart", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			if _, ok := t.Get(rows[i*31%len(rows)].Prefix); !ok {
				b.Fatal("not found")
			}
		}
	})
}
