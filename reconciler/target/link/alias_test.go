package link

import (
	"errors"
	"strings"
	"testing"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/target/internal/nstest"
)

// TestALinkOfOursIsKnownWithoutItsAlias: an operator has given it another one, and nothing
// else is as it was recorded before the link was made.
func TestALinkOfOursIsKnownWithoutItsAlias(t *testing.T) {
	for name, row := range map[string]Link{
		"tun":                {Name: "x0", Type: Tun, Up: true},
		"with an address":    {Name: "x0", Type: Veth, Peer: "x1", Up: true, MAC: mac1},
		"without an address": {Name: "x0", Type: Bridge, Up: true},
	} {
		t.Run(name, func(t *testing.T) {
			eachWay(t, func(t *testing.T, open func(*testing.T, string) *Target) {
				remove(t, "x0")
				dir := t.TempDir()
				target := open(t, dir)
				mustUpdate(t, target, row, true)
				mustUpdate(t, target, row, false)
				nstest.IP(t, "link", "set", "x0", "alias", "uplink of the office")
				if row.Type != Tun {
					nstest.IP(t, "link", "set", "x0", "address", "02:00:00:00:00:07")
				}
				if err := target.Vouches(t.Context(), "x0", mustLink(t, "x0").Attrs().Index); err != nil {
					t.Error(err)
				}
				mustUpdate(t, target, row, true)
				wantDiff(t, target, row)
				if got := mustLink(t, "x0").Attrs().Alias; got != alias {
					t.Errorf("alias is %q", got)
				}

				nstest.IP(t, "link", "set", "x0", "alias", "uplink of the office")
				target = open(t, dir)
				if err := target.Init(t.Context()); err != nil {
					t.Fatal(err)
				}
				wantDiff(t, target, row, reconciler.Change{Field: "alias", Is: "uplink of the office", Want: alias})
				wantObserved(t, target, "x0")
				mustDelete(t, target, "x0")
				wantAbsent(t, "x0")
				wantNoRecords(t, dir)
			})
		})
	}
}

func TestATapIsNotATun(t *testing.T) {
	eachWay(t, func(t *testing.T, open func(*testing.T, string) *Target) {
		nstest.IP(t, "tuntap", "add", "x0", "mode", "tap")
		remove(t, "x0")
		dir := t.TempDir()
		_, err := open(t, dir).Update(t.Context(), txn(), Link{Name: "x0", Type: Tun, Adopt: true})
		if !errors.Is(err, ErrForeign) || !strings.Contains(err.Error(), "(it is of type tap)") {
			t.Errorf("Update = %v", err)
		}
		wantNoRecords(t, dir)
	})
}
