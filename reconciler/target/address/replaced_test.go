package address

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/statehive/statehive/reconciler/target/internal/nstest"
	"github.com/statehive/statehive/reconciler/target/rtnl"
	"github.com/statehive/statehive/statedb"
)

// replaced has others remove the address of a row, which a target has added, and add their own in its place. The target that
// it returns may be another process. It has a mirror that knows of it.
func replaced(t *testing.T, row Address, dir string, target *Target) *Target {
	t.Helper()
	if !target.marks {
		t.Skip("the kernel does not keep our mark, so the record decides")
	}
	mustUpdate(t, target, row, true)
	remove := func() { nstest.IP(t, "address", "del", row.Address.String(), "dev", row.Device) }
	add := func() {
		nstest.IP(t, "address", "add", row.Address.String(), "dev", row.Device, "nodad", "valid_lft", "1000", "preferred_lft", "900")
	}
	if target.mirror.Load() == nil {
		remove()
		add()
		target = newTarget(t, dir)
		if err := target.Init(t.Context()); err != nil {
			t.Fatal(err)
		}
		return target
	}
	present := func() bool {
		known, err := target.present(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		rec, _ := target.records.Get(row.Key().String())
		_, found := known(rec.seenKey())
		return found
	}
	waitUntil(t, present) // the kernel announces IPv6 addresses later
	remove()
	waitUntil(t, func() bool { return !present() })
	add()
	waitUntil(t, present)
	return target
}

func TestAnAddressThatOthersAddedInPlaceOfOursIsTheirs(t *testing.T) {
	for _, address := range []string{"192.0.2.1/24", "2001:db8::1/64"} {
		t.Run(address, func(t *testing.T) {
			left, declared := row("e0", address), with("e0", address, rtnl.Scope{}, "2h", "")
			for name, test := range map[string]func(t *testing.T, dir string, target *Target, logged func() int){
				"its document goes": func(t *testing.T, dir string, target *Target, logged func() int) {
					wantObserved(t, target, left.Key().String())
					mustDelete(t, target, left)
					wantOn(t, "e0", address, true)
					wantNoRecords(t, dir)
					if n := logged(); n != 1 {
						t.Errorf("logged %d times", n)
					}
				},
				"it stays declared": func(t *testing.T, _ string, target *Target, logged func() int) {
					mustUpdate(t, target, left, false)
					mustUpdate(t, target, left, false)
					if is, there := shown(t, left); !there || is.Valid > 1000 {
						t.Errorf("there is %+v, %v", is, there)
					}
					if n := logged(); n != 1 {
						t.Errorf("logged %d times", n)
					}
				},
				"the document has other lifetimes": func(t *testing.T, _ string, target *Target, _ func() int) {
					if _, err := target.Update(t.Context(), txn(), declared); !errors.Is(err, ErrForeign) {
						t.Errorf("Update: %v", err)
					}
				},
				"it is adopted": func(t *testing.T, dir string, target *Target, _ func() int) {
					adopted := declared
					adopted.Adopt = true
					mustUpdate(t, target, adopted, true)
					mustUpdate(t, target, declared, false)
					mustDelete(t, newTarget(t, dir), declared)
					wantOn(t, "e0", address, false)
					wantNoRecords(t, dir)
				},
			} {
				t.Run(name, func(t *testing.T) {
					each(t, func(t *testing.T, dir string, target *Target) {
						target = replaced(t, left, dir, target)
						var log bytes.Buffer
						target.log = slog.New(slog.NewTextHandler(&log, nil))
						test(t, dir, target, func() int { return strings.Count(log.String(), "was replaced by somebody else") })
					})
				})
			}
		})
	}
}

// TestAnAddressOfOursThatOthersChangeIsStillOurs: a change without a protocol, here of the metric, removes our mark.
func TestAnAddressOfOursThatOthersChangeIsStillOurs(t *testing.T) {
	for _, row := range []Address{row("e0", "192.0.2.1/24"), row("e0", "2001:db8::1/64")} {
		t.Run(row.Address.String(), func(t *testing.T) {
			nstest.Veth(t, "e0", "e1")
			dir := t.TempDir()
			target := newTarget(t, dir)
			if !target.marks {
				t.Skip("the kernel does not keep our mark, so the record decides")
			}
			db, seen := runMirror(t, target)
			differs := func() bool {
				target.mirror.Load().Settled(t.Context())
				return len(target.differences(db.ReadTxn(), statedb.ReadOnly(seen), row)) > 0
			}
			mustUpdate(t, target, row, true)
			waitUntil(t, func() bool { return !differs() && !tentative(t, "e0") })
			for range 2 { // also after a listing
				nstest.IP(t, "address", "change", row.Address.String(), "dev", "e0", "metric", "500")
				waitUntil(t, differs)
				wantObserved(t, target, row.Key().String())
				if _, err := target.mirror.Load().Listed(t.Context()); err != nil || !differs() {
					t.Errorf("after a listing it is as it should be (%v)", err)
				}
				wantChanges(t, target, row, "protocol  79")
				mustUpdate(t, target, row, true)
				waitUntil(t, func() bool { return !differs() })
				mustUpdate(t, target, row, false)
			}
			if is := nstest.IP(t, "-4", "address", "show", "dev", "e0"); strings.Contains(is, "metric") {
				t.Errorf("the metric is left:\n%s", is)
			}
			nstest.IP(t, "address", "change", row.Address.String(), "dev", "e0", "metric", "500")
			waitUntil(t, differs)
			mustDelete(t, target, row)
			wantOn(t, "e0", row.Address.String(), false)
			wantNoRecords(t, dir)
		})
	}
}
