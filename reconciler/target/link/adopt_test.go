package link

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/target/internal/nstest"
)

func TestALinkOfOthersIsAdopted(t *testing.T) {
	for _, c := range []struct {
		row  Link
		make []string
	}{
		{Link{Name: "x0", Type: Bridge, Up: true, MTU: 1400, Adopt: true}, []string{"link", "add", "x0", "type", "bridge"}},
		{Link{Name: "x0", Type: Veth, Peer: "x1", Up: true, MAC: mac1, Adopt: true}, []string{"link", "add", "x0", "type", "veth", "peer", "name", "x1"}},
		{Link{Name: "x0", Type: Tun, Up: true, Adopt: true}, []string{"tuntap", "add", "x0", "mode", "tun"}},
	} {
		t.Run(c.row.Type, func(t *testing.T) {
			eachWay(t, func(t *testing.T, open func(*testing.T, string) *Target) {
				remove(t, "x0")
				nstest.IP(t, c.make...)
				index, dir := mustLink(t, "x0").Attrs().Index, t.TempDir()
				target := open(t, dir)
				without := c.row
				without.Adopt = false
				if _, err := target.Update(t.Context(), txn(), without); !errors.Is(err, ErrForeign) {
					t.Errorf("Update without adopt: %v", err)
				}
				wantNoRecords(t, dir)
				changes, err := target.Diff(t.Context(), txn(), c.row)
				if err != nil || len(changes) < 2 || changes[0] != (reconciler.Change{Field: "alias", Want: alias}) {
					t.Errorf("Diff: %v, %v", changes, err)
				}
				wantNoRecords(t, dir) // nor does it write
				mustUpdate(t, target, c.row, true)
				mustUpdate(t, target, c.row, false)
				mustUpdate(t, target, without, false) // it is ours now
				if !holds(t, c.row) || mustLink(t, "x0").Attrs().Index != index || mustLink(t, "x0").Attrs().Alias != alias {
					t.Errorf("link x0 is %s", attributes(t, "x0"))
				}
				target = open(t, dir)
				if err := target.Init(t.Context()); err != nil {
					t.Fatal(err)
				}
				wantObserved(t, target, "x0")
				deleteObserved(t, target)
				wantAbsent(t, "x0")
				wantNoRecords(t, dir)
			})
		})
	}
}

// Whoever wants to keep a link that was adopted leaves out the type, and removes the document then.
func TestAnAdoptedLinkWhoseRowHasNoTypeAnyMoreStays(t *testing.T) {
	eachWay(t, func(t *testing.T, open func(*testing.T, string) *Target) {
		remove(t, "x0")
		nstest.IP(t, "link", "add", "x0", "type", "bridge")
		t.Cleanup(func() { remove(t, "x0") })
		dir := t.TempDir()
		target := open(t, dir)
		mustUpdate(t, target, Link{Name: "x0", Type: Bridge, Up: true, Adopt: true}, true)
		mustUpdate(t, target, Link{Name: "x0", Up: true}, true)
		mustUpdate(t, target, Link{Name: "x0", Up: true}, false)
		if is := mustLink(t, "x0").Attrs(); is.Alias != "" {
			t.Errorf("alias %q", is.Alias)
		}
		mustDelete(t, open(t, dir), "x0")
		if is := mustLink(t, "x0").Attrs(); is.Flags&net.FlagUp == 0 {
			t.Error("it was set down")
		}
		wantNoRecords(t, dir)
	})
}

// The row without the type may not have been applied when it goes, as in a pause.
func TestAnAdoptedLinkIsGivenBackWithTheLastRow(t *testing.T) {
	eachWay(t, func(t *testing.T, open func(*testing.T, string) *Target) {
		remove(t, "x0")
		nstest.IP(t, "link", "add", "x0", "mtu", "1400", "type", "bridge")
		t.Cleanup(func() { remove(t, "x0") })
		dir := t.TempDir()
		target := open(t, dir)
		nstest.IP(t, "link", "set", "x0", "alias", "theirs")
		mustUpdate(t, target, Link{Name: "x0", Type: Bridge, Up: true, Adopt: true, MTU: 1300}, true)
		mustDelete(t, target, "x0")
		if is := mustLink(t, "x0").Attrs(); is.MTU != 1400 || is.Alias != "theirs" || is.Flags&net.FlagUp == 0 {
			t.Errorf("MTU %d, alias %q, %v", is.MTU, is.Alias, is.Flags)
		}
		wantNoRecords(t, dir)
	})
}

