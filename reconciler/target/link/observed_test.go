package link

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/statehive/statehive/reconciler/target/internal/nstest"
	"github.com/statehive/statehive/statedb"
)

// runMirror runs a mirror for a target until the end of the test.
func runMirror(t *testing.T, target *Target) (*statedb.DB, *statedb.RWTable[Seen]) {
	t.Helper()
	return nstest.Mirror(t, SeenSchema(), target.NewMirror)
}

func TestTheMirrorShowsAllLinks(t *testing.T) {
	nstest.IP(t, "link", "add", "br7", "index", "700", "mtu", "1400", "type", "bridge")
	db, seen := runMirror(t, newTarget(t, t.TempDir()))
	want := func(want ...Seen) {
		t.Helper()
		nstest.WaitForRows(t, db, statedb.ReadOnly(seen), func(s Seen) bool { return s.Index == 700 }, want...)
	}
	br7, err := net.InterfaceByName("br7")
	if err != nil {
		t.Fatal(err)
	}
	is := Seen{Name: "br7", Index: 700, Type: Bridge, MTU: 1400, MAC: br7.HardwareAddr.String()}
	want(is)
	nstest.IP(t, "link", "set", "br7", "up")
	if br7, err = net.InterfaceByName("br7"); err != nil {
		t.Fatal(err)
	}
	is.Up, is.Running = true, br7.Flags&net.FlagRunning != 0
	want(is)
	nstest.IP(t, "link", "set", "br7", "mtu", "1300")
	is.MTU = 1300
	want(is)
	nstest.IP(t, "link", "property", "add", "dev", "br7", "altname", "lan")
	is.OtherNames = "lan"
	want(is)
	nstest.IP(t, "link", "del", "br7")
	want()
}

func TestTheNamesOfLinksThatAreDownAreUnannounced(t *testing.T) {
	remove(t, "br7")
	nstest.IP(t, "link", "add", "br7", "type", "bridge")
	target := newTarget(t, t.TempDir())
	runMirror(t, target)
	want := func(want bool) {
		t.Helper()
		if view := target.mirror.Load().View(t.Context()); hasUnannounced(view.Txn, view.Table) != want {
			t.Errorf("want %t", want)
		}
	}
	want(true) // it may get its first one unnoticed
	nstest.IP(t, "link", "set", "br7", "up")
	nstest.IP(t, "link", "property", "add", "dev", "br7", "altname", "lan")
	want(false)
	nstest.IP(t, "link", "set", "br7", "down")
	want(true)
}

func TestALinkIsComparedWithWhatWasSeen(t *testing.T) {
	for name, c := range map[string]struct {
		row    Link
		fields []string
	}{
		"as it was seen":           {Link{Name: "br7", Type: Bridge, Up: true, MTU: 1400}, nil},
		"of whatever MTU":          {Link{Name: "br7", Type: Bridge, Up: true}, nil},
		"that others have made":    {Link{Name: "br7", Up: true}, nil},
		"by another of its names":  {Link{Name: "lan", Up: true}, nil},
		"not seen":                 {Link{Name: "br8", Up: true}, []string{"name"}},
		"of another type":          {Link{Name: "br7", Type: Veth, Peer: "v1", Up: true}, []string{"type"}},
		"that others made again":   {Link{Name: "br9", Type: Bridge, Up: true}, []string{"owner"}},
		"of another alias":         {Link{Name: "br4", Type: Bridge, Up: true}, []string{"alias"}},
		"down, its alias untold":   {Link{Name: "br3", Type: Bridge}, nil},
		"of another address":       {Link{Name: "br7", Up: true, MAC: mac2}, []string{"mac"}},
		"of its address":           {Link{Name: "br7", Up: true, MAC: mac1}, nil},
		"of it, written otherwise": {Link{Name: "br7", Up: true, MAC: "02-00-00-00-00-01"}, nil},
		"a port of its bridge":     {Link{Name: "br7", Up: true, Master: "br6"}, nil},
		"a port, by a 2nd name":    {Link{Name: "br7", Up: true, Master: "six"}, nil},
		"a port of another":        {Link{Name: "br7", Up: true, Master: "br5"}, []string{"master"}},
		"down, with another MTU":   {Link{Name: "br7", Type: Bridge, MTU: 1500}, []string{"up", "mtu"}},
	} {
		t.Run(name, func(t *testing.T) {
			db := statedb.New()
			table, err := statedb.NewTable(db, SeenSchema())
			if err != nil {
				t.Fatal(err)
			}
			err = db.Update(t.Context(), func(txn *statedb.WriteTxn) error {
				for _, s := range []Seen{
					{Name: "br3", Index: 3, Type: Bridge, MAC: mac1},
					{Name: "br4", Index: 4, Type: Bridge, Up: true, Alias: "of others"},
					{Name: "br6", OtherNames: "six", Index: 6, Type: Bridge},
					{Name: "br7", OtherNames: "lan", Index: 7, Type: Bridge, Up: true, MTU: 1400, MAC: mac1, Alias: alias, Master: 6},
					{Name: "br9", Index: 9, Type: Bridge, Up: true, MAC: mac1},
				} {
					if _, _, err := table.Insert(txn, s); err != nil {
						return err
					}
				}
				return nil
			}, table)
			if err != nil {
				t.Fatal(err)
			}
			target := newTarget(t, t.TempDir())
			for name, rec := range map[string]created{
				"br3": {Type: Bridge, MAC: mac1}, "br4": {Type: Bridge, Index: 4}, "br7": {Type: Bridge, MAC: mac1}, "br9": {Type: Bridge, MAC: mac2},
			} {
				if err := target.records.Put(name, record{Created: &rec}); err != nil {
					t.Fatal(err)
				}
			}
			var fields []string
			for _, change := range target.differences(db.ReadTxn(), statedb.ReadOnly(table), c.row) {
				fields = append(fields, change.Field)
			}
			if diff := cmp.Diff(c.fields, fields); diff != "" {
				t.Errorf("fields that differ (-want +got):\n%s", diff)
			}
		})
	}
}

