package address

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/statehive/statehive/reconciler/target/internal/nstest"
	"github.com/statehive/statehive/reconciler/target/ownership"
	"github.com/statehive/statehive/reconciler/target/rtnl"
	"github.com/statehive/statehive/statedb"
)

func txn() statedb.ReadTxn { return statedb.New().ReadTxn() }

func mustUpdate(t *testing.T, target *Target, row Address, changed bool) {
	t.Helper()
	result, err := target.Update(t.Context(), txn(), row)
	if err != nil || result.Changed != changed {
		t.Fatalf("Update(%s) = %v, %v, expected changed %v", row.Key(), result, err, changed)
	}
}

func mustDelete(t *testing.T, target *Target, row Address) {
	t.Helper()
	if err := target.Delete(t.Context(), txn(), row); err != nil {
		t.Fatal(err)
	}
}

func wantObserved(t *testing.T, target *Target, want ...string) {
	t.Helper()
	var keys []string
	for row, err := range target.Observe(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, row.Key().String())
	}
	if diff := cmp.Diff(want, keys); diff != "" {
		t.Errorf("observed (-want +got):\n%s", diff)
	}
}

func wantOn(t *testing.T, device, address string, want bool) {
	t.Helper()
	if got := strings.Contains(nstest.IP(t, "address", "show", "dev", device), " "+address+" "); got != want {
		t.Errorf("%s has %s: %v, expected %v", device, address, got, want)
	}
}

func wantNoRecords(t *testing.T, dir string) {
	t.Helper()
	if entries, err := os.ReadDir(filepath.Join(dir, "address")); err != nil || len(entries) != 0 {
		t.Errorf("left over: %v, %v", entries, err)
	}
}

func TestAnAddressThatWasThereBeforeStays(t *testing.T) {
	nstest.Veth(t, "e0", "e1")
	nstest.IP(t, "address", "add", "192.0.2.1/24", "dev", "e0")
	dir := t.TempDir()
	old := row("e0", "192.0.2.1/24")
	target := newTarget(t, dir)
	mustUpdate(t, target, old, false)
	wantObserved(t, target, "e0 192.0.2.1/24")

	target = newTarget(t, dir)
	mustDelete(t, target, old)
	wantOn(t, "e0", "192.0.2.1/24", true)
	wantNoRecords(t, dir)
}

func TestAnAddressThatCameBetweenLookAndRequestStays(t *testing.T) {
	nstest.Veth(t, "e0", "e1")
	for _, address := range []string{"192.0.2.1/24", "2001:db8::1/64"} {
		target := newTarget(t, t.TempDir())
		row := row("e0", address)
		u := target.newUpdates(t.Context(), []Address{row})
		u.look([]Address{row})
		u.claim(txn())
		nstest.IP(t, "address", "add", address, "dev", "e0")
		u.add()
		if err := u.results[0].Err; err != nil {
			t.Fatal(err)
		}
		mustDelete(t, target, row)
		wantOn(t, "e0", address, true)
	}
}

const promoteFile = "/proc/sys/net/ipv4/conf/e0/promote_secondaries"

