package file

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A directory with too many entries is one that cannot be read, whatever they are: what is in force stays.
func TestADirectoryWithTooManyEntriesIsNotRead(t *testing.T) {
	dir := t.TempDir()
	for i := range 3000 {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d.yaml", i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for limit, want := range map[int]string{2999: "more than 2999 entries", 3000: "", MaxFiles: ""} {
		d, err := os.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		entries, err := readEntries(d, limit)
		if want == "" && (err != nil || len(entries) != 3000) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("at most %d: %d entries, %v", limit, len(entries), err)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
}
