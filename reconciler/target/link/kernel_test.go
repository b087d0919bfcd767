package link

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/target/internal/nstest"
	"github.com/statehive/statehive/reconciler/target/ownership"
	"github.com/statehive/statehive/statedb"
)

func txn() statedb.ReadTxn { return statedb.New().ReadTxn() }

func mustUpdate(t *testing.T, target *Target, row Link, changed bool) {
	t.Helper()
	result, err := target.Update(t.Context(), txn(), row)
	if err != nil || result.Changed != changed {
		t.Fatalf("Update(%+v) = %v, %v, expected changed %v", row, result, err, changed)
	}
}

func mustDelete(t *testing.T, target *Target, name string) {
	t.Helper()
	if err := target.Delete(t.Context(), txn(), Link{Name: name}); err != nil {
		t.Fatal(err)
	}
}

// deleteObserved deletes what a new process finds.
func deleteObserved(t *testing.T, target *Target) {
	t.Helper()
	for row, err := range target.Observe(t.Context()) {
		if err == nil {
			err = target.Delete(t.Context(), txn(), row)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func wantDiff(t *testing.T, target *Target, row Link, want ...reconciler.Change) {
	t.Helper()
	changes, err := target.Diff(t.Context(), txn(), row)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, changes); diff != "" && len(want)+len(changes) > 0 {
		t.Errorf("Diff(%s) (-want +got):\n%s", row.Name, diff)
	}
}

func wantObserved(t *testing.T, target *Target, want ...string) {
	t.Helper()
	var names []string
	for row, err := range target.Observe(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, row.Name)
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("observed (-want +got):\n%s", diff)
	}
}

func mustLink(t *testing.T, name string) netlink.Link {
	t.Helper()
	link, err := netlink.LinkByName(name)
	if err != nil {
		t.Fatalf("link %s: %v", name, err)
	}
	return link
}

func wantAbsent(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		if _, err := netlink.LinkByName(name); err == nil {
			t.Errorf("link %s is there", name)
		}
	}
}

func wantNoRecords(t *testing.T, dir string) {
	t.Helper()
	if entries, err := os.ReadDir(filepath.Join(dir, "link")); err != nil || len(entries) != 0 {
		t.Errorf("left over: %v, %v", entries, err)
	}
}

// remove deletes a link at the end of a test, if it is still there.
func remove(t *testing.T, name string) {
	t.Cleanup(func() {
		if link, err := netlink.LinkByName(name); err == nil {
			_ = netlink.LinkDel(link) // the next test complains
		}
	})
}

func TestCreatedLinksHaveTheAliasAndTheRecordedAddress(t *testing.T) {
	target := newTarget(t, t.TempDir())
	for _, row := range []Link{{Name: "v0", Type: Veth, Peer: "v1", Up: true}, {Name: "br0", Type: Bridge}} {
		remove(t, row.Name)
		mustUpdate(t, target, row, true)
		attrs := mustLink(t, row.Name).Attrs()
		rec, _ := target.records.Get(row.Name)
		if attrs.Alias != alias || attrs.HardwareAddr.String() != rec.Created.MAC {
			t.Errorf("link %s has alias %q and address %s, recorded is %s", row.Name, attrs.Alias, attrs.HardwareAddr, rec.Created.MAC)
		}
		if up := attrs.Flags&net.FlagUp != 0; up != row.Up {
			t.Errorf("link %s up: %v", row.Name, up)
		}
		if attrs.HardwareAddr[0]&3 != 2 {
			t.Errorf("%s is not a locally administered unicast address", attrs.HardwareAddr)
		}
	}
}

