package route

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/target/address"
	"github.com/statehive/statehive/reconciler/target/link"
	"github.com/statehive/statehive/reconciler/target/rtnl"
	"github.com/statehive/statehive/statedb"
)

func tableOf[Obj any](t *testing.T, db *statedb.DB, schema statedb.Schema[Obj], rows ...Obj) *statedb.Table[Obj] {
	t.Helper()
	table, err := statedb.NewTable(db, schema)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(t.Context(), func(txn *statedb.WriteTxn) error {
		for _, row := range rows {
			if _, _, err := table.Insert(txn, row); err != nil {
				return err
			}
		}
		return nil
	}, table)
	if err != nil {
		t.Fatal(err)
	}
	return statedb.ReadOnly(table)
}

// devicesOf returns the devices of a table. There is a link named a, other and another.
func devicesOf(t *testing.T, db *statedb.DB, links *statedb.Table[link.Link]) link.Devices {
	seen := tableOf(t, db, link.SeenSchema(), link.Seen{Index: 1, Name: "a", OtherNames: "other another"})
	return link.NewDevices(db, links, seen, reconciler.Observation[link.Link]{})
}

func TestARouteNeedsTheAddressesThatLeadToItsGatewayAndItsSource(t *testing.T) {
	db := statedb.New()
	on := func(device, prefix string) address.Address {
		return address.Address{Device: device, Address: netip.MustParsePrefix(prefix)}
	}
	addresses := tableOf(t, db, address.Schema(),
		on("a", "10.0.0.2/24"), on("a", "10.0.0.3/16"), on("b", "10.0.0.4/24"), on("a", "10.0.1.2/24"),
		on("a", "10.9.0.1/32"), on("a", "2001:db8::2/64"), on("b", "2001:db8::3/127"), on("b", "2001:db8:0:1::2/64"))
	d := Dependencies{Devices: devicesOf(t, db, tableOf[link.Link](t, db, link.Schema()))}
	for _, c := range []struct {
		row  Route
		want []string
	}{
		{Route{Device: "a"}, nil},
		{Route{Gateway: ip("10.0.0.1")}, []string{"a 10.0.0.2/24", "a 10.0.0.3/16", "b 10.0.0.4/24"}},
		{Route{Gateway: ip("10.0.0.1"), Device: "b"}, []string{"b 10.0.0.4/24"}},
		{Route{Gateway: ip("10.0.0.1"), Device: "other"}, []string{"a 10.0.0.2/24", "a 10.0.0.3/16"}},
		{Route{Gateway: ip("10.0.0.1"), Device: "c"}, nil},
		{Route{Device: "b", Source: ip("10.0.1.2")}, []string{"a 10.0.1.2/24"}},
		{Route{Gateway: ip("10.9.0.1")}, []string{"a 10.9.0.1/32"}},
		{Route{Gateway: ip("2001:db8::1"), Source: ip("2001:db8:0:1::2")}, []string{"a 2001:db8::2/64", "b 2001:db8:0:1::2/64"}},
		{Route{Gateway: ip("2001:db8::2")}, []string{"a 2001:db8::2/64", "b 2001:db8::3/127"}},
		{Route{Gateway: ip("192.0.2.1")}, nil},
		{Route{Nexthops: hops("10.0.0.1 b", "10.9.0.1")}, []string{"b 10.0.0.4/24", "a 10.9.0.1/32"}},
	} {
		found := map[string]bool{}
		for query := range d.addresses(c.row.needs()) {
			for row := range addresses.List(db.ReadTxn(), query) {
				found[row.Key().String()] = true
			}
		}
		if of := source(c.row); of != nil {
			for query := range of {
				for row := range addresses.List(db.ReadTxn(), query) {
					found[row.Key().String()] = true
				}
			}
		}
		want := map[string]bool{}
		for _, key := range c.want {
			want[key] = true
		}
		if diff := cmp.Diff(want, found); diff != "" {
			t.Errorf("via %s dev %s src %s (-want +got):\n%s", c.row.Gateway, c.row.Device, c.row.Source, diff)
		}
	}
}

