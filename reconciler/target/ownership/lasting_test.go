package ownership_test

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/statehive/statehive/reconciler/target/internal/nstest"
	"github.com/statehive/statehive/reconciler/target/ownership"
)

// openStore opens a store, and records of it.
func openStore(t *testing.T, dir string, identity ownership.Identity) (*ownership.Store, *ownership.Records[record]) {
	t.Helper()
	store, err := ownership.Open(ownership.Config{Dir: dir, Identity: identity})
	if err != nil {
		t.Fatal(err)
	}
	records, err := ownership.NewLastingRecords[record](store, "sysctl")
	if err != nil {
		t.Fatal(err)
	}
	return store, records
}

func openLasting(t *testing.T, dir string, identity ownership.Identity) *ownership.Records[record] {
	t.Helper()
	_, records := openStore(t, dir, identity)
	return records
}

// undamaged takes any data for what was attached.
func undamaged([]byte) bool { return true }

func TestLastingRecordsHoldInEveryBootAndNamespace(t *testing.T) {
	dir := t.TempDir()
	records := openLasting(t, dir, here)
	all := map[string]record{}
	for i := range 100 {
		all[fmt.Sprint("/etc/", i)] = record{fmt.Sprint(i)}
	}
	if errs := records.PutAll(all); len(errs) != 0 {
		t.Fatal(errs)
	}
	again := openLasting(t, dir, ownership.Identity{Boot: "b2", Netns: "cookie:9"})
	wantRecords(t, again, all)
	gone := slices.Sorted(maps.Keys(all))[10:]
	if errs := again.RemoveAll(append(gone, "/never")); len(errs) != 0 {
		t.Fatal(errs)
	}
	for _, key := range gone {
		delete(all, key)
	}
	wantRecords(t, again, all)
	wantRecords(t, openLasting(t, dir, here), all)
}

func TestWhatIsAttachedGoesWithItsRecord(t *testing.T) {
	dir := t.TempDir()
	attach := func(records *ownership.Records[record], key string) {
		t.Helper()
		if err := records.Attach(key, []byte("of "+key)); err != nil {
			t.Fatal(err)
		}
	}
	want := func(records *ownership.Records[record], key string, kept bool) {
		t.Helper()
		data, err := records.Attachment(key, undamaged)
		if kept && (err != nil || string(data) != "of "+key) || !kept && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("attachment of %q: %q, %v, expected it to be kept: %v", key, data, err, kept)
		}
	}
	records := openLasting(t, dir, here)
	for _, key := range []string{".tmp-a", "[b]*", "removed", "without a record"} {
		attach(records, key)
		if key != "without a record" {
			put(t, records, key, key)
		}
	}
	if err := records.Remove("removed"); err != nil {
		t.Fatal(err)
	}
	want(records, "removed", false)
	info, err := os.Stat(filepath.Join(dir, "sysctl", ".tmp-a.json.data"))
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("mode of an attachment: %v, %v, expected 0600", info, err)
	}
	for range 2 {
		again := openLasting(t, dir, here)
		want(again, ".tmp-a", true)
		want(again, "[b]*", true)
		want(again, "without a record", false)
	}
}

// Somebody may want to mend the record: what was kept with it is not replaced by what is kept with the next one, nor removed with that.
func TestWhatIsAttachedToADamagedRecordIsSetAsideWithIt(t *testing.T) {
	dir := t.TempDir()
	const key = "a?"
	name := filepath.Join(dir, "sysctl", "a%3F.json")
	keep := func(what string) {
		t.Helper()
		records := openLasting(t, dir, here)
		if err := records.Attach(key, []byte(what)); err != nil {
			t.Fatal(err)
		}
		put(t, records, key, what)
	}
	keep("first")
	whole, err := os.ReadFile(name)
	if err == nil {
		err = os.WriteFile(name, whole[:10], 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	keep("second")
	if err := os.Truncate(name, 10); err != nil {
		t.Fatal(err)
	}
	keep("third")
	if err := openLasting(t, dir, here).Remove(key); err != nil {
		t.Fatal(err)
	}
	store := nstest.Store(t, dir)
	records, err := ownership.NewLastingRecords[record](store, "sysctl")
	if err != nil {
		t.Fatal(err)
	}
	if data, err := records.Attachment(key, func(data []byte) bool { return string(data) == "third" }); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("attachment of a removed record: %q, %v", data, err)
	}
	wantFiles(t, dir, "a%3F.json.corrupt", "a%3F.json.corrupt-2", "a%3F.json.corrupt-2.data", "a%3F.json.corrupt.data")
	if diff := cmp.Diff([]string{name + ".corrupt", name + ".corrupt-2"}, store.SetAside()); diff != "" {
		t.Errorf("set aside (-want +got):\n%s", diff)
	}
	if err := errors.Join(os.Rename(name+".corrupt", name), os.WriteFile(name, whole, 0o600)); err != nil { // mended
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{name + ".corrupt-2"}, store.SetAside()); diff != "" {
		t.Errorf("set aside, after one was given its name again (-want +got):\n%s", diff)
	}
	first := func(data []byte) bool { return string(data) == "first" }
	again := openLasting(t, dir, here)
	if data, err := again.Attachment(key, first); string(data) != "first" || err != nil {
		t.Errorf("attachment: %q, %v", data, err)
	}
	wantRecords(t, again, map[string]record{key: {"first"}})
	if err := again.Attach(key, []byte("fourth")); err != nil { // as if what the record is about had been found anew before it was mended
		t.Fatal(err)
	}
	again = openLasting(t, dir, here)
	if data, err := again.Attachment(key, first); string(data) != "first" || err != nil {
		t.Errorf("attachment, beside a newer one: %q, %v", data, err)
	}
	if err := errors.Join(os.Remove(name+".corrupt-2"), again.Remove(key)); err != nil {
		t.Fatal(err)
	}
	openLasting(t, dir, here)
	wantFiles(t, dir)
}

func TestErrorsOfManyRecordsAreToldByTheirKeys(t *testing.T) {
	dir := t.TempDir()
	records := openLasting(t, dir, here)
	put(t, records, "a", "1")
	// A directory is in the way of the record of b.
	if err := os.Mkdir(filepath.Join(dir, "sysctl", "b.json"), 0o700); err != nil {
		t.Fatal(err)
	}
	errs := records.PutAll(map[string]record{"a": {"2"}, "b": {"2"}, "c": {"2"}})
	if diff := cmp.Diff([]string{"b"}, slices.Collect(maps.Keys(errs))); diff != "" {
		t.Errorf("keys with errors (-want +got):\n%s\n%v", diff, errs)
	}
	wantRecords(t, records, map[string]record{"a": {"2"}, "c": {"2"}})
	if errs := records.PutAll(nil); len(errs) != 0 {
		t.Error(errs)
	}
}
