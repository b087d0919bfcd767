package ownership_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/statehive/statehive/reconciler/target/ownership"
)

// FuzzRecords has a file that holds anything lie where a record belongs. Whatever it holds, the records
// say nothing but what was put, under the same key, by this kind and, unless they last, in this
// namespace; and the file stays, is set aside, or is a record that is void.
func FuzzRecords(f *testing.F) {
	valid, void := map[string]bool{}, map[string]bool{} // by their sums
	for _, c := range []struct {
		kind     string
		identity ownership.Identity
		sums     map[string]bool
	}{
		{"sysctl", here, valid},
		{"sysctl", ownership.Identity{Boot: "b1", Netns: "cookie:2"}, void},
		{"sysctl", ownership.Identity{Boot: "b0", Netns: "cookie:1"}, void},
		{"link", here, map[string]bool{}},
	} {
		for _, key := range []string{"a", "b", "..", ""} {
			text := []byte(sealed(f, c.kind, c.identity, key, record{"10"}))
			c.sums[sumIn(text)] = true
			f.Add(text, "a.json", false)
			f.Add(text, key+".json", true)
		}
	}
	f.Add([]byte(`{"boot":"b1","netns":"cookie:1","key":"a","record":{"original":"1"}}`), "a.json", false)
	f.Add(bytes.Repeat([]byte("["), 20000), "a.json", false)
	f.Add([]byte("null"), "a.json.data", true)
	f.Add([]byte{}, ".tmp-1", true)
	f.Add([]byte("{"), strings.Repeat("a", 249)+".json", false)
	memory := f.TempDir()
	if err := tmpfs(f, memory, "mode=0700"); err != nil {
		f.Fatal(err)
	}
	f.Setenv("TMPDIR", memory) // the disk would take most of the time
	f.Fuzz(func(t *testing.T, data []byte, name string, lasting bool) {
		dir := t.TempDir()
		path := filepath.Join(dir, "sysctl", name)
		if filepath.Base(path) != name || os.Mkdir(filepath.Dir(path), 0o700) != nil || os.WriteFile(path, data, 0o600) != nil {
			return // no file has such a name
		}
		records := openAny(t, dir, lasting)
		known, inForce := false, valid[sumIn(data)] || lasting && void[sumIn(data)]
		for key, value := range records.All() {
			known = true
			if !inForce || value.Original != "10" || name != key+".json" {
				t.Errorf("the record of %q in %q says %q", key, name, value.Original)
			}
		}
		kept := false
		aside := filepath.Join(dir, "sysctl", name[:min(len(name), 205)]) + ".corrupt"
		for _, at := range []string{path, aside} {
			is, err := os.ReadFile(at)
			kept = kept || err == nil && bytes.Equal(is, data)
		}
		isVoid := !lasting && void[sumIn(data)]
		if unfinished := !strings.HasSuffix(name, ".json"); !kept && (known || !isVoid && !unfinished) {
			t.Errorf("%q is lost: %q", name, data)
		}
		if _, err := records.Attachment("a", undamaged); err == nil && !known {
			t.Error("data without a record is kept")
		}
	})
}

// openAny opens records of here.
func openAny(t *testing.T, dir string, lasting bool) *ownership.Records[record] {
	t.Helper()
	store, err := ownership.Open(ownership.Config{Dir: dir, Identity: here})
	open := ownership.NewRecords[record]
	if lasting {
		open = ownership.NewLastingRecords[record]
	}
	var records *ownership.Records[record]
	if err == nil {
		records, err = open(store, "sysctl")
	}
	if err != nil {
		t.Fatal(err)
	}
	return records
}

// sumIn returns the sum in the file of a record.
func sumIn(text []byte) string {
	var f struct{ Sum string }
	if err := json.Unmarshal(text, &f); err != nil {
		return err.Error()
	}
	return f.Sum
}
