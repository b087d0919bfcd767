package route

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/target/address"
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

// At a start, the delete of a link or an address may be looked at before the kernel's routes have been listed.
func TestLinksAndAddressesStayUntilItIsKnownWhichRoutesExist(t *testing.T) {
	db := statedb.New()
	routes, err := statedb.NewTable(db, Schema())
	kernelRoutes, errKernel := statedb.NewTable(db, SeenSchema())
	addresses, errAddresses := statedb.NewTable(db, address.Schema())
	if err := errors.Join(err, errKernel, errAddresses); err != nil {
		t.Fatal(err)
	}
	d := Dependencies{DB: db, Routes: statedb.ReadOnly(routes), KernelRoutes: statedb.ReadOnly(kernelRoutes), Addresses: statedb.ReadOnly(addresses)}
	var source *statedb.Source
	change := func(fn func(txn *statedb.WriteTxn) error) {
		t.Helper()
		if err := db.Update(t.Context(), fn, routes, kernelRoutes, addresses); err != nil {
			t.Fatal(err)
		}
	}
	change(func(txn *statedb.WriteTxn) (err error) {
		if source, err = kernelRoutes.RegisterSource(txn, "kernel"); err != nil {
			return err
		}
		_, _, err = routes.Insert(txn, Route{Destination: To(netip.MustParsePrefix("10.1.0.0/16")), Device: "e1"})
		return err
	})
	networks, sources := (&users{Dependencies: d}).keepNetworks(), (&users{Dependencies: d}).keepSources()
	waitsFor := func(of reconciler.Dependency[address.Address], prefix string) bool {
		row := address.Address{Device: "e0", Address: netip.MustParsePrefix(prefix)}
		return len(slices.Collect(of.Rows(db.ReadTxn(), routes, row))) > 0
	}
	waits := func() bool { return waitsFor(networks, "192.0.2.1/24") }
	if !waits() || !waitsFor(sources, "192.0.2.1/24") {
		t.Error("an address goes before it is known which routes exist")
	}
	if waitsFor(networks, "2001:db8::1/64") {
		t.Error("an IPv6 address stays because of its network")
	}
	change(func(txn *statedb.WriteTxn) error {
		_, _, err := addresses.Insert(txn, address.Address{Device: "e1", Address: netip.MustParsePrefix("2001:db8::1/48")})
		return err
	})
	if waitsFor(sources, "2001:db8::1/64") {
		t.Error("an IPv6 address that gets another prefix length stays because it may be a source")
	}
	change(func(txn *statedb.WriteTxn) error { return source.Initialized(txn) })
	if waits() {
		t.Error("an address stays although there are no routes")
	}
	change(func(txn *statedb.WriteTxn) error { return source.Incomplete(txn, "messages were lost") })
	if waits() {
		t.Error("an address stays while there may be other routes, as long as others change routes all the time")
	}
}