func TestACrashBetweenRecordAndCreation(t *testing.T) {
	row := Link{Name: "br0", Type: Bridge, Up: true}
	recorded := record{Created: &created{Type: Bridge, MAC: "02:00:00:00:00:01"}}
	put := func(t *testing.T, dir string) {
		t.Helper()
		if err := newTarget(t, dir).records.Put("br0", recorded); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("and the row is still there", func(t *testing.T) {
		remove(t, "br0")
		dir := t.TempDir()
		put(t, dir)
		target := newTarget(t, dir)
		wantObserved(t, target)
		mustUpdate(t, target, row, true)
		mustUpdate(t, target, row, false)
		mustDelete(t, target, "br0")
		wantAbsent(t, "br0")
	})
	t.Run("and the row is gone", func(t *testing.T) {
		dir := t.TempDir()
		put(t, dir)
		if err := newTarget(t, dir).Init(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantNoRecords(t, dir)
	})
	t.Run("and others made the link", func(t *testing.T) {
		remove(t, "br0")
		dir := t.TempDir()
		put(t, dir)
		nstest.IP(t, "link", "add", "br0", "type", "bridge")
		target := newTarget(t, dir)
		wantObserved(t, target)
		if _, err := target.Update(t.Context(), txn(), row); !errors.Is(err, ErrForeign) {
			t.Errorf("Update: %v", err)
		}
		mustDelete(t, target, "br0")
		mustLink(t, "br0")
		wantNoRecords(t, dir)
	})
}

func TestACrashBetweenCreationAndAlias(t *testing.T) {
	remove(t, "v0")
	dir := t.TempDir()
	if err := newTarget(t, dir).records.Put("v0", record{Created: &created{Type: Veth, MAC: "02:00:00:00:00:01"}}); err != nil {
		t.Fatal(err)
	}
	nstest.IP(t, "link", "add", "v0", "address", "02:00:00:00:00:01", "type", "veth", "peer", "name", "v1")
	target := newTarget(t, dir)
	if err := target.Init(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantObserved(t, target, "v0")
	row := Link{Name: "v0", Type: Veth, Peer: "v1", Up: true}
	wantDiff(
		t, target, row,
		reconciler.Change{Field: "alias", Want: alias},
		reconciler.Change{Field: "up", Is: "false", Want: "true"},
	)
	mustUpdate(t, target, row, true)
	mustUpdate(t, target, row, false)
	mustDelete(t, target, "v0")
	wantAbsent(t, "v0", "v1")
	wantNoRecords(t, dir)
}

func TestALinkThatOthersMadeIsNotTakenOver(t *testing.T) {
	nstest.Veth(t, "v0", "v1")
	target := newTarget(t, t.TempDir())
	_, err := target.Update(t.Context(), txn(), Link{Name: "v0", Type: Bridge})
	const want = "link v0: a link of this name exists and was not made by this agent (it is of type veth); it is left alone: delete it, set adopt to take it over, or leave out the type to only set its attributes"
	if fmt.Sprint(err) != want || !errors.Is(err, ErrForeign) {
		t.Errorf("error\n%v\nexpected\n%s", err, want)
	}
	wantObserved(t, target)
	mustDelete(t, target, "v0")
	mustLink(t, "v0")

	t.Run("nor under the name of ours", func(t *testing.T) {
		remove(t, "br0")
		row := Link{Name: "br0", Type: Bridge}
		mustUpdate(t, target, row, true)
		nstest.IP(t, "link", "del", "br0")
		nstest.IP(t, "link", "add", "br0", "type", "bridge")
		wantObserved(t, target)
		if _, err := target.Update(t.Context(), txn(), row); !errors.Is(err, ErrForeign) {
			t.Errorf("Update: %v", err)
		}
		mustDelete(t, target, "br0")
		mustLink(t, "br0")
	})

	t.Run("nor with its index, too", func(t *testing.T) {
		remove(t, "br0")
		row := Link{Name: "br0", Type: Bridge}
		mustUpdate(t, target, row, true)
		index := mustLink(t, "br0").Attrs().Index
		nstest.IP(t, "link", "del", "br0")
		nstest.IP(t, "link", "add", "name", "br0", "index", fmt.Sprint(index), "type", "veth")
		wantObserved(t, target)
		mustDelete(t, target, "br0")
		mustLink(t, "br0")
		remove(t, "br0")
	})
}

func TestRecordsOfAnotherBootClaimNothing(t *testing.T) {
	remove(t, "br0")
	dir := t.TempDir()
	old, err := ownership.Open(ownership.Config{Dir: dir, Identity: ownership.Identity{Boot: "old", Netns: "cookie:1"}})
	if err != nil {
		t.Fatal(err)
	}
	earlier, err := New(Config{Owned: old})
	if err != nil {
		t.Fatal(err)
	}
	defer earlier.Close()
	mustUpdate(t, earlier, Link{Name: "br0", Type: Bridge}, true)
	mustUpdate(t, earlier, Link{Name: "lo", Up: false}, true)

	target := newTarget(t, dir)
	wantObserved(t, target)
	mustDelete(t, target, "br0")
	mustLink(t, "br0")
	mustDelete(t, target, "lo")
	if mustLink(t, "lo").Attrs().Flags&net.FlagUp != 0 {
		t.Error("lo was restored by a record of another boot")
	}
	nstest.IP(t, "link", "set", "lo", "up")
}