func TestAddressesOfTheSameNetworkStayWhenTheFirstOneGoes(t *testing.T) {
	first, second := row("e0", "192.0.2.1/24"), row("e0", "192.0.2.2/24")
	setUp := func(t *testing.T) *Target {
		t.Helper()
		nstest.Veth(t, "e0", "e1")
		if err := os.WriteFile(promoteFile, []byte("0"), 0o600); err != nil {
			t.Fatal(err)
		}
		target := newTarget(t, t.TempDir())
		mustUpdate(t, target, first, true)
		mustUpdate(t, target, second, true)
		nstest.IP(t, "address", "add", "192.0.2.3/24", "dev", "e0", "label", "e0:x", "valid_lft", "1000", "preferred_lft", "900")
		return target
	}
	check := func(t *testing.T, target *Target) {
		t.Helper()
		wantOn(t, "e0", "192.0.2.1/24", false)
		wantObserved(t, target, "e0 192.0.2.2/24")
		foreign := nstest.IP(t, "address", "show", "dev", "e0", "label", "e0:x")
		for _, part := range []string{"192.0.2.3/24", "valid_lft (1000|99.)sec", "preferred_lft (900|89.)sec"} { // a second may pass
			if !regexp.MustCompile(part).MatchString(foreign) {
				t.Errorf("the address that others made lacks %q:\n%s", part, foreign)
			}
		}
	}
	and := func(t *testing.T, target *Target) { // so do routes
		t.Helper()
		nstest.IP(t, "route", "add", "10.1.0.0/16", "via", "192.0.2.9")
		nstest.IP(t, "route", "add", "10.2.0.0/16", "dev", "e0", "src", "192.0.2.3")
		for range 2 { // the second time, there is nothing to do
			mustDelete(t, target, first)
		}
		check(t, target)
		if routes := nstest.IP(t, "route", "show", "proto", "boot"); strings.Count(routes, "\n") != 2 {
			t.Errorf("of the routes that others made are left:\n%s", routes)
		}
	}
	t.Run("and so do routes", func(t *testing.T) {
		and(t, setUp(t))
		if now, err := os.ReadFile(promoteFile); err != nil || string(now) != "0\n" {
			t.Errorf("promote_secondaries is %q, %v", now, err)
		}
	})
	t.Run("where another process keeps their sysctls busy", func(t *testing.T) {
		target := setUp(t)
		end := nstest.SilentDisk(t, "/proc/sys/net/ipv4/conf/e0")
		and(t, target)
		end()
	})
	t.Run("where sysctls cannot be set", func(t *testing.T) {
		target := setUp(t)
		if err := unix.Mount("none", "/proc/sys/net/ipv4/conf/e0", "tmpfs", unix.MS_RDONLY, ""); err != nil {
			t.Fatal(err)
		}
		and(t, target)
		if err := unix.Unmount("/proc/sys/net/ipv4/conf/e0", 0); err != nil {
			t.Fatal(err)
		}
	})
}

func TestAddressesRemovedAtOnceStayAway(t *testing.T) {
	nstest.Veth(t, "e0", "e1")
	target := newTarget(t, t.TempDir())
	var rows []Address
	for i := range 16 {
		rows = append(rows, row("e0", fmt.Sprintf("10.%d.0.%d/24", i%2, i+1)))
	}
	for range 10 {
		for _, row := range rows {
			mustUpdate(t, target, row, true)
		}
		var workers sync.WaitGroup
		for _, row := range rows {
			workers.Go(func() {
				if err := target.Delete(t.Context(), txn(), row); err != nil {
					t.Error(err)
				}
			})
		}
		workers.Wait()
		if left := nstest.IP(t, "-4", "-o", "address", "show", "dev", "e0"); left != "" {
			t.Fatalf("after the Delete of all there are\n%s", left)
		}
	}
}

