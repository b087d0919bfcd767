package sandbox

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSweepRemovesOnlyWhatNoProcessUses(t *testing.T) {
	dir := t.TempDir()
	used, err := newMountPoint(dir)
	if err != nil {
		t.Fatal(err)
	}
	left, err := newMountPoint(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := left.lock.Close(); err != nil { // as the kernel does when the process is killed
		t.Fatal(err)
	}
	full := filepath.Join(dir, "statehive-sandbox-full")
	if err := os.MkdirAll(filepath.Join(full, "someone's"), 0o700); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "statehive-sandbox-zfile")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := sweep(dir); err != nil {
		t.Fatal(err)
	}
	want := map[string]bool{used.path: true, left.path: false, full: true, file: true}
	got := map[string]bool{}
	for path := range want {
		_, err := os.Lstat(path)
		got[path] = err == nil
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("paths that are still there (-want +got):\n%s", diff)
	}
	if err := used.remove(); err != nil {
		t.Error(err)
	}
}

func TestMountPointOfOthersIsNotSwept(t *testing.T) {
	if os.Geteuid() != 0 {
		return // only root can make a directory of someone else
	}
	path := filepath.Join(t.TempDir(), "statehive-sandbox-1")
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(path, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	if err := sweep(filepath.Dir(path)); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
}

func TestMissingTemporaryDirectoryIsNamed(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	t.Setenv("TMPDIR", missing)
	if _, err := Run(t.Context(), Config{}); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), missing) {
		t.Errorf("Run with TMPDIR=%s: %v", missing, err)
	}
}
