package link

import (
	"errors"
	"fmt"
	"runtime"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/target/internal/nstest"
	"github.com/statehive/statehive/statedb"
)

func TestATunIsMadeChangedAndDeleted(t *testing.T) {
	eachWay(t, func(t *testing.T, open func(*testing.T, string) *Target) {
		remove(t, "t0")
		dir := t.TempDir()
		target := open(t, dir)
		row := Link{Name: "t0", Type: Tun, Up: true, MTU: 1400}
		wantDiff(
			t, target, row,
			reconciler.Change{Field: "type", Want: Tun},
			reconciler.Change{Field: "mtu", Want: "1400"},
			reconciler.Change{Field: "up", Want: "true"},
		)
		mustUpdate(t, target, row, true)
		mustUpdate(t, target, row, false)
		wantLink(t, "t0", "tun up=true mtu=1400 mac= master= alias=statehive")
		index := mustLink(t, "t0").Attrs().Index
		row.MTU, row.Up = 1300, false
		mustUpdate(t, target, row, true)

		target = open(t, dir)
		if err := target.Init(t.Context()); err != nil {
			t.Fatal(err)
		}
		mustUpdate(t, target, row, false)
		nstest.IP(t, "link", "set", "t0", "mtu", "1200", "up")
		mustUpdate(t, target, row, true)
		wantLink(t, "t0", "tun up=false mtu=1300 mac= master= alias=statehive")
		if now := mustLink(t, "t0").Attrs().Index; now != index {
			t.Errorf("t0 was made again: index %d, then %d", index, now)
		}

		nstest.IP(t, "link", "del", "t0")
		mustUpdate(t, target, row, true)
		wantObserved(t, target, "t0")
		nstest.IP(t, "link", "del", "t0")
		nstest.IP(t, "tuntap", "add", "t0", "mode", "tun") // by others, in its place
		if _, err := target.Update(t.Context(), txn(), row); !errors.Is(err, ErrForeign) {
			t.Errorf("Update of a tun that others made: %v", err)
		}
		mustDelete(t, target, "t0")
		mustLink(t, "t0")
		wantNoRecords(t, dir)
	})
}

func TestATunOfAProcessThatDiesBeforeItHasTheAliasIsGone(t *testing.T) {
	device, err := createTun("t0")
	if err != nil {
		t.Fatal(err)
	}
	mustLink(t, "t0")
	if _, err := createTun("t0"); !errors.Is(err, syscall.EBUSY) {
		t.Errorf("the same tun was made twice: %v", err)
	}
	if err := device.close(); err != nil {
		t.Error(err)
	}
	wantAbsent(t, "t0")
}

// attachAs attaches to a tun link as another user, in a thread of its own.
func attachAs(t *testing.T, user uintptr, name string) error {
	t.Helper()
	request, err := unix.NewIfreq(name)
	if err != nil {
		t.Fatal(err)
	}
	request.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
	fd, err := unix.Open(tunDevice, unix.O_RDWR|unix.O_CLOEXEC, 0) // as everybody may where udev has made the device
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(fd) }()
	result := make(chan error)
	go func() {
		runtime.LockOSThread()
		if _, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, user, user, user); errno != 0 {
			result <- errno
			return
		}
		result <- unix.IoctlIfreq(fd, unix.TUNSETIFF, request)
	}()
	return <-result
}

func TestOtherUsersCannotAttachToATun(t *testing.T) {
	remove(t, "t0")
	target := newTarget(t, t.TempDir())
	mustUpdate(t, target, Link{Name: "t0", Type: Tun, Up: true}, true)
	if err := attachAs(t, 65534, "t0"); !errors.Is(err, syscall.EPERM) {
		t.Errorf("another user attaches: %v", err)
	}
	if err := attachAs(t, 0, "t0"); err != nil {
		t.Errorf("root attaches: %v", err)
	}
}

func TestATakenNameOfATunIsNamed(t *testing.T) {
	bridge(t, "t0")
	target := newTarget(t, t.TempDir())
	u := &updates{target: target, ctx: t.Context(), rows: []Link{{Name: "t0", Type: Tun}}}
	_, err := createTun("t0")
	if err == nil {
		t.Fatal("a tun was made although there is a bridge of its name")
	}
	if err := u.explainTun(0, err); fmt.Sprint(err) != "create tun t0: link t0 already exists: file exists" {
		t.Error(err)
	}
}

// The kernel does not tell of the alias of a link that is down.
func TestATunThatIsDownIsNotSeenToDrift(t *testing.T) {
	remove(t, "t0")
	target := newTarget(t, t.TempDir())
	db, seen := runMirror(t, target)
	row := Link{Name: "t0", Type: Tun}
	mustUpdate(t, target, row, true)
	index := mustLink(t, "t0").Attrs().Index
	nstest.WaitForRows(
		t, db, statedb.ReadOnly(seen), func(s Seen) bool { return s.Name == "t0" },
		Seen{Name: "t0", Index: index, Type: Tun, MTU: 1500},
	)
	if got := target.differences(db.ReadTxn(), statedb.ReadOnly(seen), row); len(got) != 0 {
		t.Errorf("it is seen to differ: %v", got)
	}
}
