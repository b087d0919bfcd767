package neighbor

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/target/internal/nstest"
	"github.com/statehive/statehive/statedb"
)

func txn() statedb.ReadTxn { return statedb.New().ReadTxn() }

// each runs a test with a target that has a mirror, and one that has none, on e0 and
// its other end e1.
func each(t *testing.T, test func(t *testing.T, target *Target)) {
	t.Helper()
	t.Run("with a mirror", func(t *testing.T) {
		nstest.Veth(t, "e0", "e1")
		target := newTarget(t)
		runMirror(t, target)
		test(t, target)
	})
	t.Run("without a mirror", func(t *testing.T) {
		nstest.Veth(t, "e0", "e1")
		test(t, newTarget(t))
	})
}

func mustUpdate(t *testing.T, target *Target, row Neighbor, changed bool) {
	t.Helper()
	result, err := target.Update(t.Context(), txn(), row)
	if err != nil || result.Changed != changed {
		t.Fatalf("Update(%s) = %v, %v, expected changed %v", row.Key(), result, err, changed)
	}
}

func mustDelete(t *testing.T, target *Target, row Neighbor) {
	t.Helper()
	if err := target.Delete(t.Context(), txn(), row); err != nil {
		t.Fatal(err)
	}
}

func wantDiff(t *testing.T, target *Target, row Neighbor, want ...reconciler.Change) {
	t.Helper()
	changes, err := target.Diff(t.Context(), txn(), row)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, changes); diff != "" && len(want)+len(changes) > 0 {
		t.Errorf("Diff(%s) (-want +got):\n%s", row.Key(), diff)
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
	if diff := cmp.Diff(want, keys); diff != "" && len(want)+len(keys) > 0 {
		t.Errorf("observed (-want +got):\n%s", diff)
	}
}

// wantShown wants what ip(8) shows of an address to contain a text; empty: nothing.
func wantShown(t *testing.T, address, want string) {
	t.Helper()
	shown := nstest.IP(t, "-d", "neigh", "show", address, "nud", "all")
	if !strings.Contains(shown, want) || want == "" && shown != "" {
		t.Errorf("neighbor %s is %q, expected %q", address, shown, want)
	}
}

func TestAnEntryThatOthersMadeIsLeftAlone(t *testing.T) {
	for name, c := range map[string]struct {
		add    []string
		holder string
	}{
		"permanent":                      {[]string{"lladdr", mac6, "nud", "permanent"}, "permanent, mac " + mac6 + ", protocol 0"},
		"the same, but for its protocol": {[]string{"lladdr", mac5, "nud", "permanent", "protocol", "static"}, "permanent, mac " + mac5 + ", protocol static"},
		"of a routing daemon": {
			[]string{"lladdr", mac6, "nud", "reachable", "extern_learn", "protocol", "zebra"}, "extern_learn, mac " + mac6 + ", protocol zebra",
		},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, target *Target) {
				for _, address := range []string{"192.0.2.5", "2001:db8::5"} {
					row := row("e0", address, mac5)
					nstest.IP(t, append([]string{"neigh", "add", address, "dev", "e0"}, c.add...)...)
					before := nstest.IP(t, "neigh")
					want := "neighbor e0 " + address + ": somebody else's entry is there (" + c.holder + "); it is left alone: remove it, or take it over with adopt: true"
					if _, err := target.Update(t.Context(), txn(), row); !errors.Is(err, ErrForeign) || err.Error() != want {
						t.Errorf("Update: %v\nexpected %s", err, want)
					}
					if _, err := target.Diff(t.Context(), txn(), row); !errors.Is(err, ErrForeign) {
						t.Errorf("Diff: %v", err)
					}
					wantObserved(t, target)
					mustDelete(t, target, row)
					if after := nstest.IP(t, "neigh"); after != before || before == "" {
						t.Errorf("neighbors were\n%s\nand are\n%s", before, after)
					}

					row.Adopt = true
					mustUpdate(t, target, row, true)
					if !holds(t, row) {
						t.Errorf("it was not taken over: %s", nstest.IP(t, "-d", "neigh"))
					}
					mustUpdate(t, target, row, false)
					mustDelete(t, newTarget(t), row) // another process
					wantShown(t, address, "")
				}
			})
		})
	}
}

