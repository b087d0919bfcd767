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

	"github.com/statehive/statehive/reconciler/target/ownership"
)

func openLasting(t *testing.T, dir string, identity ownership.Identity) *ownership.Records[record] {
	t.Helper()
	store, err := ownership.Open(ownership.Config{Dir: dir, Identity: identity})
	if err != nil {
		t.Fatal(err)
	}
	records, err := ownership.NewLastingRecords[record](store, "sysctl")
	if err != nil {
		t.Fatal(err)
	}
	return records
}

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
		data, err := records.Attachment(key)
		if kept && (err != nil || string(data) != "of "+key) || !kept && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("attachment of %q: %q, %v, expected it to be kept: %v", key, data, err, kept)
		}
	}
	records := openLasting(t, dir, here)
	for _, key := range []string{".tmp-a", "[b]*", "removed", "without a record", "corrupt?"} {
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
	if err := os.WriteFile(filepath.Join(dir, "sysctl", "corrupt%3F.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		again := openLasting(t, dir, here)
		want(again, ".tmp-a", true)
		want(again, "[b]*", true)
		want(again, "without a record", false)
		want(again, "corrupt?", true) // somebody may want to mend the record
	}
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
