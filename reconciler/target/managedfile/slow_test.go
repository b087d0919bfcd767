package managedfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/statehive/statehive/statedb"
)

// soon fails if an operation takes long. It returns what it returns.
func soon[T any](t *testing.T, what string, limit time.Duration, do func() T) T {
	t.Helper()
	results := make(chan T, 1)
	go func() { results <- do() }()
	select {
	case r := <-results:
		return r
	case <-time.After(limit):
		t.Fatalf("%s takes more than %v", what, limit)
		panic("not reached")
	}
}

func updateAll(t *testing.T, target *Target, rows ...File) []error {
	t.Helper()
	return soon(t, "UpdateBatch", 15*time.Second, func() (errs []error) {
		for _, result := range target.UpdateBatch(t.Context(), statedb.New().ReadTxn(), rows) {
			errs = append(errs, result.Err)
		}
		return errs
	})
}

func deleteAll(t *testing.T, target *Target, rows ...File) []error {
	t.Helper()
	return soon(t, "DeleteBatch", 15*time.Second, func() []error { return target.DeleteBatch(t.Context(), statedb.New().ReadTxn(), rows) })
}

// Whichever request of the kernel the owner of a directory leaves unanswered, files elsewhere
// are written and removed, and there it goes on afterwards.
func TestWhateverHangsHangsAlone(t *testing.T) {
	for name, kind := range map[string]int{
		"lookup": fuseLookup, "getattr": fuseGetattr, "statfs": fuseStatfs, "create": fuseCreate, "setattr": fuseSetattr, "write": fuseWrite,
		"fsync": fuseFsync, "flush": fuseFlush, "rename": fuseRenameNew, "open a directory": fuseOpendir, "sync the directory": fuseFsyncdir,
	} {
		t.Run(name, func(t *testing.T) {
			theirs, ours, state := t.TempDir(), t.TempDir(), t.TempDir()
			d := serveDisk(t, theirs)
			target := openedTarget(t, state)
			target.answers.patience = 500 * time.Millisecond
			row, other := file(filepath.Join(theirs, "a"), "one\n"), file(filepath.Join(ours, "b"), "one\n")
			d.hang(kind)
			if errs := updateAll(t, target, row, other); !errors.Is(errs[0], errNoAnswer) || errs[1] != nil {
				t.Errorf("errors %q", errs)
			}
			wantFile(t, other.Path, "one\n", 0)
			d.thaw()
			answered(t, target)
			row, other = file(row.Path, "two\n"), file(other.Path, "two\n")
			if errs := updateAll(t, target, row, other); errors.Join(errs...) != nil {
				t.Errorf("afterwards: %q", errs)
			}
			wantFile(t, row.Path, "two\n", 0)
			if errs := deleteAll(t, target, row, other); errors.Join(errs...) != nil {
				t.Errorf("delete: %q", errs)
			}
			wantAbsent(t, row.Path)
			wantTidy(t, theirs, state)
		})
	}
}

// The same when a file is removed.
func TestARemovalThatHangsHangsAlone(t *testing.T) {
	theirs, ours, state := t.TempDir(), t.TempDir(), t.TempDir()
	d := serveDisk(t, theirs)
	target := openedTarget(t, state)
	target.answers.patience = 500 * time.Millisecond
	rows := []File{file(filepath.Join(theirs, "a"), "one\n"), file(filepath.Join(ours, "b"), "one\n")}
	for _, kind := range []int{fuseUnlink, fuseFsyncdir, fuseOpendir, fuseLookup} {
		if errs := updateAll(t, target, rows...); errors.Join(errs...) != nil {
			t.Fatalf("errors %q", errs)
		}
		d.hang(kind)
		if errs := deleteAll(t, target, rows...); !errors.Is(errs[0], errNoAnswer) || errs[1] != nil {
			t.Errorf("errors %q", errs)
		}
		wantAbsent(t, rows[1].Path)
		d.thaw()
		answered(t, target)
		if errs := deleteAll(t, target, rows...); errors.Join(errs...) != nil {
			t.Errorf("afterwards: %q", errs)
		}
		wantAbsent(t, rows[0].Path)
	}
}

// An adopted file is renamed over while its owner does not answer, and the agent starts again.
// Whether the rename happens or not, the original is given back.
func TestTheOriginalIsKeptWhileARenameHangs(t *testing.T) {
	for _, happens := range []bool{true, false} {
		t.Run(fmt.Sprint(happens), func(t *testing.T) {
			theirs, state := t.TempDir(), t.TempDir()
			d := serveDisk(t, theirs)
			row := file(filepath.Join(theirs, "a"), "ours\n", adopted, restored)
			must(t, os.WriteFile(row.Path, []byte("theirs\n"), 0o644))
			target := openedTarget(t, state)
			target.answers.patience = 500 * time.Millisecond
			d.hang(fuseRename)
			if errs := updateAll(t, target, row); !errors.Is(errs[0], errNoAnswer) {
				t.Fatalf("errors %q", errs)
			}
			wantRecords(t, target, 1)
			// The next process starts while the rename hangs.
			next := newTarget(t, Config{}, state)
			next.answers.patience = 500 * time.Millisecond
			must(t, soon(t, "Init", 15*time.Second, func() error { return next.Init(t.Context()) }))
			wantRecords(t, next, 1)
			if happens {
				d.thaw()
			} else {
				d.refuse()
			}
			answered(t, target)
			answered(t, next)
			next = openedTarget(t, state)
			if errs := updateAll(t, next, row); errors.Join(errs...) != nil {
				t.Fatalf("errors %q", errs)
			}
			wantFile(t, row.Path, "ours\n", 0)
			mustDelete(t, next, row)
			wantFile(t, row.Path, "theirs\n", 0)
			if data, _ := filepath.Glob(filepath.Join(theirs, temporaryPrefix+"*")); len(data) > 0 {
				t.Errorf("left over: %q", data)
			}
		})
	}
}

