package ownership_test

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/statehive/statehive/reconciler/target/internal/nstest"
	"github.com/statehive/statehive/reconciler/target/ownership"
)

// sealed returns what the file of a record holds.
func sealed[T any](t testing.TB, kind string, identity ownership.Identity, key string, value T) string {
	t.Helper()
	dir := t.TempDir()
	store, err := ownership.Open(ownership.Config{Dir: dir, Identity: identity})
	if err != nil {
		t.Fatal(err)
	}
	records, err := ownership.NewRecords[T](store, kind)
	if err == nil {
		err = records.Put(key, value)
	}
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, kind, key+".json"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestUnreadableRecordsAreSetAsideWithAReason(t *testing.T) {
	dir := t.TempDir()
	put(t, open(t, dir, here, nil), "good", "1")
	for name, text := range map[string]string{
		"name.json":          sealed(t, "sysctl", here, "other", record{}),
		"kind.json":          sealed(t, "sysctl", here, "kind", map[string]int{"original": 7}),
		"another-kind.json":  sealed(t, "link", here, "another-kind", record{}),
		"damaged.json":       strings.Replace(sealed(t, "sysctl", here, "damaged", record{"1"}), `"1"`, `"0"`, 1),
		"half.json":          `{"boot":"b1","netns":"cook`,
		"empty.json":         ``,
		"unbound.json":       `{"key":"unbound","record":{}}`,
		"unsealed.json":      `{"boot":"b1","netns":"cookie:1","key":"unsealed","record":{}}`,
		"half.json.corrupt":  `an earlier one`,
		".tmp-123":           `{"boot"`,
		"notes.txt":          `somebody's`,
		"half.json.corrupt2": ``,
	} {
		if err := os.WriteFile(filepath.Join(dir, "sysctl", name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var log bytes.Buffer
	records := open(t, dir, here, slog.New(slog.NewTextHandler(&log, nil)))
	wantRecords(t, records, map[string]record{"good": {"1"}})
	wantFiles(t, dir, "another-kind.json.corrupt", "damaged.json.corrupt", "empty.json.corrupt", "good.json", "half.json.corrupt", "half.json.corrupt-2", "half.json.corrupt2",
		"kind.json.corrupt", "name.json.corrupt", "notes.txt", "unbound.json.corrupt", "unsealed.json.corrupt")
	if n := strings.Count(log.String(), "set aside"); n != 8 {
		t.Errorf("%d warnings, expected 8:\n%s", n, &log)
	}
	for _, reason := range []string{"half.json.corrupt-2", "unexpected end of JSON input", "boot or netns is missing", `belongs into other.json`, "cannot unmarshal number", "checksum is wrong"} {
		if !strings.Contains(log.String(), reason) {
			t.Errorf("no warning has %q:\n%s", reason, &log)
		}
	}
}

// No damage of one bit or of the end makes a record say something else, or disappear.
func TestDamagedRecordsSayNothingElse(t *testing.T) {
	text := []byte(sealed(t, "sysctl", here, "a", record{"10"}))
	dir := t.TempDir()
	open(t, dir, here, nil) // makes the directory
	path := filepath.Join(dir, "sysctl", "a.json")
	check := func(what string, at int, damaged []byte) {
		t.Helper()
		if err := os.WriteFile(path, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		got, known := open(t, dir, here, nil).Get("a")
		if known {
			if got.Original != "10" {
				t.Errorf("%s %d: it says %q", what, at, got.Original)
			}
			return
		}
		if aside, err := os.ReadFile(path + ".corrupt"); err != nil || !bytes.Equal(aside, damaged) {
			t.Errorf("%s %d: it is not set aside: %v", what, at, err)
		}
		if err := os.Remove(path + ".corrupt"); err != nil {
			t.Fatal(err)
		}
	}
	for bit := range len(text) * 8 {
		damaged := bytes.Clone(text)
		damaged[bit/8] ^= 1 << (bit % 8)
		check("bit", bit, damaged)
	}
	for length := range len(text) {
		check("cut off at", length, text[:length])
	}
}

func TestHugeRecordsAreNotRead(t *testing.T) {
	dir := t.TempDir()
	records := openLasting(t, dir, here)
	if err := errors.Join(records.Attach("b", []byte("data")), records.Put("b", record{"1"})); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a.json", "b.json.data"} { // sparse: they take no room on the disk
		path := filepath.Join(dir, "sysctl", name)
		if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, 1<<36)); err != nil {
			t.Fatal(err)
		}
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var log bytes.Buffer
	store, err := ownership.Open(ownership.Config{Dir: dir, Identity: here, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	if records, err = ownership.NewLastingRecords[record](store, "sysctl"); err != nil {
		t.Fatal(err)
	}
	_, err = records.Attachment("b", undamaged)
	runtime.ReadMemStats(&after)
	wantRecords(t, records, map[string]record{"b": {"1"}})
	for text, message := range map[string]string{"record": log.String(), "attachment": errors.Join(err).Error()} {
		if !strings.Contains(message, "it is larger than 16777216 bytes") {
			t.Errorf("%s: %s", text, message)
		}
	}
	if spent := after.TotalAlloc - before.TotalAlloc; spent > 256<<20 {
		t.Errorf("%d MB were allocated", spent>>20)
	}
	if err := records.Put("c", record{strings.Repeat("x", 16<<20)}); err == nil || !strings.Contains(err.Error(), "it is larger than") {
		t.Errorf("a record that could not be read again was put: %v", err)
	}
}

func TestAKeyThatCannotBeReadAgainIsRefused(t *testing.T) {
	records := open(t, t.TempDir(), here, nil)
	if err := records.Put("a\xff", record{"1"}); err == nil || !strings.Contains(err.Error(), "not valid UTF-8") {
		t.Errorf("Put: %v", err)
	}
	wantRecords(t, records, map[string]record{})
}

func TestWhatOthersMayHaveAttachedIsNotRead(t *testing.T) {
	for name, plant := range map[string]func(t *testing.T, path string) error{
		"of another user": func(t *testing.T, path string) error {
			nstest.OtherUsers(t)
			return os.Chown(path, 65533, 65533)
		},
		"for all": func(_ *testing.T, path string) error { return os.Chmod(path, 0o666) }, //nolint:gosec // that is the point
		"a link": func(_ *testing.T, path string) error {
			return errors.Join(os.Remove(path), os.Symlink("/etc/passwd", path))
		},
		"a pipe": func(_ *testing.T, path string) error { return errors.Join(os.Remove(path), unix.Mkfifo(path, 0o600)) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			records := openLasting(t, dir, here)
			if err := errors.Join(records.Attach("a", []byte("ours")), records.Put("a", record{}), plant(t, filepath.Join(dir, "sysctl", "a.json.data"))); err != nil {
				t.Fatal(err)
			}
			if data, err := openLasting(t, dir, here).Attachment("a", undamaged); err == nil || errors.Is(err, os.ErrNotExist) {
				t.Errorf("%q, %v", data, err)
			}
		})
	}
}

// A directory that is replaced, also by a link, is not written to: what is put there would be
// lost, or be somebody else's.
func TestADirectoryThatWasReplacedIsNotWrittenTo(t *testing.T) {
	for name, replace := range map[string]func(t *testing.T, dir, elsewhere string) error{
		"a link":            func(_ *testing.T, dir, elsewhere string) error { return os.Symlink(elsewhere, dir) },
		"another directory": func(_ *testing.T, dir, _ string) error { return os.Mkdir(dir, 0o700) },
		"a mount":           func(t *testing.T, dir, _ string) error { return errors.Join(os.Mkdir(dir, 0o700), tmpfs(t, dir, "")) },
	} {
		t.Run(name, func(t *testing.T) {
			base, elsewhere := t.TempDir(), t.TempDir()
			records := openLasting(t, base, here)
			dir := filepath.Join(base, "sysctl")
			put(t, records, "a", "1")
			if err := errors.Join(os.Rename(dir, dir+"-away"), replace(t, dir, elsewhere)); err != nil {
				t.Fatal(err)
			}
			for what, err := range map[string]error{
				"Put": records.Put("b", record{}), "Attach": records.Attach("b", nil), "Remove": records.Remove("a"),
			} {
				if err == nil || !strings.Contains(err.Error(), dir+" was replaced") {
					t.Errorf("%s: %v", what, err)
				}
			}
			for _, where := range []string{dir, elsewhere} {
				if entries, err := os.ReadDir(where); err != nil || len(entries) > 0 {
					t.Errorf("%s: %v, %v", where, entries, err)
				}
			}
			wantRecords(t, records, map[string]record{"a": {"1"}})
		})
	}
}

// tmpfs mounts one for the time of a test.
func tmpfs(t testing.TB, dir, options string) error {
	t.Helper()
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) }) // its last use is over
	return unix.Mount("tmpfs", dir, "tmpfs", 0, options)
}

func TestWhatDoesNotFitOnTheDiskIsNotThere(t *testing.T) {
	dir := t.TempDir()
	if err := tmpfs(t, dir, "size=64k,mode=0700"); err != nil {
		t.Fatal(err)
	}
	records := openLasting(t, dir, here)
	all := map[string]record{}
	for i := range 100 {
		all[strings.Repeat("k", i+1)] = record{strings.Repeat("x", 2000)}
	}
	errs := records.PutAll(all)
	if len(errs) == 0 || len(errs) == len(all) {
		t.Fatalf("%d of %d did not fit", len(errs), len(all))
	}
	for key, err := range errs {
		if !errors.Is(err, unix.ENOSPC) {
			t.Errorf("%q: %v", key, err)
		}
		delete(all, key)
	}
	var gone string
	for key := range all {
		if err := records.Put(key, record{strings.Repeat("y", 10000)}); err == nil { // the old one stays
			t.Errorf("%q fits", key)
		}
		gone = key
	}
	wantRecords(t, records, all)
	if names, err := filepath.Glob(filepath.Join(dir, "sysctl", ".tmp-*")); err != nil || len(names) > 0 {
		t.Errorf("left over: %q, %v", names, err)
	}
	if err := errors.Join(records.Remove(gone), records.Put(gone, record{"small"})); err != nil {
		t.Error(err)
	}
	all[gone] = record{"small"}
	wantRecords(t, openLasting(t, dir, here), all)
}

func TestADiskThatBecameReadOnlyLosesNothing(t *testing.T) {
	dir := t.TempDir()
	if err := tmpfs(t, dir, "mode=0700"); err != nil {
		t.Fatal(err)
	}
	records := openLasting(t, dir, here)
	put(t, records, "a", "1")
	if err := unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY|unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{
		"Put": records.Put("a", record{"2"}), "Attach": records.Attach("a", nil), "Remove": records.Remove("a"),
	} {
		if !errors.Is(err, unix.EROFS) {
			t.Errorf("%s: %v", what, err)
		}
	}
	wantRecords(t, records, map[string]record{"a": {"1"}})
	wantRecords(t, openLasting(t, dir, here), map[string]record{"a": {"1"}})
}