func TestAnEntryThatTheKernelKeepsIsReplaced(t *testing.T) {
	for _, state := range []string{"reachable", "stale", "delay", "probe", "failed", "incomplete", "noarp", "none"} {
		t.Run(state, func(t *testing.T) {
			each(t, func(t *testing.T, target *Target) {
				for _, address := range []string{"192.0.2.5", "2001:db8::5"} {
					row := row("e0", address, mac5)
					arguments := []string{"neigh", "add", address, "dev", "e0", "nud", state}
					if state != "failed" && state != "incomplete" && state != "none" {
						arguments = append(arguments, "lladdr", mac6)
					}
					nstest.IP(t, arguments...)
					wantObserved(t, target)
					wantDiff(t, target, row, reconciler.Change{Field: "address", Want: address}, reconciler.Change{Field: "mac", Want: mac5})
					mustDelete(t, target, row)
					wantShown(t, address, address)
					mustUpdate(t, target, row, true)
					mustUpdate(t, target, row, false)
					if !holds(t, row) {
						t.Errorf("neighbors are %s", nstest.IP(t, "-d", "neigh"))
					}
					mustDelete(t, target, row)
				}
			})
		})
	}
}

func TestAnEntryThatComesBetweenLookAndRequestIsLookedAt(t *testing.T) {
	for name, c := range map[string]struct {
		add     []string
		want    error
		changed bool
	}{
		"somebody else's":       {[]string{"lladdr", mac6, "nud", "permanent"}, ErrForeign, false},
		"ours":                  {[]string{"lladdr", mac5, "nud", "permanent", "protocol", "79"}, nil, false},
		"ours, another host's":  {[]string{"lladdr", mac6, "nud", "permanent", "protocol", "79"}, nil, true},
		"the kernel's":          {[]string{"lladdr", mac6, "nud", "stale"}, nil, true},
		"not ours any more":     {[]string{"lladdr", mac5, "nud", "stale", "protocol", "79"}, nil, true},
		"nothing":               {nil, nil, true},
		"of a routing daemon's": {[]string{"lladdr", mac5, "nud", "stale", "extern_learn", "protocol", "79"}, ErrForeign, false},
	} {
		t.Run(name, func(t *testing.T) {
			nstest.Veth(t, "e0", "e1")
			target := newTarget(t)
			row := row("e0", "192.0.2.5", mac5)
			u := target.newUpdates(t.Context(), 1)
			u.look([]Neighbor{row})
			if c.add != nil {
				nstest.IP(t, append([]string{"neigh", "add", "192.0.2.5", "dev", "e0"}, c.add...)...)
			}
			u.request()
			if result := u.results[0]; !errors.Is(result.Err, c.want) || result.Result.Changed != c.changed {
				t.Errorf("outcome %+v, expected %v, changed %v", result, c.want, c.changed)
			}
			if c.want == nil && !holds(t, row) {
				t.Errorf("neighbors are %s", nstest.IP(t, "-d", "neigh"))
			}
		})
	}
}

func TestOneFieldIsChangedInPlace(t *testing.T) {
	each(t, func(t *testing.T, target *Target) {
		mustUpdate(t, target, row("e0", "192.0.2.5", mac5), true)
		changed := row("e0", "192.0.2.5", mac6)
		wantDiff(t, target, changed, reconciler.Change{Field: "mac", Is: mac5, Want: mac6})
		mustUpdate(t, target, changed, true)
		wantDiff(t, target, changed)
		mustUpdate(t, target, row("e0", "192.0.2.5", strings.ToUpper(strings.ReplaceAll(mac6, ":", "-"))), false)
	})
}