func TestACrashBetweenRecordAndAddress(t *testing.T) {
	nstest.Veth(t, "e0", "e1")
	dir := t.TempDir()
	row := row("e0", "192.0.2.1/24")
	crash := func() {
		target := newTarget(t, dir)
		u := target.newUpdates(t.Context(), []Address{row})
		u.look([]Address{row})
		if u.claim(txn()); u.results[0].Err != nil {
			t.Fatal(u.results[0].Err)
		}
	}
	crash()
	target := newTarget(t, dir)
	wantObserved(t, target)
	if err := target.Init(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantNoRecords(t, dir)

	crash()
	target = newTarget(t, dir)
	mustUpdate(t, target, row, true)
	target = newTarget(t, dir) // dies after the address was added
	if err := target.Init(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantObserved(t, target, "e0 192.0.2.1/24")
	mustDelete(t, target, row)
	wantOn(t, "e0", "192.0.2.1/24", false)
	wantNoRecords(t, dir)
}

func TestRecordsOfAnotherNamespaceClaimNothing(t *testing.T) {
	nstest.Veth(t, "e0", "e1")
	dir := t.TempDir()
	identity, err := ownership.CurrentIdentity()
	if err != nil {
		t.Fatal(err)
	}
	identity.Netns = "cookie:1"
	elsewhere, err := ownership.Open(ownership.Config{Dir: dir, Identity: identity})
	if err != nil {
		t.Fatal(err)
	}
	earlier, err := New(Config{Owned: elsewhere})
	if err != nil {
		t.Fatal(err)
	}
	defer earlier.Close()
	row := row("e0", "192.0.2.1/24")
	mustUpdate(t, earlier, row, true)

	target := newTarget(t, dir)
	wantObserved(t, target)
	mustDelete(t, target, row)
	wantOn(t, "e0", "192.0.2.1/24", true)
}

func TestRecordsOfADeviceThatWasMadeAgainClaimNothing(t *testing.T) {
	nstest.Veth(t, "e0", "e1")
	target := newTarget(t, t.TempDir())
	row := row("e0", "192.0.2.1/24")
	mustUpdate(t, target, row, true)
	nstest.IP(t, "link", "del", "e0")
	if _, err := target.Update(t.Context(), txn(), row); fmt.Sprint(err) != `device "e0" does not exist` || !errors.Is(err, syscall.ENODEV) {
		t.Errorf("Update without its device: %v", err)
	}
	nstest.Veth(t, "e0", "e1")
	nstest.IP(t, "address", "add", "192.0.2.1/24", "dev", "e0")
	wantObserved(t, target)
	mustDelete(t, target, row)
	wantOn(t, "e0", "192.0.2.1/24", true)
}

func TestRecordsOfAddressesGoWithTheirDevices(t *testing.T) {
	nstest.Veth(t, "e0", "e1")
	dir := t.TempDir()
	target := newTarget(t, dir)
	mustUpdate(t, target, row("e0", "192.0.2.1/24"), true)
	mustUpdate(t, target, row("e1", "192.0.2.2/24"), true)
	nstest.IP(t, "address", "del", "192.0.2.1/24", "dev", "e0")
	wantObserved(t, target, "e1 192.0.2.2/24")
	if n := len(maps.Collect(target.records.All())); n != 2 {
		t.Errorf("%d records while the devices are there, expected 2", n)
	}
	nstest.IP(t, "link", "del", "e0")
	wantObserved(t, target)
	if n := len(maps.Collect(target.records.All())); n != 2 {
		t.Errorf("%d records after Observe, which is to write nothing, expected 2", n)
	}
	mustDelete(t, target, row("e0", "192.0.2.1/24"))
	if err := newTarget(t, dir).Init(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantNoRecords(t, dir)
}

func TestAnAddressIsAddedAgainWithItsDevice(t *testing.T) {
	nstest.Veth(t, "e0", "e1")
	target := newTarget(t, t.TempDir())
	row := row("e0", "192.0.2.1/24")
	mustUpdate(t, target, row, true)
	nstest.IP(t, "link", "del", "e0")
	nstest.Veth(t, "e0", "e1")
	mustUpdate(t, target, row, true)
	wantObserved(t, target, "e0 192.0.2.1/24")
	mustDelete(t, target, row)
	wantOn(t, "e0", "192.0.2.1/24", false)
}

func TestAnAddressIsRemovedFromADeviceThatWasRenamed(t *testing.T) {
	nstest.Veth(t, "e0", "e1")
	rename := func() {
		nstest.IP(t, "link", "set", "e0", "down")
		nstest.IP(t, "link", "set", "e0", "name", "lan0")
	}
	row := row("e0", "192.0.2.1/24")
	t.Run("when its row is deleted", func(t *testing.T) {
		target := newTarget(t, t.TempDir())
		mustUpdate(t, target, row, true)
		rename()
		wantObserved(t, target, "e0 192.0.2.1/24")
		mustDelete(t, target, row)
		wantOn(t, "lan0", "192.0.2.1/24", false)
	})
	nstest.IP(t, "link", "set", "lan0", "name", "e0")
	t.Run("when another has the name", func(t *testing.T) {
		target := newTarget(t, t.TempDir())
		mustUpdate(t, target, row, true)
		rename()
		nstest.IP(t, "link", "set", "e1", "down")
		nstest.IP(t, "link", "set", "e1", "name", "e0")
		mustUpdate(t, target, row, true)
		wantOn(t, "lan0", "192.0.2.1/24", false)
		wantOn(t, "e0", "192.0.2.1/24", true)
	})
}

func TestAnotherPrefixLengthIsNamed(t *testing.T) {
	nstest.Veth(t, "e0", "e1")
	target := newTarget(t, t.TempDir())
	mustUpdate(t, target, row("e0", "2001:db8::1/64"), true)
	_, err := target.Update(t.Context(), txn(), row("e0", "2001:db8::1/128"))
	const want = "add address 2001:db8::1/128 to e0: it is there already with another prefix length: file exists"
	if fmt.Sprint(err) != want || !errors.Is(err, syscall.EEXIST) {
		t.Errorf("error\n%v\nexpected\n%s", err, want)
	}
	mustDelete(t, target, row("e0", "2001:db8::1/64"))
	mustUpdate(t, target, row("e0", "2001:db8::1/128"), true)
}

func TestAddressesThatTheKernelFlushedAreRepaired(t *testing.T) {
	nstest.Veth(t, "e0", "e1")
	target := newTarget(t, t.TempDir())
	row := row("e0", "2001:db8::1/64")
	mustUpdate(t, target, row, true)
	nstest.IP(t, "link", "set", "e0", "down")
	wantObserved(t, target)
	nstest.IP(t, "link", "set", "e0", "up")
	mustUpdate(t, target, row, true)
	mustUpdate(t, target, row, false)
}

func TestAnAddressThatAnotherHostHasIsAnError(t *testing.T) {
	nstest.Veth(t, "e0", "e1") // the other end plays the other host
	nstest.IP(t, "address", "add", "2001:db8::1/64", "dev", "e1", "nodad")
	target := newTarget(t, t.TempDir())
	row := row("e0", "2001:db8::1/64")
	mustUpdate(t, target, row, true)

	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for {
		_, err := target.Update(ctx, txn(), row)
		if errors.Is(err, ErrDuplicate) {
			const want = "address 2001:db8::1/64 on e0: another host has the address, as the kernel's detection of duplicates found; it is not in use here: free it there; it is tried again every 30s"
			if err.Error() != want {
				t.Errorf("error\n%v\nexpected\n%s", err, want)
			}
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		<-look.C
	}
	if _, err := target.Diff(ctx, txn(), row); err != nil && !errors.Is(err, ErrDuplicate) {
		t.Error(err)
	}

	// It is used when the other host no longer has it.
	nstest.IP(t, "address", "del", "2001:db8::1/64", "dev", "e1")
	waitUntil(t, func() bool {
		_, err := target.Update(ctx, txn(), row)
		return err == nil && nstest.IP(t, "address", "show", "dev", "e0", "tentative") == ""
	})
	wantOn(t, "e0", "2001:db8::1/64", true)
	mustDelete(t, target, row)
	wantOn(t, "e0", "2001:db8::1/64", false)
}

// The kernel removes such an address, so that it does not say any more that it is a duplicate.
func TestAnAddressWithLifetimesThatAnotherHostHasIsAnError(t *testing.T) {
	nstest.Veth(t, "e0", "e1")
	nstest.IP(t, "address", "add", "2001:db8::1/64", "dev", "e1", "nodad")
	target := newTarget(t, t.TempDir())
	runMirror(t, target)
	row := with("e0", "2001:db8::1/64", rtnl.Scope{}, "24h", "12h")
	mustUpdate(t, target, row, true)
	gone := func() bool { return nstest.IP(t, "address", "show", "dev", "e0", "to", "2001:db8::1") == "" }
	for range 2 { // it is added anew, and removed again
		waitUntil(t, gone)
		if _, err := target.Diff(t.Context(), txn(), row); !errors.Is(err, ErrDuplicate) {
			t.Errorf("compared when it is gone: %v, want %v", err, ErrDuplicate)
		}
		if _, err := target.Update(t.Context(), txn(), row); !errors.Is(err, ErrDuplicate) {
			t.Errorf("applied when it is gone: %v, want %v", err, ErrDuplicate)
		}
	}
	nstest.IP(t, "address", "del", "2001:db8::1/64", "dev", "e1")
	waitUntil(t, func() bool {
		_, err := target.Update(t.Context(), txn(), row)
		return err == nil && !gone() && nstest.IP(t, "address", "show", "dev", "e0", "tentative") == ""
	})
	nstest.IP(t, "address", "del", "2001:db8::1/64", "dev", "e0") // by others: it is no duplicate
	mustUpdate(t, target, row, true)
	mustDelete(t, target, row)
}

func TestADuplicateAddressOfOthersIsLeftAlone(t *testing.T) {
	nstest.Veth(t, "e0", "e1")
	nstest.IP(t, "address", "add", "2001:db8::1/64", "dev", "e1", "nodad")
	nstest.IP(t, "address", "add", "2001:db8::1/64", "dev", "e0")
	waitUntil(t, func() bool { return nstest.IP(t, "address", "show", "dev", "e0", "dadfailed") != "" })
	target := newTarget(t, t.TempDir())
	for range 3 {
		if _, err := target.Update(t.Context(), txn(), row("e0", "2001:db8::1/64")); !errors.Is(err, ErrDuplicate) {
			t.Error(err)
		}
	}
	if nstest.IP(t, "address", "show", "dev", "e0", "dadfailed") == "" {
		t.Error("it was added anew")
	}
}

func TestAnIPv6AddressThatWouldExpireTakesTheRouteOfItsNetwork(t *testing.T) {
	nstest.Veth(t, "e0", "e1")
	for _, mirrored := range []bool{false, true} {
		target := newTarget(t, t.TempDir())
		if mirrored {
			runMirror(t, target)
		}
		mustUpdate(t, target, with("e0", "2001:db8::1/64", rtnl.Scope{}, "24h", "12h"), true)
		if nstest.IP(t, "-6", "route", "show", "2001:db8::/64") == "" {
			t.Error("there is no route")
		}
		mustDelete(t, target, row("e0", "2001:db8::1/64"))
		if route := nstest.IP(t, "-6", "route", "show", "2001:db8::/64"); route != "" {
			t.Errorf("left is %s", route)
		}
	}
}

// The kernel wants one scope for all IPv4 addresses of a network on a device.
func TestAScopeThatTheKernelWouldRefuseIsRefusedBeforeTheAddressIsRemoved(t *testing.T) {
	nstest.Veth(t, "e0", "e1")
	target := newTarget(t, t.TempDir())
	first, second := row("e0", "192.0.2.1/24"), row("e0", "192.0.2.2/24")
	mustUpdate(t, target, first, true)
	mustUpdate(t, target, second, true)
	slip := with("e0", "192.0.2.1/24", rtnl.LinkScope, "", "")
	const want = "change scope of address 192.0.2.1/24 on e0 to link: 192.0.2.2/24 is in the same network and has scope global, and the kernel wants the same for both: it stays as it is"
	_, err := target.Update(t.Context(), txn(), slip)
	_, diffErr := target.Diff(t.Context(), txn(), slip)
	for _, err := range []error{err, diffErr} {
		if err == nil || err.Error() != want {
			t.Errorf("error %v, expected %s", err, want)
		}
	}
	mustUpdate(t, target, first, false)
	mustDelete(t, target, second)
	mustUpdate(t, target, slip, true)
}

// Both rows are to have another scope, but one of them is not applied, as in a pause: what was removed comes back.
func TestAnAddressIsPutBackIfItsNewScopeIsRefused(t *testing.T) {
	nstest.Veth(t, "e0", "e1")
	db := statedb.New()
	rows, err := statedb.NewTable(db, Schema())
	if err != nil {
		t.Fatal(err)
	}
	target := newTarget(t, t.TempDir())
	target.rows = statedb.ReadOnly(rows)
	for _, address := range []string{"192.0.2.1/24", "192.0.2.2/24"} {
		mustUpdate(t, target, row("e0", address), true)
	}
	first, second := with("e0", "192.0.2.1/24", rtnl.LinkScope, "", ""), with("e0", "192.0.2.2/24", rtnl.LinkScope, "", "")
	if err := db.Update(t.Context(), func(txn *statedb.WriteTxn) error {
		_, _, err := rows.Insert(txn, first)
		_, _, err2 := rows.Insert(txn, second)
		return errors.Join(err, err2)
	}, rows); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := target.Update(t.Context(), db.ReadTxn(), first); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("error %v", err)
		}
		if addresses := nstest.IP(t, "address", "show", "dev", "e0", "scope", "global"); !strings.Contains(addresses, "192.0.2.1/24") {
			t.Errorf("it is gone: %s", addresses)
		}
	}
	results := target.UpdateBatch(t.Context(), db.ReadTxn(), []Address{first, second})
	if err := errors.Join(results[0].Err, results[1].Err); err != nil {
		t.Error(err)
	}
	if addresses := nstest.IP(t, "address", "show", "dev", "e0", "scope", "link"); strings.Count(addresses, "192.0.2.") < 2 {
		t.Errorf("the addresses are %s", addresses)
	}
}