// The kernel does not tell of them.
func TestOtherNamesOfALinkThatIsDown(t *testing.T) {
	nstest.IP(t, "link", "add", "br7", "type", "bridge")
	remove(t, "br7")
	target := withMirror(t, t.TempDir())
	row := Link{Name: "lan", MTU: 1400}
	for range 2 {
		if _, err := target.Update(t.Context(), txn(), row); !errors.Is(err, syscall.ENODEV) {
			t.Errorf("Update of a link that does not exist: %v", err)
		}
		nstest.IP(t, "link", "property", "add", "dev", "br7", "altname", "lan")
		mustUpdate(t, target, row, true)
		nstest.IP(t, "link", "set", "br7", "mtu", "1300") // tells of the name
		mustUpdate(t, target, row, true)
		mustDelete(t, target, "lan")
		nstest.IP(t, "link", "property", "del", "dev", "br7", "altname", "lan")
	}
}

func TestARenamedEndOfAVethIsNoticed(t *testing.T) {
	db := statedb.New()
	links, err := statedb.NewTable(db, Schema())
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(t.Context(), func(txn *statedb.WriteTxn) error {
		for _, row := range []Link{{Name: "a", Type: Veth, Peer: "b", Master: "c"}, {Name: "c", Type: Bridge}} {
			if _, _, err := links.Insert(txn, row); err != nil {
				return err
			}
		}
		return nil
	}, links)
	if err != nil {
		t.Fatal(err)
	}
	seen, err := statedb.NewTable(db, SeenSchema())
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(t.Context(), func(txn *statedb.WriteTxn) error {
		_, _, err := seen.Insert(txn, Seen{Name: "a", Index: 7, Type: Veth})
		return err
	}, seen)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"a": "[a]", "b": "[a]", "c": "[c a]", "x": "[]", "a renamed end": "[a]"} { // a is a port of c
		got, s := []Key{}, Seen{Name: name, OtherNames: "other"}
		if name == "a renamed end" {
			s.Peer = 7
		}
		for query := range rowsOf(statedb.ReadOnly(seen))(db.ReadTxn(), s) {
			for row := range links.List(db.ReadTxn(), query) {
				got = append(got, row.Key())
			}
		}
		if fmt.Sprint(got) != want {
			t.Errorf("%s has the rows %v compared, expected %s", name, got, want)
		}
	}
}

// The kernel announces only the end that is moved if that is down.
func TestTheOtherEndOfAVethGoesToAnotherNamespaceAndComesBack(t *testing.T) {
	target := newTarget(t, t.TempDir())
	db, seen := runMirror(t, target)
	row := Link{Name: "v0", Type: Veth, Peer: "v1", Up: true}
	mustUpdate(t, target, row, true)
	v0, pid := mustLink(t, "v0").Attrs().Index, otherNamespace(t)
	want := func(peer int) {
		t.Helper()
		nstest.WaitForRows(t, db, statedb.ReadOnly(seen), func(s Seen) bool { return s.Index == v0 && s.Peer == peer }, func() Seen {
			s, _, _ := seen.Get(db.ReadTxn(), SeenByIndex.Query(v0))
			s.Peer = peer
			return s
		}())
	}
	differ := func(want bool) {
		t.Helper()
		if is := target.differences(db.ReadTxn(), statedb.ReadOnly(seen), row); (len(is) > 0) != want {
			t.Errorf("differences %v", is)
		}
	}
	want(mustLink(t, "v1").Attrs().Index)
	inside := func(arguments ...string) {
		t.Helper()
		arguments = append([]string{"--target", strconv.Itoa(pid), "--net", "ip"}, arguments...)
		if output, err := exec.CommandContext(t.Context(), "nsenter", arguments...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, output)
		}
	}
	nstest.IP(t, "link", "set", "v1", "netns", strconv.Itoa(pid))
	want(0)
	differ(false)
	inside("link", "set", "v1", "name", "eth0")
	inside("link", "set", "eth0", "netns", strconv.Itoa(os.Getpid()))
	want(mustLink(t, "eth0").Attrs().Index)
	differ(true)
	mustUpdate(t, target, row, true)
	want(mustLink(t, "v1").Attrs().Index)
	differ(false)
	mustDelete(t, target, "v0")
}

func TestLinksWithOurAliasAndNoRecordAreUnrecorded(t *testing.T) {
	target := newTarget(t, t.TempDir())
	if err := target.records.Put("br0", record{Created: &created{Type: Bridge, MAC: mac1}}); err != nil {
		t.Fatal(err)
	}
	if err := target.records.Put("eth0", record{Borrowed: &borrowed{Index: 3}}); err != nil {
		t.Fatal(err)
	}
	is := target.Unrecorded(nil, nil).Is
	for name, c := range map[string]struct {
		seen Seen
		want bool
	}{
		"ours":                     {Seen{Name: "br0", Alias: alias}, false},
		"ours, with another name":  {Seen{Name: "x", OtherNames: "br0", Alias: alias}, false},
		"of others":                {Seen{Name: "eth1", Alias: "uplink"}, false},
		"of a lost record":         {Seen{Name: "br1", Alias: alias}, true},
		"with a record of another": {Seen{Name: "eth0", Index: 3, Alias: alias}, true},
	} {
		if got := is(c.seen); got != c.want {
			t.Errorf("one %s is unrecorded: %t", name, got)
		}
	}
}