func TestOursThatOthersHaveChangedAreRepaired(t *testing.T) {
	each(t, func(t *testing.T, target *Target) {
		row := row("e0", "192.0.2.5", mac5)
		for _, arguments := range [][]string{
			{"neigh", "replace", "192.0.2.5", "lladdr", mac6, "dev", "e0"}, // without a protocol: it keeps ours
			{"neigh", "change", "192.0.2.5", "lladdr", mac5, "dev", "e0", "nud", "reachable"},
			{"neigh", "change", "192.0.2.5", "lladdr", mac5, "dev", "e0", "nud", "noarp"},
			{"neigh", "del", "192.0.2.5", "dev", "e0"},
			{"neigh", "flush", "dev", "e0", "nud", "permanent"},
			{"link", "set", "e0", "down"},
			{"link", "set", "e0", "up", "address", "02:00:00:00:00:01"},
		} {
			mustUpdate(t, target, row, true)
			nstest.IP(t, arguments...)
		}
		mustUpdate(t, target, row, true)
		mustUpdate(t, target, row, false)
		nstest.IP(t, "neigh", "replace", "192.0.2.5", "lladdr", mac5, "dev", "e0", "protocol", "static")
		// The kernel does not tell of that.
		changed := row
		changed.MAC = mac6
		if _, err := target.Update(t.Context(), txn(), changed); !errors.Is(err, ErrForeign) {
			t.Errorf("of one that somebody has made his own, and that shall be another: %v", err)
		}
		mustDelete(t, target, row)
		wantShown(t, "192.0.2.5", "proto static")
		for _, err := range target.Observe(t.Context()) { // for which the first listing of a mirror is enough
			if err != nil {
				t.Fatal(err)
			}
		}
		wantObserved(t, target)
		if _, err := target.Update(t.Context(), txn(), row); !errors.Is(err, ErrForeign) {
			t.Errorf("of one that somebody has made his own: %v", err)
		}
	})
}

func TestAnEntryGoesAndComesWithItsDevice(t *testing.T) {
	each(t, func(t *testing.T, target *Target) {
		row := row("e0", "192.0.2.5", mac5)
		mustUpdate(t, target, row, true)
		nstest.IP(t, "link", "del", "e0")
		_, err := target.Update(t.Context(), txn(), row)
		if want := `neighbor e0 192.0.2.5: device "e0" does not exist`; !errors.Is(err, syscall.ENODEV) || err.Error() != want {
			t.Errorf("Update without its device: %v, expected %s", err, want)
		}
		mustDelete(t, target, row)
		nstest.Veth(t, "e0", "e1")
		mustUpdate(t, target, row, true)
		wantObserved(t, target, "e0 192.0.2.5")

		nstest.IP(t, "link", "set", "e0", "name", "lan0")
		defer nstest.IP(t, "link", "set", "lan0", "name", "e0")
		wantObserved(t, target, "lan0 192.0.2.5")
		mustDelete(t, target, row) // nothing has its key any more
		row.Device = "lan0"
		mustUpdate(t, target, row, false)
		nstest.IP(t, "link", "property", "add", "dev", "lan0", "altname", "uplink")
		row.Device = "uplink"
		mustUpdate(t, target, row, false)
		mustDelete(t, target, row)
		wantObserved(t, target)
	})
}

func TestDevicesWithoutNeighborsAreRefused(t *testing.T) {
	nstest.IP(t, "tuntap", "add", "t0", "mode", "tun")
	t.Cleanup(func() { _ = exec.Command("ip", "link", "del", "t0").Run() })
	nstest.IP(t, "link", "set", "t0", "up")
	nstest.Veth(t, "e0", "e1")
	target := newTarget(t)
	const without = " has no neighbors: it is the loopback device, is a point-to-point device or has no link-layer address"
	for row, want := range map[Neighbor]string{
		row("lo", "192.0.2.5", mac5):                      "neighbor lo 192.0.2.5: device lo" + without,
		row("t0", "192.0.2.5", mac5):                      "neighbor t0 192.0.2.5: device t0" + without,
		row("e0", "192.0.2.5", "02:00:00:00:00:00:00:05"): "has link-layer addresses such as ",
	} {
		if _, err := target.Update(t.Context(), txn(), row); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Update(%s): %v, expected %s", row.Key(), err, want)
		}
		if _, err := target.Diff(t.Context(), txn(), row); err == nil {
			t.Errorf("Diff(%s) has no error", row.Key())
		}
	}
	wantObserved(t, target)
}

