package link

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
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
	const want = "link v0: a link of this name exists and was not made by this agent (it is of type veth); it is left alone: delete it, set adopt to take it over, or leave out the type to set its attributes only"
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

func TestOneEndOfAVethTakesTheOtherAlong(t *testing.T) {
	remove(t, "v0")
	target := newTarget(t, t.TempDir())
	row := Link{Name: "v0", Type: Veth, Peer: "v1", Up: true}
	end := Link{Name: "v1", Up: true}
	if _, err := target.Update(t.Context(), txn(), end); !errors.Is(err, syscall.ENODEV) ||
		err.Error() != "link v1 does not exist and has no type to create it with: no such device" {
		t.Errorf("Update of a link that does not exist: %v", err)
	}
	mustUpdate(t, target, row, true)
	mustUpdate(t, target, end, true)
	wantObserved(t, target, "v0", "v1")
	first := mustLink(t, "v1").Attrs().Index

	nstest.IP(t, "link", "del", "v1")
	wantAbsent(t, "v0", "v1")
	wantObserved(t, target)
	wantDiff(
		t, target, row,
		reconciler.Change{Field: "type", Want: Veth},
		reconciler.Change{Field: "peer", Want: "v1"},
		reconciler.Change{Field: "up", Want: "true"},
	)
	mustUpdate(t, target, row, true)
	mustUpdate(t, target, end, true)
	if again := mustLink(t, "v1").Attrs().Index; again == first {
		t.Fatalf("v1 has index %d again", again)
	}
	wantObserved(t, target, "v0", "v1")
	mustDelete(t, target, "v0")
	mustDelete(t, target, "v1")
	wantObserved(t, target)
}

func TestBothEndsOfAVethCannotBeCreated(t *testing.T) {
	remove(t, "v0")
	target := newTarget(t, t.TempDir())
	mustUpdate(t, target, Link{Name: "v0", Type: Veth, Peer: "v1"}, true)
	_, err := target.Update(t.Context(), txn(), Link{Name: "v1", Type: Veth, Peer: "v0"})
	const want = "link v1 is there already, as the other end of v0, which was created with its own row: leave out the type: "
	if !strings.HasPrefix(fmt.Sprint(err), want) || !errors.Is(err, ErrForeign) {
		t.Errorf("error\n%v\nexpected\n%s", err, want)
	}
}

func TestATakenNameOfAPeerIsNamed(t *testing.T) {
	nstest.Veth(t, "w0", "w1")
	target := newTarget(t, t.TempDir())
	_, err := target.Update(t.Context(), txn(), Link{Name: "v0", Type: Veth, Peer: "w1"})
	const want = "create veth v0: there is a link w1 already: file exists"
	if fmt.Sprint(err) != want || !errors.Is(err, syscall.EEXIST) {
		t.Errorf("error\n%v\nexpected\n%s", err, want)
	}
	wantAbsent(t, "v0")
}

func TestAPeer(t *testing.T) {
	row := Link{Name: "v0", Type: Veth, Peer: "v1", Up: true}
	t.Run("with another name is made again", func(t *testing.T) {
		remove(t, "v0")
		target := newTarget(t, t.TempDir())
		mustUpdate(t, target, row, true)
		nstest.IP(t, "link", "set", "v1", "name", "other")
		wantDiff(t, target, row, reconciler.Change{Field: "peer", Is: "other", Want: "v1"})
		mustUpdate(t, target, row, true)
		mustUpdate(t, target, row, false)
		wantAbsent(t, "other")
	})
	t.Run("in another network namespace is right", func(t *testing.T) {
		remove(t, "v0")
		target := newTarget(t, t.TempDir())
		mustUpdate(t, target, row, true)
		index := mustLink(t, "v1").Attrs().Index
		nstest.IP(t, "link", "set", "v1", "netns", strconv.Itoa(otherNamespace(t)))
		wantAbsent(t, "v1")
		// Numbers of links mean something in their own namespace only.
		remove(t, "w0")
		nstest.IP(t, "link", "add", "w0", "index", strconv.Itoa(index), "type", "bridge")
		mustUpdate(t, target, row, false)
		wantObserved(t, target, "v0")
	})
}