// The next process must not take a link for ours that was being given back when the previous one was cut off: before the link is changed, its
// record says so.
func TestAnAdoptedLinkIsNotGivenBackUnlessTheRecordSaysSo(t *testing.T) {
	eachWay(t, func(t *testing.T, open func(*testing.T, string) *Target) {
		remove(t, "x0")
		dir := t.TempDir()
		nstest.IP(t, "link", "add", "x0", "mtu", "1400", "type", "bridge")
		target := open(t, dir)
		mustUpdate(t, target, Link{Name: "x0", Type: Bridge, MTU: 1300, Adopt: true}, true)
		records := filepath.Join(dir, "link")
		if err := errors.Join(unix.Mount(records, records, "", unix.MS_BIND, ""), unix.Mount("", records, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, "")); err != nil {
			t.Fatal(err)
		}
		err := target.Delete(t.Context(), txn(), Link{Name: "x0"})
		if is := mustLink(t, "x0").Attrs(); !errors.Is(err, unix.EROFS) || is.MTU != 1300 || is.Alias != alias {
			t.Errorf("without a record: %v, MTU %d, alias %q", err, is.MTU, is.Alias)
		}
		if err := unix.Unmount(records, unix.MNT_DETACH); err != nil {
			t.Fatal(err)
		}
		mustDelete(t, target, "x0")
		if is := mustLink(t, "x0").Attrs(); is.MTU != 1400 || is.Alias == alias {
			t.Errorf("MTU %d, alias %q", is.MTU, is.Alias)
		}
	})
}

func TestAnAdoptedLinkThatIsGivenBackHasItsAttributesAgain(t *testing.T) {
	eachWay(t, func(t *testing.T, open func(*testing.T, string) *Target) {
		for name, row := range map[string]Link{"with an MTU": {Name: "x0", Up: true, MTU: 1310}, "without": {Name: "x0", Up: true}} {
			t.Run(name, func(t *testing.T) {
				remove(t, "x0")
				nstest.IP(t, "link", "add", "x0", "mtu", "1400", "address", "02:00:00:00:00:40", "type", "bridge")
				t.Cleanup(func() { remove(t, "x0") })
				dir := t.TempDir()
				target := open(t, dir)
				nstest.IP(t, "link", "set", "x0", "alias", "theirs")
				mustUpdate(t, target, Link{Name: "x0", Type: Bridge, Up: true, Adopt: true, MTU: 1300, MAC: "02:00:00:00:00:30"}, true)
				mustUpdate(t, target, row, true)
				if is := mustLink(t, "x0").Attrs().Alias; is != "theirs" {
					t.Errorf("alias %q", is)
				}
				mustDelete(t, open(t, dir), "x0")
				if is := mustLink(t, "x0").Attrs(); is.MTU != 1400 || is.HardwareAddr.String() != "02:00:00:00:00:40" {
					t.Errorf("MTU %d, address %v", is.MTU, is.HardwareAddr)
				}
				wantNoRecords(t, dir)
			})
		}
	})
}

func TestALinkThatIsAnotherThanItsRowIsNotAdopted(t *testing.T) {
	nstest.Veth(t, "v0", "v1")
	target := newTarget(t, t.TempDir())
	for row, want := range map[Link]string{
		{Name: "v0", Type: Bridge, Adopt: true}:           "it cannot be adopted, because its type is not bridge",
		{Name: "v0", Type: Veth, Peer: "x1", Adopt: true}: "it cannot be adopted, because its other end is v1, not x1",
	} {
		if _, err := target.Update(t.Context(), txn(), row); !errors.Is(err, ErrForeign) || !strings.HasSuffix(fmt.Sprint(err), want) {
			t.Errorf("Update: %v, expected %s", err, want)
		}
	}
	t.Run("nor is a veth whose other end cannot be seen", func(t *testing.T) {
		nstest.Veth(t, "c0", "c1")
		nstest.IP(t, "link", "set", "c1", "netns", strconv.Itoa(otherNamespace(t)))
		_, err := target.Update(t.Context(), txn(), Link{Name: "c0", Type: Veth, Peer: "c1", Adopt: true})
		if !errors.Is(err, ErrForeign) || !strings.HasSuffix(err.Error(), "its other end is in another network namespace") {
			t.Errorf("Update: %v", err)
		}
	})
	t.Run("nor is the other end of one of ours", func(t *testing.T) {
		remove(t, "w0")
		mustUpdate(t, target, Link{Name: "w0", Type: Veth, Peer: "w1"}, true)
		_, err := target.Update(t.Context(), txn(), Link{Name: "w1", Type: Veth, Peer: "w0", Adopt: true})
		if !errors.Is(err, ErrForeign) {
			t.Errorf("Update: %v", err)
		}
	})
}