func TestARouteNeedsTheRoutesThatLeadToItsGateway(t *testing.T) {
	db := statedb.New()
	const aside = 100
	normalized := func(row Route) Route {
		row, err := row.Normalized()
		if err != nil {
			t.Fatal(err)
		}
		return row
	}
	routes := tableOf(
		t, db, Schema(),
		normalized(Route{Destination: to("10.0.0.0/24"), Device: "a"}),
		normalized(Route{Destination: to("10.0.0.0/16"), Device: "b"}),
		normalized(Route{Destination: to("10.0.0.0/24"), Device: "a", Table: aside}),
		normalized(Route{Destination: to("10.0.0.0/24"), Device: "a", Table: 7}),
		normalized(Route{Destination: to("10.0.0.0/28"), Gateway: ip("10.9.0.1")}),
		normalized(Route{Destination: to("10.0.0.0/27"), Type: Blackhole}),
		normalized(Route{Destination: to("10.0.0.0/26"), Nexthops: hops("- a", "- c"), Scope: rtnl.LinkScope}),
		normalized(Route{Destination: to("10.0.0.0/29"), Device: "a", Scope: rtnl.GlobalScope}), // these lead to no gateway
		normalized(Route{Destination: to("10.0.0.0/30"), Nexthops: hops("- a", "- c")}),
		normalized(Route{Destination: to("10.0.0.0/25"), Nexthops: hops("10.9.0.1 a", "10.9.0.2 c")}),
		normalized(Route{Destination: destination(t, "default"), Family: Inet6, Device: "d"}),
		normalized(Route{Destination: to("2001:db8::/64"), Device: "a"}),
	)
	for _, c := range []struct {
		row  Route
		want []string
	}{
		{Route{Gateway: ip("10.0.0.1")}, []string{"10.0.0.0/16", "10.0.0.0/24", "10.0.0.0/26"}},
		{Route{Gateway: ip("10.0.0.1"), Table: aside}, []string{"10.0.0.0/16", "10.0.0.0/24", "10.0.0.0/24 table 100", "10.0.0.0/26"}},
		{Route{Gateway: ip("10.0.0.1"), Device: "b"}, []string{"10.0.0.0/16"}},
		{Route{Gateway: ip("10.0.0.1"), Device: "c"}, []string{"10.0.0.0/26"}},
		{Route{Nexthops: hops("10.0.1.1", "10.0.0.1 a")}, []string{"10.0.0.0/16", "10.0.0.0/24", "10.0.0.0/26"}},
		{Route{Gateway: ip("2001:db8::1")}, []string{"2001:db8::/64", "default inet6"}},
		{Route{Device: "a"}, nil},
		{Route{Type: Blackhole}, nil},
	} {
		found := map[string]bool{}
		for query := range c.row.needs().routes() {
			for row := range routes.List(db.ReadTxn(), query) {
				found[row.Key().String()] = true
			}
		}
		want := map[string]bool{}
		for _, key := range c.want {
			want[key] = true
		}
		if diff := cmp.Diff(want, found); diff != "" {
			t.Errorf("%s (-want +got):\n%s", describe(c.row), diff)
		}
	}
}

func ip(text string) netip.Addr { return netip.MustParseAddr(text) }

func TestADeviceIsBroughtAboutByItsLinkAndByTheVethWhoseOtherEndItIs(t *testing.T) {
	db := statedb.New()
	links := tableOf(t, db, link.Schema(), link.Link{Name: "v0", Type: link.Veth, Peer: "v1"}, link.Link{Name: "v1"}, link.Link{Name: "br0"}, link.Link{Name: "other"})
	devices := devicesOf(t, db, links)
	for device, want := range map[string][]string{
		"v0": {"v0"}, "v1": {"v0", "v1"}, "br0": {"br0"}, "lo": nil, "": nil, "a": {"other"}, "another": {"other"},
	} {
		var found []string
		for q := range devices.Rows(device) {
			for row := range links.List(db.ReadTxn(), q) {
				found = append(found, row.Name)
			}
		}
		if diff := cmp.Diff(want, found); diff != "" {
			t.Errorf("%s (-want +got):\n%s", device, diff)
		}
	}
}
