package managedfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/statehive/statehive/reconciler/target/internal/nstest"
	"github.com/statehive/statehive/statedb"
)

func newTarget(t *testing.T, cfg Config, state string) *Target {
	t.Helper()
	cfg.Owned = nstest.Store(t, state)
	target, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return target
}

// opened returns a target as a process gets it that starts.
func openedTarget(t *testing.T, state string) *Target {
	t.Helper()
	target := newTarget(t, Config{}, state)
	if err := target.Init(t.Context()); err != nil {
		t.Fatal(err)
	}
	return target
}

func text(s string) *string { return &s }

// file returns a row with a content; change may change it.
func file(path, content string, change ...func(*File)) File {
	row := Default()
	row.Path, row.Content = path, text(content)
	for _, c := range change {
		c(&row)
	}
	return row
}

func adopted(f *File)  { f.Adopt = true }
func restored(f *File) { f.OnDelete = Restore }
func kept(f *File)     { f.OnDelete = Keep }

func withMode(mode Mode) func(*File) { return func(f *File) { f.Mode = mode } }

func mustUpdate(t *testing.T, target *Target, row File, changed bool) {
	t.Helper()
	result, err := target.Update(t.Context(), statedb.New().ReadTxn(), row)
	if err != nil || result.Changed != changed {
		t.Fatalf("Update(%s) = %v, %v, expected changed %v", row.Path, result, err, changed)
	}
	changes, err := target.Diff(t.Context(), statedb.New().ReadTxn(), row)
	if err != nil || len(changes) != 0 {
		t.Fatalf("Diff(%s) after Update = %v, %v", row.Path, changes, err)
	}
}

func updateError(t *testing.T, target *Target, row File) error {
	t.Helper()
	result, err := target.Update(t.Context(), statedb.New().ReadTxn(), row)
	if err == nil {
		t.Fatalf("Update(%s) = %v, expected an error", row.Path, result)
	}
	return err
}

func mustDelete(t *testing.T, target *Target, row File) {
	t.Helper()
	if err := target.Delete(t.Context(), nil, row); err != nil {
		t.Fatal(err)
	}
}

func mustWrite(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wantFile checks what there is under a path; mode 0 is not checked.
func wantFile(t *testing.T, path, content string, mode os.FileMode) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil || string(data) != content {
		t.Errorf("%s has %q, %v, expected %q", path, data, err, content)
	}
	if info, err := os.Lstat(path); err == nil && mode != 0 && info.Mode() != mode {
		t.Errorf("%s has mode %v, expected %v", path, info.Mode(), mode)
	}
}

func wantAbsent(t *testing.T, path string) {
	t.Helper()
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s is there: %v", path, err)
	}
}

// wantTidy checks that a directory has no temporary files, and the state directory no
// lists of any.
func wantTidy(t *testing.T, dir, state string) {
	t.Helper()
	left, err := filepath.Glob(filepath.Join(dir, temporaryPrefix+"*"))
	lists, listErr := filepath.Glob(filepath.Join(state, "file-writing", "*"))
	if err != nil || listErr != nil || len(left)+len(lists) > 0 {
		t.Errorf("left over: %q, %q, %v, %v", left, lists, err, listErr)
	}
}

func wantRecords(t *testing.T, target *Target, n int) {
	t.Helper()
	var keys []string
	for key := range target.records.All() {
		keys = append(keys, key)
	}
	if len(keys) != n {
		t.Errorf("records of %q, expected %d", keys, n)
	}
}

// observed returns the paths that Observe yields.
func observed(t *testing.T, target *Target) string {
	t.Helper()
	var paths []string
	for row, err := range target.Observe(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, filepath.Base(row.Path))
	}
	return strings.Join(paths, " ")
}

// ids are a user and a group to give files to: others where root runs the tests.
func ids() (user, group string) {
	if othersExist() {
		return "65533", "65532"
	}
	return "0", "0"
}

// othersExist reports whether there is anybody but root in the user namespace.
func othersExist() bool {
	data, err := os.ReadFile("/proc/self/uid_map")
	words := strings.Fields(string(data))
	return err == nil && (len(words) != 3 || words[2] != "1")
}
