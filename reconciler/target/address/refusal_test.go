package address

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/statehive/statehive/reconciler/target/internal/nstest"
)

func disableIPv6(t *testing.T, device, value string) {
	t.Helper()
	if err := os.WriteFile("/proc/sys/net/ipv6/conf/"+device+"/disable_ipv6", []byte(value), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestARefusedAddressIsNotClaimed(t *testing.T) {
	for name, had := range map[string]bool{"that was never there": false, "that we had added before": true} {
		t.Run(name, func(t *testing.T) {
			nstest.Veth(t, "e0", "e1")
			dir := t.TempDir()
			target := newTarget(t, dir)
			row := row("e0", "2001:db8::1/64")
			if had {
				mustUpdate(t, target, row, true)
			}
			disableIPv6(t, "e0", "1") // which removes what is there
			if _, err := target.Update(t.Context(), txn(), row); err == nil {
				t.Fatal("it was added to a device without IPv6")
			}
			wantNoRecords(t, dir)
			disableIPv6(t, "e0", "0")
			nstest.IP(t, "address", "add", "2001:db8::1/64", "dev", "e0")
			mustDelete(t, target, row)
			wantOn(t, "e0", "2001:db8::1/64", true)
		})
	}
}

func TestAnAddressThatWasThereWithAnotherPrefixLengthIsNotClaimed(t *testing.T) {
	nstest.Veth(t, "e0", "e1")
	nstest.IP(t, "address", "add", "2001:db8::1/64", "dev", "e0")
	dir := t.TempDir()
	target := newTarget(t, dir)
	row := row("e0", "2001:db8::1/128")
	if _, err := target.Update(t.Context(), txn(), row); !errors.Is(err, syscall.EEXIST) {
		t.Fatalf("Update: %v", err)
	}
	wantNoRecords(t, dir)
	nstest.IP(t, "address", "del", "2001:db8::1/64", "dev", "e0")
	nstest.IP(t, "address", "add", "2001:db8::1/128", "dev", "e0")
	mustDelete(t, target, row)
	wantOn(t, "e0", "2001:db8::1/128", true)
}

func TestAnAddressThatOthersRemovedIsOursWhenWeAddIt(t *testing.T) {
	nstest.Veth(t, "e0", "e1")
	nstest.IP(t, "address", "add", "192.0.2.1/24", "dev", "e0")
	target := newTarget(t, t.TempDir())
	row := row("e0", "192.0.2.1/24")
	mustUpdate(t, target, row, false)
	nstest.IP(t, "address", "del", "192.0.2.1/24", "dev", "e0")
	mustUpdate(t, target, row, true)
	mustDelete(t, target, row)
	wantOn(t, "e0", "192.0.2.1/24", false)
}

func TestAnAddressForWhichThereWasNoTimeIsNotClaimed(t *testing.T) {
	nstest.Veth(t, "e0", "e1")
	dir := t.TempDir()
	target := newTarget(t, dir)
	row := row("e0", "192.0.2.1/24")
	ctx, cancel := context.WithCancel(t.Context())
	u := target.newUpdates(ctx, []Address{row})
	u.look([]Address{row})
	u.claim(txn())
	cancel()
	u.add()
	if !errors.Is(u.results[0].Err, context.Canceled) {
		t.Errorf("error %v", u.results[0].Err)
	}
	wantNoRecords(t, dir)
}

func TestADeviceThatIsNotAllowedGetsNoAddresses(t *testing.T) {
	nstest.Veth(t, "e0", "e1")
	dir := t.TempDir()
	link, err := netlink.LinkByName("e0")
	if err != nil {
		t.Fatal(err)
	}
	refusal := errors.New("not this one")
	var asked []string
	target, err := New(Config{Owned: nstest.Store(t, dir), Allowed: func(_ context.Context, device string, index int) error {
		asked = append(asked, fmt.Sprintf("%s %d", device, index-link.Attrs().Index))
		if device == "e0" {
			return refusal
		}
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer target.Close()
	rows := []Address{row("e0", "192.0.2.1/24"), row("none0", "192.0.2.1/24"), row("e0", "192.0.2.2/24")}
	for i, result := range target.UpdateBatch(t.Context(), txn(), rows) {
		if want := []error{refusal, syscall.ENODEV, refusal}[i]; !errors.Is(result.Err, want) {
			t.Errorf("%s: error %v, expected %v", rows[i].Key(), result.Err, want)
		}
	}
	if got := fmt.Sprint(asked); got != "[e0 0]" {
		t.Errorf("asked about %s", got)
	}
	wantOn(t, "e0", "192.0.2.1/24", false)
	wantNoRecords(t, dir)
	if _, err := target.Diff(t.Context(), txn(), rows[0]); !errors.Is(err, refusal) {
		t.Errorf("Diff: %v", err)
	}
	mustUpdate(t, target, row("e1", "192.0.2.1/24"), true)
}
