package ownership_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/statehive/statehive/reconciler/target/internal/nstest"
	"github.com/statehive/statehive/reconciler/target/ownership"
)

// stranger is a user who is not trusted.
const stranger = 65533

func TestStateDirectoriesInWhichOthersCouldWriteAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(base, dir string) error
		want  string // empty: it is taken
	}{
		"as it should be":         {func(_, _ string) error { return nil }, ""},
		"it does not exist":       {func(_, dir string) error { return os.Remove(dir) }, ""},
		"it is of another user":   {func(_, dir string) error { return os.Chown(dir, stranger, 0) }, "/state belongs to uid 65533"},
		"its group may write":     {func(_, dir string) error { return os.Chmod(dir, 0o770) }, "/state can be written to by others"},
		"all may write":           {func(_, dir string) error { return os.Chmod(dir, 0o777|os.ModeSticky) }, "/state can be written to by others"},
		"the parent is another's": {func(base, _ string) error { return os.Chown(base, stranger, 0) }, "/base belongs to uid 65533"},
		"it is a link of a user's": {func(_, dir string) error {
			return errors.Join(os.Rename(dir, dir+"2"), os.Symlink("state2", dir), os.Lchown(dir, stranger, 0))
		}, "/state belongs to uid 65533"},
	} {
		t.Run(name, func(t *testing.T) {
			if strings.Contains(c.want, "uid") {
				nstest.OtherUsers(t)
			}
			base := filepath.Join(t.TempDir(), "base")
			dir := filepath.Join(base, "state")
			if err := errors.Join(os.MkdirAll(dir, 0o755), c.spoil(base, dir)); err != nil {
				t.Fatal(err)
			}
			for _, readOnly := range []bool{false, true} {
				_, err := ownership.Open(ownership.Config{Dir: dir, ReadOnly: readOnly})
				if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
					t.Errorf("read only %v: %v, expected %q", readOnly, err, c.want)
				}
			}
		})
	}
}

func TestRecordsThatOthersMayHaveWrittenAreSetAside(t *testing.T) {
	for name, plant := range map[string]func(path string) error{
		"of another user": func(path string) error { return os.Chown(path, stranger, stranger) },
		"for all":         func(path string) error { return os.Chmod(path, 0o666) },
		"a link": func(path string) error {
			return errors.Join(os.Rename(path, path+"-elsewhere"), os.Symlink(path+"-elsewhere", path))
		},
		"a pipe": func(path string) error { return errors.Join(os.Remove(path), unix.Mkfifo(path, 0o600)) },
	} {
		t.Run(name, func(t *testing.T) {
			if name == "of another user" {
				nstest.OtherUsers(t)
			}
			dir := filepath.Join(t.TempDir(), "state")
			open := func() *ownership.Records[string] {
				t.Helper()
				store, err := ownership.Open(ownership.Config{Dir: dir})
				if err != nil {
					t.Fatal(err)
				}
				records, err := ownership.NewRecords[string](store, "thing")
				if err != nil {
					t.Fatal(err)
				}
				return records
			}
			path := filepath.Join(dir, "thing", "a.json")
			if err := errors.Join(open().Put("a", "ours"), plant(path)); err != nil {
				t.Fatal(err)
			}
			if record, known := open().Get("a"); known {
				t.Errorf("it says %q", record)
			}
			if _, err := os.Lstat(path + ".corrupt"); err != nil {
				t.Errorf("it was not set aside: %v", err)
			}
		})
	}
}

func TestADirectoryOfRecordsInWhichOthersCouldWriteIsRefused(t *testing.T) {
	base := filepath.Join(t.TempDir(), "state")
	store, err := ownership.Open(ownership.Config{Dir: base})
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(base, "thing")
	if err := errors.Join(os.Mkdir(dir, 0o700), os.Chmod(dir, 0o777)); err != nil {
		t.Fatal(err)
	}
	reader, err := ownership.Open(ownership.Config{Dir: base, ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []*ownership.Store{store, reader} {
		if _, err := ownership.NewRecords[string](s, "thing"); err == nil || !strings.Contains(err.Error(), "/thing can be written to by others") {
			t.Errorf("opened, read only %v: %v", s.ReadOnly(), err)
		}
	}
}