func TestACrashBetweenAdoptionAndAlias(t *testing.T) {
	bridge(t, "br0")
	dir := t.TempDir()
	before := newTarget(t, dir)
	row := Link{Name: "br0", Type: Bridge, Up: true, Adopt: true}
	s, err := before.looker(t.Context()).lookFor(txn(), row)
	if err == nil {
		_, err = before.keep(s, takenOver(s))
	}
	if err != nil {
		t.Fatal(err)
	}
	target := newTarget(t, dir)
	if err := target.Init(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantObserved(t, target, "br0")
	deleteObserved(t, target)
	wantAbsent(t, "br0")

	t.Run("of a link that others made again", func(t *testing.T) {
		bridge(t, "br0")
		target := newTarget(t, t.TempDir())
		mustUpdate(t, target, row, true)
		mac := mustLink(t, "br0").Attrs().HardwareAddr.String()
		nstest.IP(t, "link", "del", "br0")
		nstest.IP(t, "link", "add", "br0", "address", mac, "type", "bridge")
		wantObserved(t, target)
		mustDelete(t, target, "br0")
		mustLink(t, "br0")
	})
}

func TestALinkOfALostStateDirectoryIsLeftAloneUnlessItIsAdopted(t *testing.T) {
	remove(t, "br0")
	row := Link{Name: "br0", Type: Bridge, Up: true}
	mustUpdate(t, newTarget(t, t.TempDir()), row, true)
	target := newTarget(t, t.TempDir())
	wantObserved(t, target)
	_, err := target.Update(t.Context(), txn(), row)
	const want = `link br0: a link of this name exists and was not made by this agent, according to the state directory (it is of type bridge, with our alias "statehive"); it is left alone: delete it, set adopt to take it over, or leave out the type to only set its attributes`
	if fmt.Sprint(err) != want || !errors.Is(err, ErrForeign) {
		t.Errorf("error\n%v\nexpected\n%s", err, want)
	}
	mustDelete(t, target, "br0")
	row.Adopt = true
	mustUpdate(t, target, row, false)
	wantObserved(t, target, "br0")
	deleteObserved(t, target)
	wantAbsent(t, "br0")
}

// The name of a link of others is given to another one, whose own row is still there.
func TestTheDeleteOfARenamedLinkLeavesTheRecordOfTheOneWithItsName(t *testing.T) {
	for _, name := range []string{"x0", "e0", "e1"} {
		remove(t, name)
	}
	nstest.IP(t, "link", "add", "e0", "type", "bridge")
	nstest.IP(t, "link", "add", "e1", "type", "bridge")
	dir := t.TempDir()
	target := newTarget(t, dir)
	mustUpdate(t, target, Link{Name: "e0", MTU: 1300}, true)
	mustUpdate(t, target, Link{Name: "e1", MTU: 1310}, true)
	nstest.IP(t, "link", "set", "e0", "name", "x0")
	nstest.IP(t, "link", "set", "e1", "name", "e0")
	mustDelete(t, target, "e0")
	if is := mustLink(t, "x0").Attrs().MTU; is != 1500 {
		t.Errorf("the MTU of the renamed link is %d", is)
	}
	if is := mustLink(t, "e0").Attrs().MTU; is != 1310 {
		t.Errorf("the MTU of the other link is %d", is)
	}
	mustDelete(t, target, "e1")
	if is := mustLink(t, "e0").Attrs().MTU; is != 1500 {
		t.Errorf("at the end the MTU of the other link is %d", is)
	}
	wantNoRecords(t, dir)
}
