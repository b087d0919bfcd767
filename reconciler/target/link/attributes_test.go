package link

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/target/internal/nstest"
	"github.com/statehive/statehive/statedb"
)

// attributes are a link as text, without what differs each time.
func attributes(t *testing.T, name string) string {
	t.Helper()
	link := mustLink(t, name)
	a := link.Attrs()
	return fmt.Sprintf("%s up=%t mtu=%d mac=%s master=%s alias=%s",
		kindOf(link), a.Flags&net.FlagUp != 0, a.MTU, a.HardwareAddr, master(t, name), a.Alias)
}

func wantLink(t *testing.T, name, want string) {
	t.Helper()
	if got := attributes(t, name); got != want {
		t.Errorf("link %s is\n%s, want\n%s", name, got, want)
	}
}

// eachWay runs a test with and without a mirror.
func eachWay(t *testing.T, test func(t *testing.T, open func(*testing.T, string) *Target)) {
	t.Helper()
	t.Run("without a mirror", func(t *testing.T) { test(t, newTarget) })
	t.Run("with a mirror", func(t *testing.T) { test(t, withMirror) })
}

const mac1, mac2 = "02:00:00:00:00:01", "02:00:00:00:00:02"

func TestEachFieldOfALinkOfOursIsChangedInPlaceAndRepaired(t *testing.T) {
	eachWay(t, func(t *testing.T, open func(*testing.T, string) *Target) {
		bridge(t, "br0")
		bridge(t, "br1")
		remove(t, "v0")
		dir := t.TempDir()
		target := open(t, dir)
		row := Link{Name: "v0", Type: Veth, Peer: "v1", Up: true, MTU: 1400, MAC: "02-00-00-00-00-01", Master: "br0"}
		mustUpdate(t, target, row, true)
		mustUpdate(t, target, row, false)
		wantLink(t, "v0", "veth up=true mtu=1400 mac="+mac1+" master=br0 alias=statehive")
		index := mustLink(t, "v0").Attrs().Index

		row.MAC, row.Master, row.MTU, row.Up = mac2, "br1", 1300, false
		wantDiff(
			t, target, row,
			reconciler.Change{Field: "master", Is: "br0", Want: "br1"},
			reconciler.Change{Field: "mac", Is: mac1, Want: mac2},
			reconciler.Change{Field: "mtu", Is: "1400", Want: "1300"},
			reconciler.Change{Field: "up", Is: "true", Want: "false"},
		)
		mustUpdate(t, target, row, true)
		is := "veth up=false mtu=1300 mac=" + mac2 + " master=br1 alias=statehive"
		wantLink(t, "v0", is)

		target = open(t, dir) // a restart
		if err := target.Init(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, drift := range [][]string{{"up"}, {"mtu", "1200"}, {"address", mac1}, {"nomaster"}, {"master", "br0"}} {
			nstest.IP(t, append([]string{"link", "set", "v0"}, drift...)...)
			mustUpdate(t, target, row, true)
			mustUpdate(t, target, row, false)
			wantLink(t, "v0", is)
		}

		first := target.rec(t, "v0").Created.MAC
		mustUpdate(t, target, Link{Name: "v0", Type: Veth, Peer: "v1"}, true)
		wantLink(t, "v0", "veth up=false mtu=1500 mac="+first+" master= alias=statehive")
		if got := mustLink(t, "v0").Attrs().Index; got != index {
			t.Errorf("v0 was made again: index %d, then %d", index, got)
		}
		nstest.IP(t, "link", "set", "v0", "address", mac1, "master", "br0")
		mustUpdate(t, target, Link{Name: "v0", Type: Veth, Peer: "v1"}, false) // it leaves them alone
		mustDelete(t, target, "v0")
		wantAbsent(t, "v0", "v1")
		wantNoRecords(t, dir)
	})
}

func (t *Target) rec(test *testing.T, name string) record {
	test.Helper()
	rec, known := t.records.Get(name)
	if !known {
		test.Fatalf("there is no record of %s", name)
	}
	return rec
}

func TestAnExistingLinkGetsBackItsAddressAndItsBridge(t *testing.T) {
	eachWay(t, func(t *testing.T, open func(*testing.T, string) *Target) {
		bridge(t, "br0")
		bridge(t, "br1")
		nstest.Veth(t, "v0", "v1")
		nstest.IP(t, "link", "set", "v0", "address", mac1, "master", "br0")
		was := attributes(t, "v0")
		dir := t.TempDir()
		mustUpdate(t, open(t, dir), Link{Name: "v0", Up: true, MAC: mac2, Master: "br1"}, true)
		wantLink(t, "v0", "veth up=true mtu=1500 mac="+mac2+" master=br1 alias=")
		target := open(t, dir)
		if err := target.Init(t.Context()); err != nil {
			t.Fatal(err)
		}
		mustUpdate(t, target, Link{Name: "v0", Up: true, MAC: mac2}, true)
		wantLink(t, "v0", "veth up=true mtu=1500 mac="+mac2+" master=br0 alias=")
		mustDelete(t, target, "v0")
		wantLink(t, "v0", was)
		wantNoRecords(t, dir)

		mustUpdate(t, target, Link{Name: "v0", Up: true, Master: "br1"}, true)
		nstest.IP(t, "link", "del", "br0")
		mustDelete(t, target, "v0") // what it was a port of is gone
		wantLink(t, "v0", "veth up=true mtu=1500 mac="+mac1+" master= alias=")
	})
}

func TestAPortWithoutItsBridgeIsAnErrorAndWaits(t *testing.T) {
	remove(t, "v0")
	remove(t, "br0")
	target := newTarget(t, t.TempDir())
	port := Link{Name: "v0", Type: Veth, Peer: "v1", Up: true, Master: "br0"}
	_, err := target.Update(t.Context(), txn(), port)
	if want := "link v0: its master br0 does not exist: no such device"; fmt.Sprint(err) != want || !errors.Is(err, syscall.ENODEV) {
		t.Errorf("error\n%v\nexpected\n%s", err, want)
	}
	wantDiff(t, target, port, reconciler.Change{Field: "master", Want: "br0"})

	// Both at once: the bridge is made before it gets its ports.
	for i, result := range target.UpdateBatch(t.Context(), txn(), []Link{port, {Name: "v1", Up: true, Master: "br0"}, {Name: "br0", Type: Bridge}}) {
		if result.Err != nil {
			t.Errorf("row %d: %v", i, result.Err)
		}
	}
	if a, b := master(t, "v0"), master(t, "v1"); a != "br0" || b != "br0" {
		t.Errorf("v0 is a port of %q, and v1 of %q", a, b)
	}
	for i, err := range target.DeleteBatch(t.Context(), txn(), []Link{{Name: "br0"}, {Name: "v1"}, {Name: "v0"}}) {
		if err != nil {
			t.Errorf("delete of row %d: %v", i, err)
		}
	}
	wantAbsent(t, "v0", "v1", "br0")

	_, err = target.Update(t.Context(), txn(), Link{Name: "lo", Up: true, Master: "lo1"})
	if !errors.Is(err, syscall.ENODEV) {
		t.Errorf("Update with a master that is not there: %v", err)
	}
}

// TestPortsWaitForTheirBridges looks at which rows of a table others need.
func TestPortsWaitForTheirBridges(t *testing.T) {
	db := statedb.New()
	table, err := statedb.NewTable(db, Schema())
	if err != nil {
		t.Fatal(err)
	}
	rows := []Link{
		{Name: "br0", Type: Bridge},
		{Name: "v0", Type: Veth, Peer: "v1", Master: "br0"},
		{Name: "v1", Master: "br1"},
		{Name: "eth0", Master: "br0"},
		{Name: "w0", Type: Veth, Peer: "w1"},
	}
	if err := db.Update(t.Context(), func(txn *statedb.WriteTxn) error {
		for _, row := range rows {
			if _, _, err := table.Insert(txn, row); err != nil {
				return err
			}
		}
		return nil
	}, table); err != nil {
		t.Fatal(err)
	}
	seen, err := statedb.NewTable(db, SeenSchema())
	if err != nil {
		t.Fatal(err)
	}
	needs := Needs(NewDevices(db, statedb.ReadOnly(table), statedb.ReadOnly(seen), reconciler.Observation[Link]{}))
	for i, want := range [][]string{nil, {"br0"}, {"v0"}, {"br0"}, nil} {
		var got []string
		for key := range needs.Rows(db.ReadTxn(), table, rows[i]) {
			got = append(got, key)
		}
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s needs (-want +got):\n%s", rows[i].Name, diff)
		}
	}
}

