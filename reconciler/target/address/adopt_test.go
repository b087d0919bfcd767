package address

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/statehive/statehive/reconciler/target/internal/nstest"
	"github.com/statehive/statehive/reconciler/target/rtnl"
	"github.com/statehive/statehive/statedb"
)

func TestAnAddressThatWasThereBeforeIsAdopted(t *testing.T) {
	for _, address := range []string{"192.0.2.1/24", "2001:db8::1/64"} {
		t.Run(address, func(t *testing.T) {
			each(t, func(t *testing.T, dir string, target *Target) {
				nstest.IP(t, "address", "add", address, "dev", "e0", "nodad")
				left, adopted := row("e0", address), row("e0", address)
				adopted.Adopt = true
				mustUpdate(t, target, left, false)
				mustUpdate(t, target, adopted, target.marks) // it gets our mark
				mustUpdate(t, target, adopted, false)
				mustUpdate(t, target, left, false) // from then on it is ours
				second := newTarget(t, dir)
				mustDelete(t, second, left)
				wantOn(t, "e0", address, false)
				wantNoRecords(t, dir)
			})
		})
	}
}

func TestAnAddressThatWasThereBeforeIsNotChanged(t *testing.T) {
	for name, c := range map[string]struct {
		existing string
		row      Address
		says     string
	}{
		"lifetime": {
			"192.0.2.1/24 valid_lft 1000 preferred_lft 900", with("e0", "192.0.2.1/24", rtnl.Scope{}, "1h", ""),
			"address 192.0.2.1/24 on e0: it was there before, with the validLifetime 16m40s instead of 1h0m0s; it is left as it is: remove it, or take it over with adopt: true",
		},
		"lifetime of IPv6": {
			"2001:db8::1/64 nodad", with("e0", "2001:db8::1/64", rtnl.Scope{}, "forever", "1h"),
			"with the preferredLifetime forever instead of 1h0m0s",
		},
		"scope": {
			"192.0.2.1/24 scope host", with("e0", "192.0.2.1/24", rtnl.LinkScope, "", ""),
			"with the scope host instead of link",
		},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, dir string, target *Target) {
				nstest.IP(t, append([]string{"address", "add", "dev", "e0"}, strings.Fields(c.existing)...)...)
				waitForForeign(t, target, c.row) // the kernel tells of IPv6 addresses later
				_, err := target.Update(t.Context(), txn(), c.row)
				if !errors.Is(err, ErrForeign) || !strings.Contains(fmt.Sprint(err), c.says) {
					t.Errorf("Update: %v, expected %s", err, c.says)
				}
				wantNoRecords(t, dir)
				mustUpdate(t, target, row("e0", c.row.Address.String()), false) // which leaves that open
				adopted := c.row
				adopted.Adopt = true
				mustUpdate(t, target, adopted, true)
				if is, there := shown(t, adopted); !there || !is.isFor(adopted) {
					t.Errorf("there is %+v, %v", is, there)
				}
				mustUpdate(t, target, adopted, false)
				mustDelete(t, target, c.row)
				wantOn(t, "e0", c.row.Address.String(), false)
			})
		})
	}
}

// waitForForeign waits until Diff finds the address of a row to be others'.
func waitForForeign(t *testing.T, target *Target, row Address) {
	t.Helper()
	deadline, look := time.After(30*time.Second), time.NewTicker(20*time.Millisecond)
	defer look.Stop()
	for {
		_, err := target.Diff(t.Context(), txn(), row)
		if errors.Is(err, ErrForeign) {
			return
		}
		select {
		case <-look.C:
		case <-deadline:
			t.Fatalf("Diff: %v", err)
		}
	}
}

// reports are what a mirror has said of its health.
type reports chan string

func (r reports) OK(message string)                  { r <- message }
func (r reports) Degraded(message string, err error) { r <- message + ": " + err.Error() }
func (r reports) Stopped(message string)             { r <- message }

func (r reports) want(t *testing.T, what string) {
	t.Helper()
	for deadline := time.After(30 * time.Second); ; {
		select {
		case report := <-r:
			if strings.Contains(report, what) {
				return
			}
		case <-deadline:
			t.Fatalf("no report of %q", what)
		}
	}
}

// TestAnAddressOfOursWithoutARecordIsReported: the state directory was lost.
func TestAnAddressOfOursWithoutARecordIsReported(t *testing.T) {
	nstest.Veth(t, "e0", "e1")
	dir := t.TempDir()
	earlier := newTarget(t, dir)
	declared, orphan := row("e0", "192.0.2.1/24"), row("e0", "2001:db8::1/64")
	mustUpdate(t, earlier, declared, true)
	mustUpdate(t, earlier, orphan, true)
	if err := os.RemoveAll(filepath.Join(dir, "address")); err != nil {
		t.Fatal(err)
	}
	target := newTarget(t, dir)
	db, table := runMirror(t, target)
	seen := statedb.ReadOnly(table)
	ctx, cancel := context.WithCancel(t.Context())
	health, ended := make(reports, 100), make(chan error, 1)
	go func() { ended <- target.Unrecorded(db, seen).Run(ctx, health) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	health.want(t, "addresses that carry our mark without a record: e0 192.0.2.1/24, e0 2001:db8::1/64; declare them")
	wantObserved(t, target) // they are nobody's, and stay
	wantOn(t, "e0", "192.0.2.1/24", true)

	mustUpdate(t, target, declared, false)
	health.want(t, "without a record: e0 2001:db8::1/64; ")
	wantObserved(t, target, "e0 192.0.2.1/24")
	nstest.IP(t, "link", "set", "e0", "name", "lan0") // the record has the earlier name
	health.want(t, "without a record: lan0 2001:db8::1/64; ")
	nstest.IP(t, "address", "del", "2001:db8::1/64", "dev", "lan0")
	health.want(t, "recorded")
	mustDelete(t, target, declared) // it was ours
	wantOn(t, "lan0", "192.0.2.1/24", false)
	nstest.IP(t, "link", "del", "lan0")
}