func TestADeviceThatIsNotAllowedGetsNoNeighbors(t *testing.T) {
	nstest.Veth(t, "e0", "e1")
	refusal := errors.New("not this one")
	asked := 0
	target, err := New(Config{Allowed: func(_ context.Context, device string, _ int) error {
		asked++
		if device == "e0" {
			return refusal
		}
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer target.Close()
	rows := []Neighbor{row("e0", "192.0.2.5", mac5), row("none0", "192.0.2.5", mac5), row("e0", "192.0.2.6", mac5)}
	for i, result := range target.UpdateBatch(t.Context(), txn(), rows) {
		if want := []error{refusal, syscall.ENODEV, refusal}[i]; !errors.Is(result.Err, want) {
			t.Errorf("%s: error %v, expected %v", rows[i].Key(), result.Err, want)
		}
	}
	if asked != 1 {
		t.Errorf("asked %d times, expected once for the device", asked)
	}
	if _, err := target.Diff(t.Context(), txn(), rows[0]); !errors.Is(err, refusal) {
		t.Errorf("Diff: %v", err)
	}
	wantObserved(t, target)
	mustUpdate(t, target, row("e1", "192.0.2.5", mac5), true)
}

// TestManyNeighborsNeedNoListing counts what a target asks the kernel: nothing lists,
// and what is right is not touched.
func TestManyNeighborsNeedNoListing(t *testing.T) {
	nstest.Veth(t, "e0", "e1")
	const count = 10_000
	rows := make([]Neighbor, count)
	for i := range rows {
		rows[i] = row("e0", fmt.Sprintf("10.0.%d.%d", i>>8, i&0xff), mac5)
		if i%2 == 0 {
			rows[i] = row("e0", fmt.Sprintf("2001:db8::%x", i+1), mac5)
		}
	}
	batches := func(do func([]Neighbor)) {
		const size = 256
		for first := 0; first < count; first += size {
			do(rows[first:min(first+size, count)])
		}
	}
	update := func(target *Target, changed bool) {
		t.Helper()
		batches(func(rows []Neighbor) {
			for i, result := range target.UpdateBatch(t.Context(), txn(), rows) {
				if result.Err != nil || result.Result.Changed != changed {
					t.Fatalf("%s: %+v, expected changed %v", rows[i].Key(), result, changed)
				}
			}
		})
	}
	target := newTarget(t)
	runMirror(t, target)
	began := time.Now()
	update(target, true)
	t.Logf("%d neighbors were added in %v", count, time.Since(began))
	if n := target.conn.Requested(); n != count {
		t.Errorf("%d requests to add %d neighbors", n, count)
	}
	second := newTarget(t)
	runMirror(t, second)
	update(second, false)
	if n := second.conn.Requested(); n != 0 {
		t.Errorf("%d requests to start over what is right", n)
	}
	began = time.Now()
	batches(func(rows []Neighbor) {
		for _, err := range second.DeleteBatch(t.Context(), txn(), rows) {
			if err != nil {
				t.Fatal(err)
			}
		}
	})
	t.Logf("they were removed in %v", time.Since(began))
	if n := second.conn.Requested(); n != count {
		t.Errorf("%d requests to remove %d neighbors", n, count)
	}
	const listings, inBatches = 2, 2 * (count/256 + 1) // of links and neighbors, and for the device
	if n := second.conn.Asked(); n != listings+inBatches+count {
		t.Errorf("%d questions in all, expected %d and one for each that is removed", n, listings+inBatches)
	}
	wantObserved(t, second)
}
