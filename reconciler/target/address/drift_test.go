package address

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/statehive/statehive/reconciler/target/internal/nstest"
	"github.com/statehive/statehive/reconciler/target/rtnl"
	"github.com/statehive/statehive/statedb"
)

// TestLifetimesThatOthersGiveAnAddressOfOursAreADifference: with them it loses our mark,
// and it would go by itself.
func TestLifetimesThatOthersGiveAnAddressOfOursAreADifference(t *testing.T) {
	for _, c := range []Address{
		row("e0", "192.0.2.1/24"), row("e0", "2001:db8::1/64"), with("e0", "192.0.2.1/24", rtnl.LinkScope, "", ""),
	} {
		t.Run(fmt.Sprint(c.Address, c.Scope), func(t *testing.T) {
			nstest.Veth(t, "e0", "e1")
			target := newTarget(t, t.TempDir())
			db, seen := runMirror(t, target)
			differs := func(row Address) bool {
				target.mirror.Load().Settled(t.Context())
				return len(target.differences(db.ReadTxn(), statedb.ReadOnly(seen), row)) > 0
			}
			mustUpdate(t, target, c, true)
			waitUntil(t, func() bool { return !differs(c) && !tentative(t, "e0") })
			nstest.IP(t, "address", "change", c.Address.String(), "dev", "e0", "valid_lft", "1000", "preferred_lft", "1000")
			waitUntil(t, func() bool { return differs(c) })
			mustUpdate(t, target, c, true)
			waitUntil(t, func() bool { return !differs(c) })

			mustDelete(t, target, c)
			nstest.IP(t, "address", "add", c.Address.String(), "dev", "e0", "nodad", "scope", "link", "valid_lft", "1000", "preferred_lft", "1000")
			c.Scope = rtnl.Scope{}
			mustUpdate(t, target, c, false) // it is others', and may be as they like
			waitUntil(t, func() bool { return !differs(c) })
			c.Adopt = true
			waitUntil(t, func() bool { return differs(c) })
			mustUpdate(t, target, c, true)
			waitUntil(t, func() bool { return !differs(c) })
			mustDelete(t, target, c)
		})
	}
}

func waitUntil(t *testing.T, holds func() bool) {
	t.Helper()
	deadline, look := time.After(30*time.Second), time.NewTicker(5*time.Millisecond)
	defer look.Stop()
	for !holds() {
		select {
		case <-look.C:
		case <-deadline:
			t.Fatal("it does not come about")
		}
	}
}

// tentative reports whether the kernel looks for duplicates of an address.
func tentative(t *testing.T, device string) bool {
	t.Helper()
	return nstest.IP(t, "address", "show", "dev", device, "tentative", "scope", "global") != ""
}

// TestManyAddressesOfARenamedDeviceAreRecorded: their records have its earlier name.
func TestManyAddressesOfARenamedDeviceAreRecorded(t *testing.T) {
	const count = 5000
	target := newTarget(t, t.TempDir())
	seen := make([]Seen, count)
	records := make(map[string]record, count)
	for i := range seen {
		address := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), 32)
		seen[i] = Seen{Device: "lan0", Index: 7, Address: address, Ours: true}
		key := Key{"e0", address}
		records[key.String()] = record{Key: key, Index: 7}
	}
	if errs := target.records.PutAll(records); len(errs) > 0 {
		t.Fatal(errs)
	}
	is := target.Unrecorded(nil, nil).Is
	for _, s := range seen {
		if is(s) {
			t.Fatalf("%v is said to have no record", s.Address)
		}
	}
	other := seen[0]
	other.Index++
	if !is(other) {
		t.Error("an address of another device is said to have a record")
	}
	if err := target.records.Remove(Key{"e0", seen[0].Address}.String()); err != nil || !is(seen[0]) {
		t.Errorf("without its record it is said to have one (%v)", err)
	}
}
