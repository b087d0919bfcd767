package address

import (
	"net"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/statehive/statehive/reconciler/target/internal/nstest"
	"github.com/statehive/statehive/reconciler/target/rtnl"
	"github.com/statehive/statehive/statedb"
)

// runMirror runs a mirror for a target until the end of the test.
func runMirror(t *testing.T, target *Target) (*statedb.DB, *statedb.RWTable[Seen]) {
	t.Helper()
	return nstest.Mirror(t, SeenSchema(), target.NewMirror)
}

func TestTheMirrorShowsAllAddresses(t *testing.T) {
	nstest.Veth(t, "e0", "e1")
	nstest.IP(t, "address", "add", "192.0.2.1/24", "dev", "e0")
	target := newTarget(t, t.TempDir())
	db, seen := runMirror(t, target)
	want := func(want ...Seen) {
		t.Helper()
		nstest.WaitForRows(t, db, statedb.ReadOnly(seen), func(s Seen) bool {
			return s.Device[0] == 'e' && !s.Address.Addr().IsLinkLocalUnicast()
		}, want...)
	}
	forever := func(s Seen) Seen {
		present, err := target.presentNow(t.Context(), unix.AF_UNSPEC)
		if err != nil {
			t.Fatal(err)
		}
		is, _ := present(SeenKey{s.Index, s.Address})
		s.created = is.created
		s.Scope, s.ValidLifetime, s.PreferredLifetime, s.connects = rtnl.GlobalScope, Forever, Forever, true
		return s
	}
	e0, err := net.InterfaceByName("e0")
	if err != nil {
		t.Fatal(err)
	}
	first := forever(Seen{Device: "e0", Index: e0.Index, Address: netip.MustParsePrefix("192.0.2.1/24")})
	want(first)
	nstest.IP(t, "address", "add", "2001:db8::1/64", "dev", "e0")
	second := forever(Seen{Device: "e0", Index: e0.Index, Address: netip.MustParsePrefix("2001:db8::1/64")})
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

// Not every kernel tells of each IPv6 address that goes with its link.
func TestIPv6AddressesOfALinkThatGoesDownAreInDoubt(t *testing.T) {
	nstest.Veth(t, "e0", "e1")
	nstest.IP(t, "address", "add", "2001:db8::1/64", "dev", "e0")
	nstest.IP(t, "address", "add", "192.0.2.1/24", "dev", "e0")
	target := newTarget(t, t.TempDir())
	link, err := target.conn.LinkByName(t.Context(), "e0")
	if err != nil {
		t.Fatal(err)
	}
	for family, want := range map[string]string{"4": "", "6": "a link with IPv6 addresses went down"} {
		db := statedb.New()
		table, err := statedb.NewTable(db, SeenSchema())
		if err != nil {
			t.Fatal(err)
		}
		k := &keeper{target: target, db: db, table: table}
		all, err := k.list(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		err = db.Update(t.Context(), func(txn *statedb.WriteTxn) error {
			for _, s := range all {
				if s.Address.Addr().Is6() == (family == "6") {
					if _, _, err := table.Insert(txn, s); err != nil {
						return err
					}
				}
			}
			link.Up = false
			doubt, err := k.apply(txn, event{kind: unix.RTM_NEWLINK, link: link})
			if doubt != want {
				t.Errorf("IPv%s: doubt %q, expected %q", family, doubt, want)
			}
			return err
		}, table)
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestAnAddressThatIsTentativeIsNotUsable(t *testing.T) {
	db := statedb.New()
	prefix := netip.MustParsePrefix("2001:db8::1/64")
	table, err := statedb.NewTable(db, SeenSchema())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		seen Seen
		is   string // what is said of the difference; empty: there is none
	}{
		{Seen{}, ""},
		{Seen{Tentative: true}, "2001:db8::1/64, tentative"},
		{Seen{Tentative: true, Optimistic: true}, ""},
	} {
		c.seen.Device, c.seen.Address = "e0", prefix
		err := db.Update(t.Context(), func(txn *statedb.WriteTxn) error {
			_, _, err := table.Insert(txn, c.seen)
			return err
		}, table)
		if err != nil {
			t.Fatal(err)
		}
		is := ""
		for _, change := range unusable(db.ReadTxn(), statedb.ReadOnly(table), row("e0", "2001:db8::1/64")) {
			is = change.Is
		}
		if is != c.is {
			t.Errorf("%+v is %q, expected %q", c.seen, is, c.is)
		}
	}
}

func TestAnAddressIsComparedWithWhatWasSeen(t *testing.T) {
	target := newTarget(t, t.TempDir())
	db := statedb.New()
	table, err := statedb.NewTable(db, SeenSchema())
	if err != nil {
		t.Fatal(err)
	}
	limited := Seen{Device: "e0", Scope: rtnl.LinkScope, ValidLifetime: LifetimeOf(3600), PreferredLifetime: LifetimeOf(0)}
	err = db.Update(t.Context(), func(txn *statedb.WriteTxn) error {
		for _, s := range []struct {
			address string
			seen    Seen
		}{
			{"192.0.2.1/24", Seen{Device: "e0", OtherNames: "lan wan", Scope: rtnl.GlobalScope, ValidLifetime: Forever, PreferredLifetime: Forever}},
			{"2001:db8::1/64", Seen{Device: "e0", Duplicate: true}},
			{"192.0.2.2/24", limited},
		} {
			s.seen.Address = netip.MustParsePrefix(s.address)
			if _, _, err := table.Insert(txn, s.seen); err != nil {
				return err
			}
		}
		limited.Device, limited.Index, limited.Address, limited.Ours = "e1", 1, netip.MustParsePrefix("192.0.2.2/24"), true
		_, _, err := table.Insert(txn, limited)
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
		{row("e0", "192.0.2.2/24"), "-"}, // others' may be as they like
		{Address{Device: "e0", Address: limited.Address, Scope: rtnl.HostScope}, "link"},
		{Address{Device: "e0", Address: limited.Address, ValidLifetime: LifetimeOf(3600)}, "0s"},
		{Address{Device: "e0", Address: limited.Address, ValidLifetime: LifetimeOf(3600), PreferredLifetime: LifetimeOf(0)}, "-"},
		{row("e1", "192.0.2.2/24"), "0s"}, // ours is as the row says: the last difference is told here
		{Address{Device: "e1", Address: limited.Address, Scope: rtnl.LinkScope, ValidLifetime: LifetimeOf(3598), PreferredLifetime: LifetimeOf(0)}, "-"},
		{Address{Device: "e1", Address: limited.Address, Scope: rtnl.LinkScope, ValidLifetime: LifetimeOf(3597), PreferredLifetime: LifetimeOf(0)}, "1h0m0s"},
		{row("e9", "192.0.2.2/24"), ""},
	} {
		is := "-"
		for _, change := range target.differences(db.ReadTxn(), statedb.ReadOnly(table), c.row) {
			is = change.Is
		}
		if is != c.is {
			t.Errorf("%s is %q, expected %q", c.row.Key(), is, c.is)
		}
	}
}
