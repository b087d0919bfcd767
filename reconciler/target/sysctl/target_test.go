package sysctl

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/target/internal/nstest"
	"github.com/statehive/statehive/reconciler/target/internal/procsys"
	"github.com/statehive/statehive/reconciler/target/ownership"
	"github.com/statehive/statehive/statedb"
)

// tree makes a directory that looks like /proc/sys.
func tree(t *testing.T, values map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, value := range values {
		path := filepath.Join(root, procsys.PathOf(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(value+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func txn() statedb.ReadTxn { return statedb.New().ReadTxn() }

func mustUpdate(t *testing.T, target *Target, row Sysctl, changed bool) {
	t.Helper()
	result, err := target.Update(t.Context(), txn(), row)
	if err != nil || result.Changed != changed {
		t.Fatalf("Update(%v) = %v, %v, expected changed %v", row, result, err, changed)
	}
}

func mustDelete(t *testing.T, target *Target, name string) {
	t.Helper()
	deleteRow(t, target, name, "")
}

func deleteRow(t *testing.T, target *Target, name, value string) {
	t.Helper()
	if err := target.Delete(t.Context(), txn(), Sysctl{Name: name, Value: value}); err != nil {
		t.Fatal(err)
	}
}

func wantValue(t *testing.T, target *Target, name, want string) {
	t.Helper()
	if got, err := target.files.Read(name); err != nil || got != want {
		t.Errorf("%s = %q, %v, expected %q", name, got, err, want)
	}
}

func TestDeleteRestoresWhatWasThereAtFirstSight(t *testing.T) {
	const name = "net.core.a"
	cfg := Config{Root: tree(t, map[string]string{name: "1\t2"})}
	dir := t.TempDir()
	cfg.Owned = nstest.Store(t, dir)
	target := newTarget(t, cfg)
	mustUpdate(t, target, Sysctl{Name: name, Value: "3 4"}, true)
	mustUpdate(t, target, Sysctl{Name: name, Value: "5"}, true)

	// The process dies, and somebody changes the value.
	if err := target.files.Write(name, "6"); err != nil {
		t.Fatal(err)
	}
	cfg.Owned = nstest.Store(t, dir)
	target = newTarget(t, cfg)
	if err := target.Init(t.Context()); err != nil {
		t.Fatal(err)
	}
	mustUpdate(t, target, Sysctl{Name: name, Value: "5"}, true)
	mustDelete(t, target, name)
	wantValue(t, target, name, "1\t2")
	mustDelete(t, target, name)
	if entries, err := os.ReadDir(filepath.Join(dir, "sysctl")); err != nil || len(entries) != 0 {
		t.Errorf("left over: %v, %v", entries, err)
	}
}

func TestAValueThatWasRightAllAlongIsOursAndStays(t *testing.T) {
	const name = "net.core.a"
	target := newTarget(t, Config{Root: tree(t, map[string]string{name: "1"})})
	mustUpdate(t, target, Sysctl{Name: name, Value: "1"}, false)
	if err := target.files.Write(name, "2"); err != nil {
		t.Fatal(err)
	}
	mustUpdate(t, target, Sysctl{Name: name, Value: "1"}, true)
	mustDelete(t, target, name)
	wantValue(t, target, name, "1")
}

func TestACrashBeforeTheWriteLosesNothing(t *testing.T) {
	const name = "net.core.a"
	target := newTarget(t, Config{Root: tree(t, map[string]string{name: "1"})})
	if err := target.records.Put(name, record{Original: "1"}); err != nil {
		t.Fatal(err)
	}
	for row, err := range target.Observe(t.Context()) {
		if err != nil || row.Name != name || row.Value != "1" {
			t.Errorf("Observe yields %v, %v", row, err)
		}
	}
	mustUpdate(t, target, Sysctl{Name: name, Value: "2"}, true)
	mustDelete(t, target, name)
	wantValue(t, target, name, "1")
}

func TestRecordsOfAnotherBootRestoreNothing(t *testing.T) {
	const name = "net.core.a"
	dir := t.TempDir()
	old, err := ownership.Open(ownership.Config{Dir: dir, Identity: ownership.Identity{Boot: "old", Netns: "cookie:1"}})
	if err != nil {
		t.Fatal(err)
	}
	root := tree(t, map[string]string{name: "1"})
	mustUpdate(t, newTarget(t, Config{Root: root, Owned: old}), Sysctl{Name: name, Value: "2"}, true)

	target := newTarget(t, Config{Root: root, Owned: nstest.Store(t, dir)})
	for row, err := range target.Observe(t.Context()) {
		t.Errorf("Observe yields %v, %v", row, err)
	}
	mustDelete(t, target, name)
	wantValue(t, target, name, "2")
}

func TestRecordsOfDevicesThatAreGoneAreDropped(t *testing.T) {
	const name = "net.ipv4.conf.eth0/100.forwarding"
	root := tree(t, map[string]string{name: "0", "net.core.a": "1"})
	target := newTarget(t, Config{Root: root})
	mustUpdate(t, target, Sysctl{Name: name, Value: "1"}, true)
	mustUpdate(t, target, Sysctl{Name: "net.core.a", Value: "1"}, false)
	if err := os.Remove(filepath.Join(root, procsys.PathOf(name))); err != nil {
		t.Fatal(err)
	}
	for row, err := range target.Observe(t.Context()) {
		if err != nil || row.Name == name {
			t.Errorf("Observe yields %v, %v", row, err)
		}
	}
	if _, known := target.records.Get(name); !known {
		t.Error("Observe has dropped a record, and is to write nothing")
	}
	mustDelete(t, target, name)
	if _, known := target.records.Get(name); known {
		t.Error("the record is still there after Delete")
	}

	if err := target.records.Put(name, record{Original: "0"}); err != nil {
		t.Fatal(err)
	}
	if err := target.Init(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, known := target.records.Get(name); known {
		t.Error("the record is still there after Init")
	}
}

// A row that is never right must not have itself checked again and again.
func TestASysctlOfAllDevicesIsAnnouncedWhenItChanges(t *testing.T) {
	nstest.Veth(t, "s0", "s1")
	target := newTarget(t, Config{})
	announced := func() bool {
		select {
		case <-target.changed:
			return true
		default:
			return false
		}
	}
	if err := target.set("net.ipv4.conf.all.rp_filter", "0"); err != nil {
		t.Fatal(err)
	}
	announced()
	for _, device := range []string{"all", "default"} {
		row := Sysctl{Name: "net.ipv4.conf." + device + ".rp_filter", Value: "0x2"}
		for i, want := range []bool{true, false, false} {
			if _, err := target.Update(t.Context(), nil, row); !reconciler.IsTerminal(err) {
				t.Errorf("Update %d of %s = %v", i, row.Name, err)
			}
			if got := announced(); got != want {
				t.Errorf("update %d of %s is announced: %v", i, row.Name, got)
			}
		}
		row.Value = "1"
		if _, err := target.Update(t.Context(), nil, row); err != nil || !announced() {
			t.Errorf("Update of %s = %v, or it is not announced", row.Name, err)
		}
	}
}

func TestErrorsOfUpdate(t *testing.T) {
	nstest.Veth(t, "s0", "s1")
	forbidden := errors.New("only net.* may be set here")
	target := newTarget(t, Config{Allow: func(name string) error {
		if !strings.HasPrefix(name, "net.") {
			return forbidden
		}
		return nil
	}})
	for name, c := range map[string]struct {
		row  Sysctl
		text string
		is   error
	}{
		"absent": {
			Sysctl{Name: "net.ipv4.conf.none0.forwarding", Value: "1"},
			"sysctl net.ipv4.conf.none0.forwarding does not exist: no such file or directory", fs.ErrNotExist,
		},
		"a directory": {
			Sysctl{Name: "net.ipv4", Value: "1"},
			"read sysctl net.ipv4: is a directory", syscall.EISDIR,
		},
		"one that is read-only": {
			Sysctl{Name: "net.ipv4.tcp_available_congestion_control", Value: "reno"},
			"open sysctl net.ipv4.tcp_available_congestion_control: permission denied for user 0: its mode is -r--r--r--", fs.ErrPermission,
		},
		"a value the kernel refuses": {
			Sysctl{Name: "net.ipv4.ip_forward", Value: "many"},
			`set sysctl net.ipv4.ip_forward to "many": invalid argument`, syscall.EINVAL,
		},
		"a value the kernel changes": {
			Sysctl{Name: "net.ipv4.conf.s0.rp_filter", Value: "0x2"},
			`sysctl net.ipv4.conf.s0.rp_filter: the kernel made "2" of the value "0x2": write what it makes of it`, nil,
		},
		"not allowed": {
			Sysctl{Name: "kernel.hostname", Value: "x"},
			"sysctl kernel.hostname: only net.* may be set here", forbidden,
		},
		"a wrong field": {
			Sysctl{Name: "net/../kernel/hostname", Value: "x"},
			`field "name": "net/../kernel/hostname" is not the name of a sysctl, it has a part "..": expected one like "net.ipv4.ip_forward" or "net/ipv4/conf/eth0.100/forwarding"`, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := target.Update(t.Context(), txn(), c.row)
			if fmt.Sprint(err) != c.text {
				t.Errorf("error\n%v\nexpected\n%s", err, c.text)
			}
			if c.is != nil && !errors.Is(err, c.is) {
				t.Errorf("error %v does not match %v", err, c.is)
			}
		})
	}
}

func TestNoNameLeadsOutOfTheDirectory(t *testing.T) {
	root := tree(t, map[string]string{"net.core.a": "1"})
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, []byte("1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(root, "net", "link")); err != nil {
		t.Fatal(err)
	}
	target := newTarget(t, Config{Root: root})
	if _, err := target.Update(t.Context(), txn(), Sysctl{Name: "net.link", Value: "2"}); err == nil {
		t.Error("a link out of the directory was followed")
	}
	if data, err := os.ReadFile(outside); err != nil || string(data) != "1\n" {
		t.Errorf("outside is %q, %v", data, err)
	}
}

func TestASettingOfADeviceThatWasMadeAgainIsNotRestored(t *testing.T) {
	const name = "net.ipv4.conf.e0.rp_filter"
	dir := t.TempDir()
	open := func() *Target { return newTarget(t, Config{Owned: nstest.Store(t, dir)}) }
	nstest.Veth(t, "e0", "e1")
	target := open()
	mustUpdate(t, target, Sysctl{Name: name, Value: "2"}, true)
	again := func() {
		t.Helper()
		nstest.IP(t, "link", "del", "e0")
		nstest.Veth(t, "e0", "e1")
		if err := target.files.Write(name, "1"); err != nil { // by the one who made it
			t.Fatal(err)
		}
	}
	again()
	for row, err := range open().Observe(t.Context()) {
		t.Errorf("Observe yields %v, %v", row, err)
	}
	target = open()
	mustUpdate(t, target, Sysctl{Name: name, Value: "2"}, true)
	again()
	mustDelete(t, target, name)
	wantValue(t, target, name, "1")

	mustUpdate(t, target, Sysctl{Name: name, Value: "2"}, true)
	again()
	mustUpdate(t, target, Sysctl{Name: name, Value: "2"}, true)
	mustDelete(t, target, name)
	wantValue(t, target, name, "1")
}

func TestAnIndexThatCannotBeFoundOutFailsTheOperation(t *testing.T) {
	const name = "net.ipv4.conf.e0.a"
	target := newTarget(t, Config{Root: tree(t, map[string]string{name: "1"})})
	row := Sysctl{Name: name, Value: "2"}
	failure := syscall.EMFILE
	found := devices{func(string) (int, error) { return 7, nil }, func(int) (string, error) { return "e0", nil }}
	fail := devices{func(string) (int, error) { return 0, failure }, func(int) (string, error) { return "", failure }}

	target.devices = fail
	if _, err := target.Update(t.Context(), txn(), row); !errors.Is(err, failure) {
		t.Errorf("Update: %v", err)
	}
	if rec, known := target.records.Get(name); known {
		t.Errorf("recorded after a failure: %+v", rec)
	}
	target.devices = found
	mustUpdate(t, target, row, true)

	target.devices = fail
	if err := target.Delete(t.Context(), txn(), row); !errors.Is(err, failure) {
		t.Errorf("Delete: %v", err)
	}
	if err := target.Init(t.Context()); !errors.Is(err, failure) {
		t.Errorf("Init: %v", err)
	}
	for row, err := range target.Observe(t.Context()) {
		if !errors.Is(err, failure) {
			t.Errorf("Observe yields %v, %v", row, err)
		}
	}
	if rec, known := target.records.Get(name); !known || rec.Device != 7 {
		t.Errorf("the record is %+v, %v", rec, known)
	}
	target.devices = found
	mustDelete(t, target, name)
	wantValue(t, target, name, "1")
}

func TestADeviceThatIsMadeAgainWhileItIsSetIsAnError(t *testing.T) {
	const name = "net.ipv4.conf.e0.a"
	target := newTarget(t, Config{Root: tree(t, map[string]string{name: "1"})})
	index := 7
	target.devices.indexOf = func(string) (int, error) {
		index++
		return index, nil
	}
	_, err := target.Update(t.Context(), txn(), Sysctl{Name: name, Value: "2"})
	const want = "sysctl net.ipv4.conf.e0.a: device e0 was removed or made again while it was set"
	if fmt.Sprint(err) != want {
		t.Errorf("error\n%v\nexpected\n%s", err, want)
	}
	target.devices = kernelDevices
	mustDelete(t, target, name)
	wantValue(t, target, name, "2")
}

func TestIndexesOfDevices(t *testing.T) {
	nstest.Veth(t, "e0", "e1")
	for device, exists := range map[string]bool{"e0": true, "none0": false, "": false, "longer-than-links": false} {
		if index, err := indexOf(device); err != nil || (index != 0) != exists {
			t.Errorf("device %q has index %d, %v", device, index, err)
		}
	}
}

// The kernel refuses to read it before it was set, and it cannot be unset.
func TestASecretThatWasNeverSetIsSetAndStays(t *testing.T) {
	nstest.Veth(t, "e0", "e1")
	const name, value = "net.ipv6.conf.e0.stable_secret", "2001:0db8:0000:0000:0000:0000:0000:0001"
	target := newTarget(t, Config{Owned: nstest.Store(t, t.TempDir())})
	wantValue(t, target, name, "")
	mustUpdate(t, target, Sysctl{Name: name, Value: value}, true)
	mustUpdate(t, target, Sysctl{Name: name, Value: value}, false)
	deleteRow(t, target, name, value)
	wantValue(t, target, name, value)
	if _, known := target.records.Get(name); known {
		t.Error("its record is left over")
	}
}

func TestADeviceThatWasRenamedGetsItsValuesBack(t *testing.T) {
	const before, now = "net.ipv4.neigh.e0.gc_stale_time", "net.ipv4.neigh.f0.gc_stale_time"
	kernel := procsys.New("/proc/sys")
	write := func(t *testing.T, name, value string) {
		t.Helper()
		if err := kernel.Write(name, value); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		then      func(t *testing.T, target *Target, restarted func() *Target) *Target
		want      string
		remaining int // records
	}{
		"when the row is deleted": {func(t *testing.T, target *Target, _ func() *Target) *Target {
			deleteRow(t, target, before, "77")
			return target
		}, "60", 0},
		"when the row is deleted, after a restart": {func(t *testing.T, _ *Target, restarted func() *Target) *Target {
			target := restarted()
			for row, err := range target.Observe(t.Context()) {
				if err != nil || row.Name != before || row.Value != "77" {
					t.Errorf("Observe yields %v, %v", row, err)
				}
			}
			deleteRow(t, target, before, "77")
			return target
		}, "60", 0},
		"when another device has its name": {func(t *testing.T, target *Target, _ func() *Target) *Target {
			nstest.Veth(t, "e0", "e1")
			mustUpdate(t, target, Sysctl{Name: before, Value: "77"}, true)
			return target
		}, "60", 1},
		"not if others have changed it": {func(t *testing.T, target *Target, _ func() *Target) *Target {
			write(t, now, "99")
			deleteRow(t, target, before, "77")
			return target
		}, "99", 0},
		"not if it is declared under the new name": {func(t *testing.T, target *Target, _ func() *Target) *Target {
			mustUpdate(t, target, Sysctl{Name: now, Value: "78"}, true)
			deleteRow(t, target, before, "77")
			return target
		}, "78", 1},
		"when the row of the new name is deleted": {func(t *testing.T, target *Target, restarted func() *Target) *Target {
			mustUpdate(t, target, Sysctl{Name: now, Value: "77"}, false)
			target = restarted()
			deleteRow(t, target, before, "77")
			deleteRow(t, target, now, "77")
			return target
		}, "60", 0},
		"not if it is gone": {func(t *testing.T, target *Target, _ func() *Target) *Target {
			nstest.IP(t, "link", "del", "f0")
			deleteRow(t, target, before, "77")
			nstest.Veth(t, "f0", "f1")
			return target
		}, "60", 0},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			open := func() *Target {
				target := newTarget(t, Config{Owned: nstest.Store(t, dir)})
				if err := target.Init(t.Context()); err != nil {
					t.Fatal(err)
				}
				return target
			}
			nstest.Veth(t, "x1", "e0")
			target := open()
			mustUpdate(t, target, Sysctl{Name: before, Value: "76"}, true)
			mustUpdate(t, target, Sysctl{Name: before, Value: "77"}, true)
			nstest.IP(t, "link", "set", "e0", "name", "f0")
			target = c.then(t, target, open)
			wantValue(t, target, now, c.want)
			remaining := 0
			for range target.records.All() {
				remaining++
			}
			if remaining != c.remaining {
				t.Errorf("%d records remain, want %d", remaining, c.remaining)
			}
		})
	}
}

func TestDevicesWithSwappedNamesGetTheirOwnValuesBack(t *testing.T) {
	const first, second = "net.ipv4.neigh.e0.gc_stale_time", "net.ipv4.neigh.f0.gc_stale_time"
	for _, order := range [][]Sysctl{
		{{Name: first, Value: "77"}, {Name: second, Value: "78"}},
		{{Name: second, Value: "78"}, {Name: first, Value: "77"}},
	} {
		nstest.Veth(t, "e1", "e0")
		nstest.Veth(t, "f1", "f0")
		target := newTarget(t, Config{})
		for name, value := range map[string]string{first: "50", second: "51"} {
			if err := target.files.Write(name, value); err != nil {
				t.Fatal(err)
			}
		}
		for _, row := range order {
			mustUpdate(t, target, row, true)
		}
		for _, names := range [][2]string{{"e0", "x0"}, {"f0", "e0"}, {"x0", "f0"}} {
			nstest.IP(t, "link", "set", names[0], "down")
			nstest.IP(t, "link", "set", names[0], "name", names[1])
		}
		for _, row := range order {
			mustUpdate(t, target, row, true)
		}
		for _, row := range order {
			wantValue(t, target, row.Name, row.Value)
			deleteRow(t, target, row.Name, row.Value)
		}
		wantValue(t, target, first, "51")
		wantValue(t, target, second, "50")
		nstest.IP(t, "link", "del", "e1")
		nstest.IP(t, "link", "del", "f1")
	}
}

func TestAnMTUThatTheLinkNoLongerAllowsIsRestoredToThatOfTheLink(t *testing.T) {
	const name = "net.ipv6.conf.e0.mtu"
	nstest.Veth(t, "e0", "e1")
	target := newTarget(t, Config{})
	mustUpdate(t, target, Sysctl{Name: name, Value: "1300"}, true)
	nstest.IP(t, "link", "set", "e0", "mtu", "1400")
	mustUpdate(t, target, Sysctl{Name: name, Value: "1300"}, true)
	mustDelete(t, target, name)
	wantValue(t, target, name, "1400")
}
