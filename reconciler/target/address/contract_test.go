package address

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"slices"
	"testing"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/target/internal/nstest"
	"github.com/statehive/statehive/reconciler/target/rtnl"
	"github.com/statehive/statehive/reconciler/targettest"
)

func newTarget(t *testing.T, dir string) *Target {
	t.Helper()
	target, err := New(Config{Owned: nstest.Store(t, dir)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { target.Close() })
	return target
}

func row(device, address string) Address {
	return Address{Device: device, Address: netip.MustParsePrefix(address)}
}

// with is row with more fields; an empty lifetime is none.
func with(device, address string, scope rtnl.Scope, valid, preferred string) Address {
	a := row(device, address)
	a.Scope = scope
	if errors.Join(a.ValidLifetime.UnmarshalText([]byte(valid)), a.PreferredLifetime.UnmarshalText([]byte(preferred))) != nil {
		panic("no lifetimes: " + valid + ", " + preferred)
	}
	return a
}

// shownAddress is an address as ip(8) shows it.
type shownAddress struct {
	Local      string
	PrefixLen  int
	Scope      string
	Deprecated bool
	Valid      uint32 `json:"valid_life_time"`
	Preferred  uint32 `json:"preferred_life_time"`
}

// shown returns the address of a row, if the device has it.
func shown(t *testing.T, row Address) (is shownAddress, there bool) {
	t.Helper()
	return shownBy(t, nstest.NewShower(t), row)
}

func shownBy(t *testing.T, ip *nstest.Shower, row Address) (is shownAddress, there bool) {
	t.Helper()
	var links []struct {
		Addresses []shownAddress `json:"addr_info"`
	}
	ip.Show(t, &links, "address", "show", "dev", row.Device)
	for _, link := range links {
		for _, is := range link.Addresses {
			if fmt.Sprintf("%s/%d", is.Local, is.PrefixLen) == row.Address.String() {
				return is, true
			}
		}
	}
	return is, false
}

// isFor reports whether what is left of the lifetimes is what the row says, or a little
// less.
func (s shownAddress) isFor(row Address) bool {
	want := row.lifetimes()
	near := func(is, want uint32) bool { return is == want || want != endless && is < want && want-is < 60 }
	if s.Deprecated != (want.preferred.seconds == 0) {
		return false
	}
	return near(s.Valid, want.valid.seconds) && (s.Deprecated || near(s.Preferred, want.preferred.seconds))
}

func keyText(row Address) string { return row.Key().String() }

func TestTargetKeepsTheContract(t *testing.T) {
	keepsTheContract(t, newTarget)
}

func TestTargetWithAMirrorKeepsTheContract(t *testing.T) {
	keepsTheContract(t, func(t *testing.T, dir string) *Target {
		t.Helper()
		target := newTarget(t, dir)
		runMirror(t, target)
		return target
	})
}

func keepsTheContract(t *testing.T, open func(*testing.T, string) *Target) {
	t.Helper()
	nstest.Veth(t, "e0", "e1")
	dir, ip := t.TempDir(), nstest.NewShower(t)
	holds := func(t *testing.T, row Address) bool {
		t.Helper()
		is, there := shownBy(t, ip, row)
		return there && is.Scope == cmp.Or(row.Scope.String(), "global") && is.isFor(row)
	}
	targettest.Run(t, targettest.Contract[Address]{
		Open: func(t *testing.T) reconciler.Target[Address] { return open(t, dir) },
		Key:  keyText,
		Rows: []Address{
			row("e0", "192.0.2.1/24"),
			row("e0", "192.0.2.2/24"),
			row("e0", "192.0.2.1/32"),
			row("e1", "192.0.2.1/24"),
			row("e0", "2001:db8::1/64"),
			row("e0", "2001:db8::2/64"),
			row("e0", "10.0.0.5/31"),
			with("e1", "172.16.5.9/24", rtnl.LinkScope, "", ""),
			with("e1", "198.51.100.9/24", rtnl.Scope{}, "1h", "0s"),
			with("e1", "2001:db8:1::9/64", rtnl.Scope{}, "forever", "30m"),
		},
		Variants: []Address{
			with("e1", "172.16.5.9/24", rtnl.HostScope, "", ""),
			with("e1", "172.16.5.9/24", rtnl.Scope{}, "2h", "1h"),
			with("e1", "198.51.100.9/24", rtnl.Scope{}, "2h", "0s"),
			with("e1", "198.51.100.9/24", rtnl.Scope{}, "", ""),
			with("e1", "2001:db8:1::9/64", rtnl.Scope{}, "forever", "0s"),
			with("e1", "2001:db8:1::9/64", rtnl.Scope{}, "1h", ""),
			with("e1", "2001:db8:1::9/64", rtnl.Scope{}, "", ""),
		},
		Invalid: []Address{
			row("", "192.0.2.1/24"), row("e0", "224.0.0.1/24"),
			{Device: "e0"},
			with("e0", "2001:db8::5/64", rtnl.LinkScope, "", ""),
			with("e0", "192.0.2.5/24", rtnl.Scope{}, "1h", "2h"),
		},
		Holds: holds,
		Remove: func(t *testing.T, row Address) {
			nstest.TryIP(t, "address", "del", row.Address.String(), "dev", row.Device)
		},
		Foreign: func(t *testing.T) func() bool {
			others := []Address{row("e0", "192.0.2.99/24"), row("e1", "203.0.113.9/24"), row("e0", "2001:db8::99/64")}
			for _, other := range others {
				nstest.IP(t, "address", "add", other.Address.String(), "dev", other.Device)
				t.Cleanup(func() { _ = exec.Command("ip", "address", "del", other.Address.String(), "dev", other.Device).Run() })
			}
			return func() bool {
				return !slices.ContainsFunc(others, func(other Address) bool { return !holds(t, other) })
			}
		},
	})
}
