package file

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// All files together are bounded, before any of them is read: what is in force stays.
func TestADirectoryOfTooManyBytesIsNotRead(t *testing.T) {
	document := routeTo(netA, "eth1")
	padding := "# " + strings.Repeat("x", 997-len(document)) + "\n"
	bubble(t, map[string]string{"a.yaml": routeTo(netA, "eth0")}, func(t *testing.T, h *harness) {
		h.source.config.MaxTotalSize, h.source.config.MaxFileSize = 1000, 2000
		h.settle()
		h.wantRoutes(netA + " eth0")
		h.write("a.yaml", document)
		h.write("b.yaml", "#"+padding)
		h.settle()
		h.wantRoutes(netA + " eth0")
		h.wantState(true, ".: the directory cannot be listed: its files of documents have a total of 1001 bytes, expected at most 1000; 1 row stays in force until it can be")
		if h.source.files[h.path("b.yaml")] != nil {
			t.Error("a file was read")
		}
		// What is not read does not count: other files, and those that are refused on their own.
		h.write("b.yaml", padding)
		h.write("other", strings.Repeat("x", 1000))
		h.write("c.yaml", "")
		h.must(os.Truncate(h.path("c.yaml"), 1<<40))
		h.settle()
		h.wantRoutes(netA + " eth1")
		h.wantState(true, "c.yaml: cannot be read: it is larger than 2000 bytes")
	})
}

func TestLoadRefusesTooManyBytes(t *testing.T) {
	dir := t.TempDir()
	for i := range MaxTotalSize/MaxFileSize + 1 {
		name := filepath.Join(dir, fmt.Sprintf("%03d.yaml", i))
		if err := errorsOf(os.WriteFile(name, nil, 0o600), os.Truncate(name, MaxFileSize)); err != nil {
			t.Fatal(err)
		}
	}
	files, err := Load(dir)
	want := fmt.Sprintf("%q: its files of documents have a total of 1090519040 bytes, expected at most 1073741824", dir)
	if err == nil || err.Error() != want {
		t.Errorf("%d files, error %v\nexpected %s", len(files), err, want)
	}
}

// Their sizes are what they were when they were checked: files may grow before they are read.
func TestLoadCountsWhatItHasRead(t *testing.T) {
	dirs := []string{t.TempDir(), t.TempDir()}
	for _, dir := range dirs {
		if err := os.WriteFile(filepath.Join(dir, "a.yaml"), []byte(strings.Repeat("#", 600)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if files, err := loadAll(1200, dirs); err != nil || len(files) != 2 {
		t.Errorf("%d files, error %v", len(files), err)
	}
	files, err := loadAll(1199, dirs)
	want := fmt.Sprintf("%q: with the files before it, it has a total of 1200 bytes, expected at most 1199", filepath.Join(dirs[1], "a.yaml"))
	if err == nil || err.Error() != want {
		t.Errorf("%d files, error %v\nexpected %s", len(files), err, want)
	}
}
