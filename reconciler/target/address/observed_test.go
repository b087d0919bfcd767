package address

import (
	"net"
	"net/netip"
	"testing"

	"github.com/statehive/statehive/reconciler/target/internal/nstest"
	"github.com/statehive/statehive/statedb"
)

// runMirror runs a mirror for a target until the end of the test.
func runMirror(t *testing.T, target *Target) (*statedb.DB, *statedb.RWTable[Seen]) {
	t.Helper()
	db := statedb.New()
	seen, err := statedb.NewTable(db, SeenSchema())
	if err != nil {
		t.Fatal(err)
	}
	m, err := target.NewMirror(db, seen)
	if err != nil {
		t.Fatal(err)
	}
	nstest.Mirror(t, m.Run)
	return db, seen
}

func TestTheMirrorShowsAllAddresses(t *testing.T) {
	nstest.Veth(t, "e0", "e1")
	nstest.IP(t, "address", "add", "192.0.2.1/24", "dev", "e0")
	db, seen := runMirror(t, newTarget(t, t.TempDir()))
	want := func(want ...Seen) {
		t.Helper()
		nstest.WaitForRows(t, db, statedb.ReadOnly(seen), func(s Seen) bool {
			return s.Device[0] == 'e' && !s.Address.Addr().IsLinkLocalUnicast()
		}, want...)
	}
	e0, err := net.InterfaceByName("e0")
	if err != nil {
		t.Fatal(err)
	}
	first := Seen{Device: "e0", Index: e0.Index, Address: netip.MustParsePrefix("192.0.2.1/24")}
	want(first)
	nstest.IP(t, "address", "add", "2001:db8::1/64", "dev", "e0")
	second := Seen{Device: "e0", Index: e0.Index, Address: netip.MustParsePrefix("2001:db8::1/64")}
	want(first, second)
	nstest.IP(t, "address", "del", "192.0.2.1/24", "dev", "e0")
	want(second)
	nstest.IP(t, "link", "set", "e0", "name", "e2")
	second.Device = "e2"
	want(second)
	nstest.IP(t, "link", "property", "add", "dev", "e2", "altname", "lan")
	second.OtherNames = "lan"
	want(second)
	nstest.IP(t, "link", "del", "e2")
	want()
}

func TestAnAddressIsComparedWithWhatWasSeen(t *testing.T) {
	db := statedb.New()
	table, err := statedb.NewTable(db, SeenSchema())
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(t.Context(), func(txn *statedb.WriteTxn) error {
		_, _, err := table.Insert(txn, Seen{Device: "e0", OtherNames: "lan wan", Address: netip.MustParsePrefix("192.0.2.1/24")})
		if err == nil {
			_, _, err = table.Insert(txn, Seen{Device: "e0", Address: netip.MustParsePrefix("2001:db8::1/64"), Duplicate: true})
		}
		return err
	}, table)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		row Address
		is  string // what is said of the difference; "-": there is none
	}{
		{row("e0", "192.0.2.1/24"), "-"},
		{row("wan", "192.0.2.1/24"), "-"},
		{row("e1", "192.0.2.1/24"), ""},
		{row("e0", "192.0.2.1/25"), ""},
		{row("e0", "2001:db8::1/64"), "2001:db8::1/64, a duplicate"},
	} {
		is := "-"
		for _, change := range differences(db.ReadTxn(), statedb.ReadOnly(table), c.row) {
			is = change.Is
		}
		if is != c.is {
			t.Errorf("%s is %q, expected %q", c.row.Key(), is, c.is)
		}
	}
}