// A record must not go before the temporary file: as long as that is there, it may be renamed.
func TestARecordStaysWhileItsTemporaryFileMay(t *testing.T) {
	theirs, state := t.TempDir(), t.TempDir()
	d := serveDisk(t, theirs)
	target := openedTarget(t, state)
	row := file(filepath.Join(theirs, "a"), "ours\n", adopted, restored)
	must(t, os.WriteFile(row.Path, []byte("theirs\n"), 0o644))
	f, err := openFolder(theirs)
	must(t, err)
	temporary := temporaryName()
	must(t, os.WriteFile(filepath.Join(theirs, temporary), []byte("ours\n"), 0o644))
	is, err := f.stat(temporary)
	must(t, errors.Join(err, f.close()))
	must(t, target.records.Attach(row.Path, []byte("theirs\n")))
	must(t, target.records.Put(row.Path, record{
		Existed: true, Adopted: true, OnDelete: Restore, Directory: f.identity, Written: []string{hashOf([]byte("ours\n"))},
		Original: &original{Size: 7, Mode: 0o644, Hash: hashOf([]byte("theirs\n")), Kept: true}, Temporary: new(stampOf(&is).temporary()),
	}))
	must(t, target.pending.Put("7", []pending{{Key: row.Key(), Directory: f.identity, Temporary: temporary, Fresh: true}}))

	d.hang(fuseUnlink)
	next := newTarget(t, Config{}, state)
	next.answers.patience = 500 * time.Millisecond
	must(t, soon(t, "Init", 15*time.Second, func() error { return next.Init(t.Context()) }))
	wantRecords(t, next, 1)
	if n := next.writings.Load(); n != 7 {
		t.Errorf("the next writing replaces list %d, expected 8", n+1)
	}
	d.thaw()
	answered(t, next)
	next = openedTarget(t, state)
	mustDelete(t, next, row)
	wantFile(t, row.Path, "theirs\n", 0)
	wantTidy(t, theirs, state)
}

// Another process serves the file system: whether its files can be polled is not asked, because
// that stops the whole process.
func TestNoFileOfADiskInUserSpaceIsPolled(t *testing.T) {
	theirs, state := t.TempDir(), t.TempDir()
	d := serveDisk(t, theirs)
	d.hang(fusePoll)
	target := openedTarget(t, state)
	for _, content := range []string{"one\n", "two\n"} {
		if errs := updateAll(t, target, file(filepath.Join(theirs, "a"), content)); errs[0] != nil {
			t.Errorf("errors %q", errs)
		}
		clear(target.versions.known) // it is read again
	}
	if errs := deleteAll(t, target, file(filepath.Join(theirs, "a"), "two\n")); errs[0] != nil {
		t.Errorf("errors %q", errs)
	}
}

// Each call takes long, and none takes too long.
func TestADirectoryThatStaysSlowIsLeftOut(t *testing.T) {
	theirs, ours, state := t.TempDir(), t.TempDir(), t.TempDir()
	d := serveDisk(t, theirs)
	target := openedTarget(t, state)
	target.answers.patience = 200 * time.Millisecond
	d.slow(30)
	began := time.Now()
	for i := range 30 {
		rows := []File{file(filepath.Join(ours, "b"), fmt.Sprint(i))}
		for n := range 10 {
			rows = append(rows, file(filepath.Join(theirs, fmt.Sprint(n)), fmt.Sprint(i)))
		}
		errs := updateAll(t, target, rows...)
		if errs[0] != nil {
			t.Fatal(errs[0])
		}
		if errors.Is(errors.Join(errs...), errSlow) {
			break
		}
		if i == 29 {
			t.Errorf("it is not left out: %q", errs)
		}
	}
	if took := time.Since(began); took > 4*time.Second {
		t.Errorf("that takes %v", took)
	}
}

// The watcher does not stop, whichever of its requests the owner of a directory leaves unanswered.
func TestAWatcherGoesOnWhicheverRequestHangs(t *testing.T) {
	theirs, ours := t.TempDir(), t.TempDir()
	d := serveDisk(t, theirs)
	for n := range 12 {
		other := file(filepath.Join(ours, fmt.Sprint(n)), "ours\n")
		d.hangAfter(n, fuseGetattr)
		b := newBed(t)
		b.target.answers.patience = 500 * time.Millisecond
		l := newLiveOf(t, b, file(filepath.Join(theirs, "a"), "ours\n"), other)
		l.becomes(other.Path, "ours\n")
		eventually(t, "it is looked at", func() error {
			if _, _, found := l.seen.Get(l.db.ReadTxn(), SeenByKey.Query(other.Key())); !found {
				return errors.New("not yet")
			}
			return nil
		})
		mustWrite(t, other.Path, "drift\n")
		l.becomes(other.Path, "ours\n")
		soon(t, "the end", 15*time.Second, func() bool { l.stop(); return true })
		d.thaw()
		answered(t, l.target)
	}
}
