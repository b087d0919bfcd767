package ownership_test

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/statehive/statehive/reconciler/target/ownership"
)

// run runs a program.
func run(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", args, err, out)
	}
}

// restore copies what differs in size or modification time from one directory to another, as rsync does, and removes nothing.
func restore(t *testing.T, from, to string) {
	t.Helper()
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		relative, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		is, err := d.Info()
		if err != nil {
			return err
		}
		old := filepath.Join(to, relative)
		was, err := os.Stat(old)
		if err == nil && was.Size() == is.Size() && was.ModTime().Equal(is.ModTime()) {
			return nil
		}
		run(t, "cp", "-p", path, old+".new")
		return os.Rename(old+".new", old)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestCopiesOfAStateDirectoryAreNoticed(t *testing.T) {
	for name, test := range map[string]struct {
		do   func(t *testing.T, dir, backup string)
		want bool
	}{
		"nothing":                {func(*testing.T, string, string) {}, false},
		"a backup only":          {func(t *testing.T, dir, backup string) { run(t, "cp", "-a", dir, backup+"2") }, false},
		"a backup of hard links": {func(t *testing.T, dir, backup string) { run(t, "cp", "-al", dir, backup+"2") }, false},
		"an earlier backup of hard links": {func(t *testing.T, dir, backup string) {
			run(t, "rm", "-r", dir)
			run(t, "mv", backup+".links", dir)
		}, true},
		"modes and owners": {func(t *testing.T, dir, _ string) {
			run(t, "chmod", "-R", "go-rwx", dir)
			run(t, "chown", "-R", "0:0", dir)
		}, false},
		"moved": {func(t *testing.T, dir, _ string) {
			run(t, "mv", dir, dir+"2")
			run(t, "mv", dir+"2", dir)
		}, false},
		"a copy": {func(t *testing.T, dir, backup string) {
			run(t, "rm", "-r", dir)
			run(t, "cp", "-a", backup, dir)
		}, true},
		"a copy of what is there": {func(t *testing.T, dir, _ string) {
			run(t, "cp", "-a", dir, dir+"2")
			run(t, "rm", "-r", dir)
			run(t, "mv", dir+"2", dir)
		}, true},
		"copied over what is there": {func(t *testing.T, dir, backup string) { run(t, "cp", "-a", backup+"/.", dir) }, true},
		"what differs":              {func(t *testing.T, dir, backup string) { restore(t, backup, dir) }, true},
		"an archive over what is there": {func(t *testing.T, dir, backup string) {
			run(t, "tar", "-C", backup, "-cf", dir+".tar", ".")
			run(t, "tar", "-C", dir, "-xf", dir+".tar")
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			dir, backup := filepath.Join(t.TempDir(), "state"), filepath.Join(t.TempDir(), "backup")
			store, records := openStore(t, dir, here)
			if store.IsCopy() {
				t.Error("a new directory is said to be a copy")
			}
			if err := errors.Join(store.Mark(), records.Put("kept", record{"1"}), records.Put("handed over", record{"1"}), store.Mark()); err != nil {
				t.Fatal(err)
			}
			run(t, "cp", "-a", dir, backup)
			run(t, "cp", "-al", dir, backup+".links")
			if err := errors.Join(records.Remove("handed over"), store.Mark()); err != nil {
				t.Fatal(err)
			}
			test.do(t, dir, backup)
			store, _ = openStore(t, dir, here)
			if is := store.IsCopy(); is != test.want {
				t.Errorf("copied: %v", is)
			}
			if store, _ = openStore(t, dir, here); store.IsCopy() != test.want {
				t.Error("it is not known any more, and nobody has marked it")
			}
			if err := store.Mark(); err != nil || store.IsCopy() {
				t.Errorf("marked: %v", err)
			}
			if store, _ = openStore(t, dir, here); store.IsCopy() {
				t.Error("still said to be a copy after it was marked")
			}
		})
	}
}

func TestADamagedMarkIsThatOfACopy(t *testing.T) {
	dir := t.TempDir()
	store, _ := openStore(t, dir, here)
	if err := errors.Join(store.Mark(), os.Truncate(filepath.Join(dir, "mark", "mark.json"), 10)); err != nil {
		t.Fatal(err)
	}
	if store, _ = openStore(t, dir, here); !store.IsCopy() || store.Mark() != nil || store.IsCopy() {
		t.Error("it is not said to be a copy, or for ever")
	}
}

func TestAMarkThatAPowerFailureHasEmptiedIsNone(t *testing.T) {
	dir := t.TempDir()
	store, _ := openStore(t, dir, here)
	if err := errors.Join(store.Mark(), os.Truncate(filepath.Join(dir, "mark", "mark.json"), 0)); err != nil {
		t.Fatal(err)
	}
	reader, err := ownership.Open(ownership.Config{Dir: dir, Identity: here, ReadOnly: true})
	if err != nil || reader.IsCopy() {
		t.Errorf("it is said to be a copy to a reader, or %v", err)
	}
	if store, _ = openStore(t, dir, here); store.IsCopy() || len(store.SetAside()) > 0 {
		t.Error("it is said to be a copy, or damaged")
	}
	if err := store.Mark(); err != nil {
		t.Error(err)
	}
}

func TestWhatIsRestoredUnderARunningProcessIsNotMarked(t *testing.T) {
	for name, restored := range map[string]func(t *testing.T, from, to string){
		"what differs":              restore,
		"copied over what is there": func(t *testing.T, from, to string) { run(t, "cp", "-a", from+"/.", to) },
	} {
		t.Run(name, func(t *testing.T) {
			dir, backup := filepath.Join(t.TempDir(), "state"), filepath.Join(t.TempDir(), "backup")
			store, records := openStore(t, dir, here)
			if err := errors.Join(store.Mark(), records.Put("handed over", record{"1"})); err != nil {
				t.Fatal(err)
			}
			run(t, "cp", "-a", dir, backup)
			if err := errors.Join(records.Remove("handed over"), store.Mark(), store.Mark()); err != nil {
				t.Fatal(err)
			}
			restored(t, backup, dir)
			if err := records.Put("another", record{"1"}); err != nil {
				t.Fatal(err)
			}
			if err := store.Mark(); err == nil {
				t.Error("marked")
			}
			if store, _ = openStore(t, dir, here); !store.IsCopy() {
				t.Error("it is not noticed that a backup was restored")
			}
		})
	}
}

func TestABackupFromBeforeTheLastChangeIsNoticed(t *testing.T) {
	for name, open := range map[string]func(*ownership.Store, string) (*ownership.Records[record], error){
		"lasting": ownership.NewLastingRecords[record], "of this boot": ownership.NewRecords[record],
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir, backup := filepath.Join(t.TempDir(), "state"), filepath.Join(t.TempDir(), "backup")
				store, _ := openStore(t, dir, here)
				records, err := open(store, "link")
				if err := errors.Join(err, store.Mark(), records.Put("handed over", record{"1"})); err != nil {
					t.Fatal(err)
				}
				run(t, "cp", "-a", dir, backup)
				time.Sleep(time.Second)
				if err := records.Remove("handed over"); err != nil { // and then the process is killed
					t.Fatal(err)
				}
				if store, _ = openStore(t, dir, here); store.IsCopy() {
					t.Error("a copy before the backup is restored")
				}
				restore(t, backup, dir)
				if store, _ = openStore(t, dir, here); !store.IsCopy() {
					t.Error("it is not noticed that a backup was restored")
				}
			})
		})
	}
}

