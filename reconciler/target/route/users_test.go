package route

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/statehive/statehive/statedb"
	"github.com/statehive/statehive/statedb/immutable"
)

// TestUsersOfDevicesAndSourcesAreThoseOfTheNewestSnapshot compares the index with a scan of the table, after each change.
func TestUsersOfDevicesAndSourcesAreThoseOfTheNewestSnapshot(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	one := func(from ...string) string { return from[random.IntN(len(from))] }
	gateway := func() netip.Addr { return ip(one("10.0.0.1", "10.0.0.2", "10.0.1.1")) }

	db := statedb.New()
	table, err := statedb.NewTable(db, SeenSchema())
	if err != nil {
		t.Fatal(err)
	}
	u := &users{Dependencies: Dependencies{DB: db, KernelRoutes: statedb.ReadOnly(table)}}
	for step := range 5000 {
		err := db.Update(t.Context(), func(txn *statedb.WriteTxn) error {
			key := Key{Table: MainTable, Destination: netip.MustParsePrefix(fmt.Sprintf("10.1.%d.0/24", random.IntN(20)))}
			if random.IntN(4) == 0 {
				_, _, err := table.Delete(txn, Seen{Key: key})
				return err
			}
			s := Seen{Key: key, Device: one("", "a", "b"), OtherNames: one("", "c", "c d"), Gateway: gateway(), MTU: random.Uint32N(1000)}
			if random.IntN(3) == 0 {
				s.Source = ip(one("10.0.0.5", "10.0.0.6"))
			}
			if random.IntN(3) == 0 {
				s.Nexthops = immutable.ListOf(SeenNexthop{Gateway: gateway(), Device: "a"}, SeenNexthop{Gateway: gateway(), Device: "b"})
			}
			_, _, err := table.Insert(txn, s)
			return err
		}, table)
		if err != nil {
			t.Fatal(err)
		}
		if random.IntN(100) == 0 {
			continue // the next look finds two changes or more
		}
		network := netip.MustParsePrefix("10.0.0.0/24")
		for _, device := range []string{"", "a", "b", "c", "d"} {
			var want []Key
			for s := range table.All(db.ReadTxn()) {
				if slices.ContainsFunc(s.seenNexthops(), func(h SeenNexthop) bool {
					names := append([]string{h.Device}, strings.Fields(h.OtherNames)...)
					return device != "" && slices.Contains(names, device) && network.Contains(h.Gateway)
				}) {
					want = append(want, s.Key)
				}
			}
			wantKeys(t, fmt.Sprintf("step %d: through %q", step, device), slices.Collect(u.through(network.Contains, device)), want)
		}
		for _, source := range []string{"10.0.0.5", "10.0.0.6", "10.0.0.7"} {
			var want []Key
			for s := range table.All(db.ReadTxn()) {
				if s.Source == ip(source) {
					want = append(want, s.Key)
				}
			}
			wantKeys(t, fmt.Sprintf("step %d: with source %s", step, source), u.with(ip(source)), want)
		}
		if limit := minEntries + 2*100 + 20; u.entries > limit { // a route has up to five
			t.Fatalf("step %d: the index has %d entries, want at most %d", step, u.entries, limit)
		}
	}
}

func wantKeys(t *testing.T, what string, got, want []Key) {
	t.Helper()
	byText := func(a, b Key) int { return strings.Compare(a.String(), b.String()) }
	slices.SortFunc(got, byText)
	slices.SortFunc(want, byText)
	if got := slices.Compact(got); !slices.Equal(got, want) {
		t.Fatalf("%s: got %v, want %v", what, got, want)
	}
}
