package managedfile

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/statehive/statehive/statedb"
)

// mount mounts a small file system in memory, or mounts it again with other flags.
func mount(t *testing.T, dir string, flags uintptr) {
	t.Helper()
	if flags&unix.MS_REMOUNT == 0 {
		must(t, os.Mkdir(dir, 0o755))
		t.Cleanup(func() { must(t, unix.Unmount(dir, unix.MNT_DETACH)) })
	}
	must(t, unix.Mount("tmpfs", dir, "tmpfs", flags, "size=64k"))
}

// ours returns the paths of what is recorded.
func ours(t *testing.T, target *Target) (paths []string) {
	t.Helper()
	for row, err := range target.Observe(t.Context()) {
		must(t, err)
		paths = append(paths, row.Path)
	}
	return paths
}

func TestAFullDiskLeavesFilesAsTheyAre(t *testing.T) {
	dir, state := filepath.Join(t.TempDir(), "disk"), t.TempDir()
	mount(t, dir, 0)
	target := openedTarget(t, state)
	path, other := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	mustUpdate(t, target, file(path, "small"), true)
	for _, row := range []File{file(path, strings.Repeat("x", 200_000)), file(other, strings.Repeat("x", 200_000))} {
		if err := updateError(t, target, row); !errors.Is(err, unix.ENOSPC) {
			t.Errorf("Update: %v", err)
		}
		wantTidy(t, dir, state)
	}
	wantFile(t, path, "small", 0o644)
	wantAbsent(t, other)

	// What could not be written is not ours.
	if got := ours(t, target); len(got) != 1 || got[0] != path {
		t.Errorf("ours are %q", got)
	}
	mustWrite(t, other, "theirs")
	if err := updateError(t, target, file(other, "mine")); !errors.Is(err, ErrForeign) {
		t.Errorf("Update: %v", err)
	}
}

func TestOnAReadOnlyDiskThereIsOneErrorAndNothingIsForgotten(t *testing.T) {
	dir, state := filepath.Join(t.TempDir(), "disk"), t.TempDir()
	mount(t, dir, 0)
	target := openedTarget(t, state)
	path := filepath.Join(dir, "a")
	row := file(path, "one")
	mustUpdate(t, target, row, true)
	mount(t, dir, unix.MS_REMOUNT|unix.MS_RDONLY)
	mustUpdate(t, target, row, false)
	err := updateError(t, target, file(path, "two"))
	if !errors.Is(err, unix.EROFS) || strings.Contains(err.Error(), "\n") {
		t.Errorf("Update: %v", err)
	}
	if err := target.Delete(t.Context(), nil, row); !errors.Is(err, unix.EROFS) {
		t.Errorf("Delete: %v", err)
	}
	target = openedTarget(t, state)
	mount(t, dir, unix.MS_REMOUNT)
	mustUpdate(t, target, file(path, "two"), true)
	mustDelete(t, target, row)
	wantAbsent(t, path)
}

// A directory that is a file by now holds nothing of ours: its files are gone.
func TestFilesAreGoneWithADirectoryThatOthersHaveMadeAFile(t *testing.T) {
	dir, state := filepath.Join(t.TempDir(), "directory"), t.TempDir()
	must(t, os.Mkdir(dir, 0o755))
	target := openedTarget(t, state)
	row := file(filepath.Join(dir, "a"), "ours")
	mustUpdate(t, target, row, true)
	must(t, os.RemoveAll(dir))
	mustWrite(t, dir, "theirs")
	if err := updateError(t, target, row); !errors.Is(err, unix.ENOTDIR) {
		t.Errorf("Update: %v", err)
	}
	if got := ours(t, target); len(got) > 0 {
		t.Errorf("ours are %q", got)
	}
	mustDelete(t, target, row)
	wantFile(t, dir, "theirs", 0o644)
}

// Two rows that lead to one file would undo each other's work.
func TestOneFileHasOneRow(t *testing.T) {
	dir, state := t.TempDir(), t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, "real"), 0o755))
	must(t, os.Symlink("real", filepath.Join(dir, "link")))
	path := filepath.Join(dir, "real", "a")
	first, second := file(path, "first"), file(filepath.Join(dir, "link", "a"), "second")
	target := openedTarget(t, state)
	txn := statedb.New().ReadTxn()
	for range 2 {
		results := target.UpdateBatch(t.Context(), txn, []File{first, second})
		if err := results[1].Err; results[0].Err != nil || err == nil || !strings.Contains(err.Error(), "leads to the same file as "+path) {
			t.Fatalf("UpdateBatch: %+v", results)
		}
		wantFile(t, path, "first", 0o644)
	}
	if diffs := target.DiffBatch(t.Context(), txn, []File{second, first}); diffs[1].Err == nil {
		t.Errorf("DiffBatch: %+v", diffs)
	}
	if err := target.Delete(t.Context(), txn, second); err != nil {
		t.Errorf("Delete: %v", err)
	}
	wantFile(t, path, "first", 0o644)

	// When the first goes, the second has it; and when a link leads elsewhere, both have one.
	mustDelete(t, target, first)
	mustUpdate(t, target, second, true)
	if err := updateError(t, target, first); !strings.Contains(err.Error(), "leads to the same file") {
		t.Errorf("Update: %v", err)
	}
	must(t, os.Mkdir(filepath.Join(dir, "other"), 0o755))
	must(t, os.Remove(filepath.Join(dir, "link")))
	must(t, os.Symlink("other", filepath.Join(dir, "link")))
	mustUpdate(t, target, second, true)
	mustUpdate(t, target, file(path, "second"), false)
	mustUpdate(t, target, file(path, "first", adopted), true)
	wantFile(t, filepath.Join(dir, "other", "a"), "second", 0o644)
	wantTidy(t, dir, state)
}

// On some file systems, the device number of a file is not that of its mount.
func TestABindMountOfAFileOfAnOverlayIsCompared(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	mount(t, at("lower"), 0)
	mount(t, at("upper"), 0)
	must(t, os.Mkdir(at("upper/files"), 0o755))
	must(t, os.Mkdir(at("upper/work"), 0o755))
	mustWrite(t, at("lower/a"), "x")
	mustWrite(t, at("b"), "")
	must(t, os.Mkdir(at("both"), 0o755))
	options := "lowerdir=" + at("lower") + ",upperdir=" + at("upper/files") + ",workdir=" + at("upper/work")
	must(t, unix.Mount("overlay", at("both"), "overlay", 0, options))
	t.Cleanup(func() { must(t, unix.Unmount(at("both"), 0)) })
	must(t, unix.Mount(at("both/a"), at("b"), "", unix.MS_BIND, ""))
	t.Cleanup(func() { must(t, unix.Unmount(at("b"), 0)) })
	mustUpdate(t, openedTarget(t, t.TempDir()), file(at("b"), "x"), false)
}