func TestTheMTUOfALinkOfOursGoesWithItsField(t *testing.T) {
	for _, kind := range []Link{{Name: "v0", Type: Bridge, Up: true}, {Name: "v0", Type: Veth, Peer: "v1", Up: true}, {Name: "v0", Type: Tun, Up: true}} {
		t.Run(kind.Type, func(t *testing.T) {
			target := newTarget(t, t.TempDir())
			mtu := func(mtu uint32, want string) {
				t.Helper()
				row := kind
				row.MTU = mtu
				mustUpdate(t, target, row, true)
				mustUpdate(t, target, row, false)
				if link := nstest.IP(t, "link", "show", "v0"); !strings.Contains(link, " mtu "+want+" ") {
					t.Errorf("expected the MTU %s: %s", want, link)
				}
			}
			mtu(1400, "1400") // made with it
			mtu(0, "1500")
			mtu(576, "576")
			mtu(577, "577")
			mtu(0, "1500")
			mustDelete(t, target, "v0")
		})
	}
}

func TestALinkStaysInItsBridgeIfItsNewMasterCannotHavePorts(t *testing.T) {
	eachWay(t, func(t *testing.T, open func(*testing.T, string) *Target) {
		bridge(t, "br0")
		nstest.Veth(t, "v0", "v1")
		nstest.Veth(t, "v2", "v3")
		target := open(t, t.TempDir())
		mustUpdate(t, target, Link{Name: "v0", Up: true, Master: "br0"}, true)
		slip := Link{Name: "v0", Up: true, Master: "v2"}
		const want = "link v0: v2 is not a bridge, and cannot be its master: operation not supported"
		_, err := target.Update(t.Context(), txn(), slip)
		if err == nil || err.Error() != want {
			t.Errorf("error %v, expected %s", err, want)
		}
		if link := nstest.IP(t, "link", "show", "v0"); !strings.Contains(link, " master br0 ") {
			t.Errorf("the link is %s", link)
		}
		mustDelete(t, target, "v0")
	})
}