func TestADirectoryIsNoCopyWhileItIsMarked(t *testing.T) {
	dir := t.TempDir()
	store, records := openStore(t, dir, here)
	if err := store.Mark(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		var errs error
		for i := range 200 {
			errs = errors.Join(errs, records.Put("a", record{strconv.Itoa(i)}), store.Mark())
		}
		done <- errs
	}()
	for {
		reader, err := ownership.Open(ownership.Config{Dir: dir, Identity: here, ReadOnly: true})
		if err != nil || reader.IsCopy() {
			t.Fatalf("a copy, or an error: %v", err)
		}
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
			return
		default:
		}
	}
}

func TestADirectoryOnAFullDiskKeepsItsMark(t *testing.T) {
	dir := t.TempDir()
	if err := tmpfs(t, dir, "size=64k,mode=0700"); err != nil {
		t.Fatal(err)
	}
	store, _ := openStore(t, dir, here)
	if err := store.Mark(); err != nil {
		t.Fatal(err)
	}
	filler := filepath.Join(dir, "filler")
	if err := os.WriteFile(filler, make([]byte, 1<<20), 0o600); err == nil {
		t.Fatal("the disk is not full")
	}
	store, _ = openStore(t, dir, here)
	if store.IsCopy() {
		t.Error("said to be a copy")
	}
	if err := store.Mark(); err == nil {
		t.Error("marked on a full disk")
	}
	if store, _ = openStore(t, dir, here); store.IsCopy() {
		t.Error("said to be a copy after it could not be marked")
	}
	if err := errors.Join(os.Remove(filler), store.Mark()); err != nil {
		t.Error(err)
	}
	if store, _ = openStore(t, dir, here); store.IsCopy() {
		t.Error("said to be a copy after it was marked again")
	}
}
