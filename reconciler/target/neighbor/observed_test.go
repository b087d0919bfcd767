package neighbor

import (
	"net"
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
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

func TestTheMirrorShowsWhatSomebodyHasMade(t *testing.T) {
	nstest.Veth(t, "e0", "e1")
	nstest.IP(t, "neigh", "add", "192.0.2.5", "lladdr", mac5, "dev", "e0", "protocol", "static")
	nstest.IP(t, "neigh", "add", "192.0.2.6", "lladdr", mac5, "dev", "e0", "nud", "stale")
	db, seen := runMirror(t, newTarget(t))
	want := func(want ...Seen) {
		t.Helper()
		nstest.WaitForRows(t, db, statedb.ReadOnly(seen), func(Seen) bool { return true }, want...)
	}
	e0, err := net.InterfaceByName("e0")
	if err != nil {
		t.Fatal(err)
	}
	first := Seen{Device: "e0", Index: e0.Index, Address: netip.MustParseAddr("192.0.2.5"), MAC: mac5, Protocol: unix.RTPROT_STATIC}
	want(first)
	nstest.IP(t, "neigh", "add", "2001:db8::5", "lladdr", mac6, "dev", "e0", "protocol", "79")
	second := Seen{Device: "e0", Index: e0.Index, Address: netip.MustParseAddr("2001:db8::5"), MAC: mac6, Protocol: rtnl.Ours}
	nstest.IP(t, "neigh", "add", "192.0.2.7", "lladdr", mac6, "dev", "e0", "nud", "reachable", "extern_learn", "protocol", "zebra")
	third := Seen{Device: "e0", Index: e0.Index, Address: netip.MustParseAddr("192.0.2.7"), MAC: mac6, Protocol: unix.RTPROT_ZEBRA, Learned: true}
	want(first, second, third)
	nstest.IP(t, "neigh", "del", "192.0.2.7", "dev", "e0")
	nstest.IP(t, "neigh", "replace", "2001:db8::5", "lladdr", mac5, "dev", "e0")
	second.MAC = mac5
	want(first, second)
	nstest.IP(t, "link", "set", "e0", "name", "e2")
	first.Device, second.Device = "e2", "e2"
	want(first, second)
	nstest.IP(t, "link", "property", "add", "dev", "e2", "altname", "lan")
	first.OtherNames, second.OtherNames = "lan", "lan"
	want(first, second)
	nstest.IP(t, "neigh", "change", "192.0.2.5", "lladdr", mac5, "dev", "e2", "nud", "reachable")
	want(second)
	nstest.IP(t, "link", "del", "e2")
	want()
}

// TestTheKernelTellsOfEachEntryThatGoes is why the table of a mirror is never in doubt.
func TestTheKernelTellsOfEachEntryThatGoes(t *testing.T) {
	nstest.Veth(t, "e0", "e1")
	target := newTarget(t)
	db, seen := runMirror(t, target)
	want := func(n int) {
		t.Helper()
		view := target.mirror.Load().View(t.Context())
		if !view.Reliable() || view.Table.Len(view.Txn) != n {
			t.Fatalf("%d entries, reliable %v, expected %d", statedb.ReadOnly(seen).Len(db.ReadTxn()), view.Reliable(), n)
		}
	}
	want(0)
	for name, command := range map[string][]string{
		"down":        {"link", "set", "e0", "down"},
		"its address": {"link", "set", "e0", "address", "02:00:00:00:00:01"},
		"no ARP":      {"link", "set", "e0", "arp", "off"},
	} {
		rows := []Neighbor{row("e0", "192.0.2.5", mac5), row("e0", "192.0.2.6", mac6)}
		for _, row := range rows {
			mustUpdate(t, target, row, true)
		}
		want(2)
		dumps := target.conn.Asked()
		nstest.IP(t, command...)
		want(0)
		if n := target.conn.Asked() - dumps; n != 0 {
			t.Errorf("%s: %d questions were asked", name, n)
		}
		nstest.IP(t, "link", "set", "e0", "arp", "on", "up")
	}
	mustUpdate(t, target, row("e0", "2001:db8::5", mac5), true)
	nstest.IP(t, "link", "del", "e0")
	want(0)
}

// Renames are noticed by their notifications, and by a listing if those were lost.
func TestTheMirrorTellsOfRenamedDevicesOfOurEntries(t *testing.T) {
	nstest.Veth(t, "e0", "e1")
	renamed := make(chan bool, 10)
	target, err := New(Config{Renamed: func() { renamed <- true }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { target.Close() })
	db, seen := runMirror(t, target)
	lost := &keeper{target: target}
	rename := func(name string, options ...string) (told int) {
		t.Helper()
		if _, err := lost.list(t.Context()); err != nil {
			t.Fatal(err)
		}
		nstest.IP(t, append([]string{"link"}, options...)...)
		nstest.WaitForRows(t, db, statedb.ReadOnly(seen), func(s Seen) bool { return s.Device+s.OtherNames != name })
		if _, err := lost.list(t.Context()); err != nil {
			t.Fatal(err)
		}
		for ; len(renamed) > 0; told++ {
			<-renamed
		}
		return told
	}
	nstest.IP(t, "neigh", "add", "192.0.2.6", "lladdr", mac5, "dev", "e0", "protocol", "static")
	if n := rename("e2", "set", "e0", "name", "e2"); n != 0 {
		t.Errorf("told %d times of the device of others' entries", n)
	}
	mustUpdate(t, target, row("e2", "192.0.2.5", mac5), true)
	if n := rename("e3", "set", "e2", "name", "e3"); n != 2 {
		t.Errorf("told %d times of another name", n)
	}
	if n := rename("e3lan", "property", "add", "dev", "e3", "altname", "lan"); n != 2 {
		t.Errorf("told %d times of an alternative name", n)
	}
	if n := rename("e3lan", "set", "e3", "alias", "x"); n != 0 {
		t.Errorf("told %d times when no name had changed", n)
	}
	nstest.IP(t, "link", "set", "e3", "name", "e0")
}

// TestAnEntryIsOfTheRowThatNamesItsDeviceOtherwise: a device has several names.
func TestAnEntryIsOfTheRowThatNamesItsDeviceOtherwise(t *testing.T) {
	nstest.Veth(t, "e0", "e1")
	nstest.IP(t, "link", "property", "add", "dev", "e0", "altname", "lan")
	target := newTarget(t)
	db, _ := runMirror(t, target)
	rows, err := statedb.NewTable(db, Schema())
	if err != nil {
		t.Fatal(err)
	}
	target.config.Rows = statedb.ReadOnly(rows)
	set := func(change func(*statedb.WriteTxn, Neighbor) (Neighbor, bool, error), row Neighbor) {
		t.Helper()
		if err := db.Update(t.Context(), func(txn *statedb.WriteTxn) error {
			_, _, err := change(txn, row)
			return err
		}, rows); err != nil {
			t.Fatal(err)
		}
	}
	other, first := row("lan", "192.0.2.5", mac5), row("e0", "192.0.2.5", mac5)
	want := func(device string) {
		t.Helper()
		var devices []string
		for n, err := range target.Observe(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			devices = append(devices, n.Device)
		}
		if !slices.Equal(devices, []string{device}) {
			t.Errorf("observed on %q, expected %q", devices, device)
		}
	}
	set(rows.Insert, other)
	if _, err := target.Update(t.Context(), db.ReadTxn(), other); err != nil {
		t.Fatal(err)
	}
	want("lan")
	for _, err := range target.DeleteBatch(t.Context(), db.ReadTxn(), []Neighbor{first}) {
		if err != nil {
			t.Fatal(err)
		}
	}
	want("lan") // still there
	set(rows.Delete, other)
	want("e0") // an orphan
	for _, err := range target.DeleteBatch(t.Context(), db.ReadTxn(), []Neighbor{other}) {
		if err != nil {
			t.Fatal(err)
		}
	}
	for left, err := range target.Observe(t.Context()) {
		t.Errorf("it is still there: %v, %v", left, err)
	}
}

// TestTheMirrorSeesThatAnEntryWasTakenOver is about what the kernel does not tell by itself.
func TestTheMirrorSeesThatAnEntryWasTakenOver(t *testing.T) {
	nstest.Veth(t, "e0", "e1")
	target := newTarget(t)
	runMirror(t, target)
	nstest.IP(t, "neigh", "add", "192.0.2.5", "lladdr", mac5, "dev", "e0", "protocol", "static")
	adopting := row("e0", "192.0.2.5", mac5)
	adopting.Adopt = true
	mustUpdate(t, target, adopting, true)
	view := target.mirror.Load().View(t.Context())
	for s := range view.Table.All(view.Txn) {
		if s.Protocol != rtnl.Ours {
			t.Errorf("seen is %+v", s)
		}
	}
}

func TestANeighborIsComparedWithWhatWasSeen(t *testing.T) {
	row := row("e0", "192.0.2.5", mac5)
	ours := Seen{Device: "e0", Index: 7, Address: row.Address, MAC: mac5, Protocol: rtnl.Ours}
	for name, c := range map[string]struct {
		change func(*Seen)
		fields []string
	}{
		"as it was seen": {func(*Seen) {}, nil},
		"not seen":       {func(s *Seen) { *s = Seen{} }, []string{"address", "mac"}},
		"another host's": {func(s *Seen) { s.MAC = mac6 }, []string{"mac"}},
		"others'":        {func(s *Seen) { s.Protocol = 0 }, []string{"protocol"}},
		"learned":        {func(s *Seen) { s.Learned = true }, []string{"learned"}},
	} {
		seen := ours
		c.change(&seen)
		var fields []string
		for _, step := range row.compare(seen) {
			fields = append(fields, step.Field)
		}
		if diff := cmp.Diff(c.fields, fields); diff != "" {
			t.Errorf("%s: fields that differ (-want +got):\n%s", name, diff)
		}
	}
}
