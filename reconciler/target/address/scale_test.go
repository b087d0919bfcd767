package address

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"testing"

	"github.com/statehive/statehive/reconciler/target/internal/nstest"
	"github.com/statehive/statehive/statedb"
)

// TestManyAddressesOfALinkNeedNoListing counts what a target asks the kernel: nothing lists,
// and what is right is not touched.
func TestManyAddressesOfALinkNeedNoListing(t *testing.T) {
	nstest.Veth(t, "e0", "e1")
	const count, size = 2000, 256
	rows := make([]Address, count)
	for i := range rows {
		rows[i] = row("e0", fmt.Sprintf("10.%d.%d.1/24", i>>8, i&0xff))
	}
	batches := func(do func([]Address)) {
		for first := 0; first < count; first += size {
			do(rows[first:min(first+size, count)])
		}
	}
	update := func(target *Target, changed bool) {
		t.Helper()
		batches(func(rows []Address) {
			for i, result := range target.UpdateBatch(t.Context(), txn(), rows) {
				if result.Err != nil || result.Result.Changed != changed {
					t.Fatalf("%s: %+v, expected changed %v", rows[i].Key(), result, changed)
				}
			}
		})
	}
	// A batch asks for the index of its device, and nothing else.
	const asked = (count + size - 1) / size
	dir := t.TempDir()
	target := newTarget(t, dir)
	runMirror(t, target)
	target.mirror.Load().Settled(t.Context())
	before := target.conn.Asked()
	update(target, true)
	if n := target.conn.Asked() - before; n > asked {
		t.Errorf("%d questions to add %d addresses, expected at most %d", n, count, asked)
	}
	if n := target.conn.Requested(); n != count {
		t.Errorf("%d requests to add %d addresses", n, count)
	}

	second := newTarget(t, dir) // another process starts over
	runMirror(t, second)
	second.mirror.Load().Settled(t.Context())
	before = second.conn.Asked()
	update(second, false)
	if n := second.conn.Asked() - before; n > asked {
		t.Errorf("%d questions to start over, expected at most %d", n, asked)
	}
	if n := second.conn.Requested(); n != 0 {
		t.Errorf("%d requests to start over what is right", n)
	}
	before = second.conn.Asked()
	batches(func(rows []Address) {
		for _, err := range second.DeleteBatch(t.Context(), txn(), rows) {
			if err != nil {
				t.Fatal(err)
			}
		}
	})
	if n := second.conn.Asked() - before; n > 0 {
		t.Errorf("%d questions to remove %d addresses", n, count)
	}
	if n := second.conn.Requested(); n != count {
		t.Errorf("%d requests to remove %d addresses", n, count)
	}
	wantObserved(t, second)
}

// TestDriftIsNotRepairedOnALinkThatOthersMadeUnderTheName: the address differs, because it
// went with its link, but what has the name now is not to be given any.
func TestDriftIsNotRepairedOnALinkThatOthersMadeUnderTheName(t *testing.T) {
	for _, address := range []netip.Prefix{netip.MustParsePrefix("192.0.2.1/24"), netip.MustParsePrefix("2001:db8::1/64")} {
		t.Run(address.String(), func(t *testing.T) {
			nstest.Veth(t, "e0", "e1")
			foreign, ours := errors.New("somebody else's"), 0
			target, err := New(Config{Owned: nstest.Store(t, t.TempDir()), Allowed: func(_ context.Context, _ string, index int) error {
				if ours == 0 {
					ours = index
				}
				if index != ours {
					return foreign
				}
				return nil
			}})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { target.Close() })
			db, seen := runMirror(t, target)
			differs := func(row Address) bool {
				target.mirror.Load().Settled(t.Context())
				return len(target.differences(db.ReadTxn(), statedb.ReadOnly(seen), row)) > 0
			}
			row := row("e0", address.String())
			mustUpdate(t, target, row, true)
			waitUntil(t, func() bool { return !differs(row) })

			nstest.IP(t, "link", "del", "e0")
			nstest.Veth(t, "e0", "e1")
			waitUntil(t, func() bool { return differs(row) }) // so a reconciler has it repaired
			requested := target.conn.Requested()
			if result, err := target.Update(t.Context(), txn(), row); !errors.Is(err, foreign) || result.Changed {
				t.Errorf("Update: %+v, %v", result, err)
			}
			if n := target.conn.Requested() - requested; n != 0 {
				t.Errorf("%d requests", n)
			}
			wantOn(t, "e0", address.String(), false)

			nstest.IP(t, "address", "add", address.String(), "dev", "e0", "nodad")
			mustDelete(t, target, row) // what was ours went with its link
			wantOn(t, "e0", address.String(), true)
		})
	}
}
