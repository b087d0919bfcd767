package file

import (
	"fmt"
	"io"
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

func TestWhatIsTooLargeIsNotRead(t *testing.T) {
	const limit = 100
	f, err := os.CreateTemp(t.TempDir(), "")
	if err == nil {
		err = f.Truncate(limit + 1)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	for size, read := range map[int64]bool{limit + 1: false, limit: true} { // it may have grown since
		_, err := readAll(f, size, limit)
		if err == nil || err.Error() != "it is larger than 100 bytes" {
			t.Errorf("a file of %d bytes: %v", size, err)
		}
		at, err := f.Seek(0, io.SeekCurrent)
		if err != nil || at > 0 != read {
			t.Errorf("a file of %d bytes: %d bytes were read: %v", size, at, err)
		}
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			t.Fatal(err)
		}
	}
}