// otherNamespace starts a process in a new network namespace.
func otherNamespace(t *testing.T) (pid int) {
	t.Helper()
	command := exec.CommandContext(t.Context(), "cat")
	command.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	stdin, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stdin.Close()
		_ = command.Wait() // it was killed, or ended with its input
	})
	return command.Process.Pid
}

func TestAnExistingLinkIsRestored(t *testing.T) {
	nstest.Veth(t, "v0", "v1")
	nstest.IP(t, "link", "set", "v0", "down", "mtu", "1450")
	dir := t.TempDir()
	target := newTarget(t, dir)
	mustUpdate(t, target, Link{Name: "v0", Up: true, MTU: 1400}, true)
	mustUpdate(t, target, Link{Name: "v0", Up: true, MTU: 1300}, true)

	target = newTarget(t, dir)
	if err := target.Init(t.Context()); err != nil {
		t.Fatal(err)
	}
	mustDelete(t, target, "v0")
	if attrs := mustLink(t, "v0").Attrs(); attrs.MTU != 1450 || attrs.Flags&net.FlagUp != 0 {
		t.Errorf("MTU %d, flags %v", attrs.MTU, attrs.Flags)
	}
	wantNoRecords(t, dir)
}

func TestAnMTUThatIsNotOursAnyMoreIsRestoredOnce(t *testing.T) {
	nstest.Veth(t, "v0", "v1")
	target := newTarget(t, t.TempDir())
	mustUpdate(t, target, Link{Name: "v0", Up: true, MTU: 1400}, true)
	mustUpdate(t, target, Link{Name: "v0", Up: true}, true)
	if mtu := mustLink(t, "v0").Attrs().MTU; mtu != 1500 {
		t.Errorf("MTU %d", mtu)
	}
	nstest.IP(t, "link", "set", "v0", "mtu", "1350")
	mustUpdate(t, target, Link{Name: "v0", Up: true}, false)
	mustDelete(t, target, "v0")
	if mtu := mustLink(t, "v0").Attrs().MTU; mtu != 1350 {
		t.Errorf("MTU %d", mtu)
	}
}

func TestAnExistingLinkThatWasMadeAgainIsNotRestored(t *testing.T) {
	nstest.Veth(t, "v0", "v1")
	nstest.IP(t, "link", "set", "v0", "down")
	target := newTarget(t, t.TempDir())
	mustUpdate(t, target, Link{Name: "v0", Up: true}, true)
	nstest.IP(t, "link", "del", "v0")
	nstest.Veth(t, "v0", "v1")
	wantObserved(t, target)
	mustDelete(t, target, "v0")
	if mustLink(t, "v0").Attrs().Flags&net.FlagUp == 0 {
		t.Error("the new link was set down")
	}
}

func TestALinkOfOursStaysOursWithoutItsType(t *testing.T) {
	remove(t, "br0")
	target := newTarget(t, t.TempDir())
	mustUpdate(t, target, Link{Name: "br0", Type: Bridge}, true)
	mustUpdate(t, target, Link{Name: "br0", Up: true}, true)
	mustDelete(t, target, "br0")
	wantAbsent(t, "br0")
}

func TestTheKernelsReasonIsGiven(t *testing.T) {
	nstest.Veth(t, "v0", "v1")
	target := newTarget(t, t.TempDir())
	_, err := target.Update(t.Context(), txn(), Link{Name: "v0", Up: true, MTU: 1 << 20})
	const want = "set the MTU of link v0 to 1048576: mtu greater than device maximum (invalid argument)"
	if fmt.Sprint(err) != want || !errors.Is(err, syscall.EINVAL) {
		t.Errorf("error\n%v\nexpected\n%s", err, want)
	}
}
