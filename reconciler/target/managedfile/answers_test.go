package managedfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/statehive/statehive/reconciler/target/internal/nstest"
	"github.com/statehive/statehive/statedb"
)

// answered waits until no directory is waited for, and forgives that it took long.
func answered(t *testing.T, target *Target) {
	t.Helper()
	eventually(t, "all have answered", func() error {
		target.answers.mu.Lock()
		defer target.answers.mu.Unlock()
		if n := len(target.answers.silent); n > 0 {
			return fmt.Errorf("%d have not", n)
		}
		clear(target.answers.slow)
		return nil
	})
}

func TestADiskThatDoesNotAnswerStopsItsOwnFilesOnly(t *testing.T) {
	dir, silent := t.TempDir(), t.TempDir()
	target := openedTarget(t, t.TempDir())
	target.allow = func(path string) error { // as the agent's, which compares directories
		_, _ = os.Stat(filepath.Dir(path))
		return nil
	}
	rows := []File{
		file(filepath.Join(silent, "a"), "one\n"), file(filepath.Join(dir, "b"), "one\n"), file(filepath.Join(silent, "c"), "one\n"),
	}
	update := func() (errs []error) {
		for _, result := range target.UpdateBatch(t.Context(), statedb.New().ReadTxn(), rows) {
			errs = append(errs, result.Err)
		}
		return errs
	}
	end := nstest.SilentDisk(t, silent)
	for range 3 {
		errs := update()
		if !errors.Is(errs[0], errNoAnswer) || errs[1] != nil || !errors.Is(errs[2], errNoAnswer) || !strings.Contains(errs[0].Error(), silent) {
			t.Errorf("errors %q", errs)
		}
	}
	wantFile(t, rows[1].Path, "one\n", 0)
	if errs := target.DeleteBatch(t.Context(), statedb.New().ReadTxn(), rows); errors.Join(errs...) != nil {
		t.Errorf("delete of what was not made there: %v", errs)
	}
	wantAbsent(t, rows[1].Path)
	end()
	answered(t, target)
	if errs := update(); errors.Join(errs...) != nil {
		t.Errorf("afterwards: %v", errs)
	}
	// What is there is not forgotten.
	end = nstest.SilentDisk(t, silent)
	if errs := target.DeleteBatch(t.Context(), statedb.New().ReadTxn(), rows); !errors.Is(errs[0], errNoAnswer) || errs[1] != nil {
		t.Errorf("delete: %v", errs)
	}
	must(t, target.Init(t.Context()))
	wantRecords(t, target, 2)
	end()
	answered(t, target)
}

// A file system that is frozen, as for a snapshot, can be read. Who writes waits.
func TestADiskThatIsFrozenStopsItsOwnFilesOnly(t *testing.T) {
	dir, frozen, state := t.TempDir(), t.TempDir(), t.TempDir()
	target := openedTarget(t, state)
	target.answers.patience = 400 * time.Millisecond
	rows := []File{
		file(filepath.Join(frozen, "a"), "one\n"), file(filepath.Join(dir, "b"), "one\n"), file(filepath.Join(frozen, "c"), "one\n"),
	}
	thaw := make(chan bool)
	target.reached = func(step string) {
		if step == "change in "+frozen {
			<-thaw
		}
	}
	wantOthers := func(errs ...error) {
		t.Helper()
		if !errors.Is(errs[0], errNoAnswer) || errs[1] != nil || !errors.Is(errs[2], errNoAnswer) || !strings.Contains(errs[0].Error(), frozen) {
			t.Errorf("errors %q", errs)
		}
	}
	update := func() (errs []error) {
		for _, result := range target.UpdateBatch(t.Context(), statedb.New().ReadTxn(), rows) {
			errs = append(errs, result.Err)
		}
		return errs
	}
	wantOthers(update()...)
	wantFile(t, rows[1].Path, "one\n", 0)
	close(thaw)
	answered(t, target)
	if errs := update(); errors.Join(errs...) != nil {
		t.Errorf("afterwards: %v", errs)
	}
	eventually(t, "what was made late is removed", func() error {
		left, err := filepath.Glob(filepath.Join(frozen, temporaryPrefix+"*"))
		if err == nil && len(left) > 0 {
			err = fmt.Errorf("left: %q", left)
		}
		return err
	})

	thaw = make(chan bool)
	wantOthers(target.DeleteBatch(t.Context(), statedb.New().ReadTxn(), rows)...)
	wantAbsent(t, rows[1].Path)
	close(thaw)
	answered(t, target)
	for _, row := range rows {
		mustDelete(t, target, row)
		wantAbsent(t, row.Path)
	}
	openedTarget(t, state)
	wantTidy(t, frozen, state)
}

// The directory answers, and a file in it does not.
func TestWhoeverDoesNotAnswerKeepsItsOwnCopyOfTheDirectory(t *testing.T) {
	dir := t.TempDir()
	mustWrite(t, filepath.Join(dir, "a"), "x")
	f, err := openFolder(dir)
	must(t, err)
	a := newAnswers()
	a.patience = 10 * time.Millisecond
	goOn, found := make(chan bool), make(chan error)
	_, err = ask(a, f, func(own *folder) (stamp, error) {
		<-goOn
		var stat unix.Stat_t
		found <- unix.Fstatat(own.fd, "a", &stat, 0)
		return stamp{}, nil
	})
	if !errors.Is(err, errNoAnswer) || !strings.Contains(err.Error(), dir) {
		t.Errorf("ask: %v", err)
	}
	if err := a.check(dir); !errors.Is(err, errNoAnswer) {
		t.Errorf("check meanwhile: %v", err)
	}
	must(t, f.close())
	goOn <- true
	if err := <-found; err != nil {
		t.Errorf("the directory was closed: %v", err)
	}
	answered(t, &Target{answers: a})
	a.patience = answerTime
	must(t, a.check(dir))
}

func TestOnlySomeDirectoriesAreWaitedFor(t *testing.T) {
	silent := t.TempDir()
	a := newAnswers()
	a.patience = time.Millisecond
	end := nstest.SilentDisk(t, silent)
	for i := range maxSilent {
		if err := a.check(filepath.Join(silent, fmt.Sprint(i))); !errors.Is(err, errNoAnswer) {
			t.Fatalf("directory %d: %v", i, err)
		}
	}
	if err := a.check(t.TempDir()); !errors.Is(err, errNoAnswer) || !strings.Contains(err.Error(), "100 others") {
		t.Errorf("one more: %v", err)
	}
	end()
	answered(t, &Target{answers: a})
	a.patience = answerTime
	if err := a.check(silent); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

func TestAWatcherGoesOnWhileADiskDoesNotAnswer(t *testing.T) {
	dir, silent := t.TempDir(), t.TempDir()
	there, other := file(filepath.Join(silent, "a"), "ours\n"), file(filepath.Join(dir, "b"), "ours\n")
	l := newLive(t, there, other)
	l.settled()
	end := nstest.SilentDisk(t, silent)
	eventually(t, "it is noticed", func() error {
		if err := l.health.get(); !errors.Is(err, errNoAnswer) || !strings.Contains(err.Error(), silent) {
			return fmt.Errorf("health: %w", err)
		}
		return nil
	})
	mustWrite(t, other.Path, "theirs\n")
	l.becomes(other.Path, "ours\n")
	end()
	answered(t, l.target)
	eventually(t, "it is noticed", l.health.get)
	must(t, os.WriteFile(there.Path, []byte("theirs\n"), 0o600))
	l.becomes(there.Path, "ours\n")
	l.stop()
}

// nearestPath returns where a directory would be watched.
func nearestPath(t *testing.T, dir string) (at, next string) {
	t.Helper()
	f, next, err := nearest(dir)
	must(t, err)
	must(t, f.close())
	return f.path, next
}

// Another user leads the path through links that take long to follow.
func TestLinksOfOthersAreNotFollowedByTheWatcher(t *testing.T) {
	above := filepath.Join(t.TempDir(), "u")
	must(t, os.MkdirAll(filepath.Join(above, "real"), 0o755))
	link := filepath.Join(above, "conf")
	must(t, os.Symlink("real", link))
	if at, next := nearestPath(t, link); at != filepath.Join(above, "real") || next != "" {
		t.Errorf("a link of our own: %s, %q", at, next)
	}
	must(t, os.Lchown(link, 65534, 65534))
	if at, next := nearestPath(t, link); at != above || next != "conf" {
		t.Errorf("a link of another user: %s, %q", at, next)
	}
	if at, next := nearestPath(t, filepath.Join(link, "below", "it")); at != above || next != "conf" {
		t.Errorf("below it: %s, %q", at, next)
	}
}

// Another user cannot make links and directories of root's, but can rename those in a directory
// of the user's own.
func TestWhatOthersCanRenameIsNotFollowed(t *testing.T) {
	if !othersExist() {
		return // root has no other user here whose directories there could be
	}
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"roots", "theirs/roots", "theirs/own", "shared/roots", "sticky"} {
		must(t, os.MkdirAll(at(name), 0o755))
	}
	must(t, os.Symlink("../roots", at("shared/www")))
	must(t, os.Symlink("../roots", at("sticky/www")))
	must(t, os.Symlink(at("roots"), at("theirs/www")))
	must(t, os.Symlink(at("roots"), at("theirs/own/www")))
	must(t, os.Symlink(at("roots"), at("shared/roots/www")))
	must(t, os.Chown(at("theirs"), 65533, 65533))
	must(t, os.Chown(at("theirs/own"), 65533, 65533))
	must(t, os.Chmod(at("shared"), 0o775))
	must(t, os.Chmod(at("sticky"), 0o777|os.ModeSticky))
	target := openedTarget(t, t.TempDir())
	replaced := " is a symbolic link that others can replace"
	for name, why := range map[string]string{
		"theirs/www": replaced, "theirs/own/www": replaced, "shared/www": replaced, "shared/roots/www": replaced,
		"theirs/roots": " belongs to user 0, but " + at("theirs") + " to user 65533, who could put another one there",
	} {
		err := updateError(t, target, file(at(name+"/a"), "x\n"))
		want := at(name) + why
		if !strings.Contains(err.Error(), want) || !errors.Is(err, fs.ErrPermission) {
			t.Errorf("error %v, expected %s", err, want)
		}
		if above, next := nearestPath(t, at(name)); above != filepath.Dir(at(name)) || next != filepath.Base(name) {
			t.Errorf("watched: %s, %q", above, next)
		}
	}
	for _, name := range []string{"roots/a", "theirs/roots/a"} {
		wantAbsent(t, at(name))
	}
	mustUpdate(t, target, file(at("theirs/own/a"), "x\n"), true)
	mustUpdate(t, target, file(at("shared/roots/a"), "x\n"), true)
	mustUpdate(t, target, file(at("sticky/www/a"), "x\n"), true)
	wantFile(t, at("roots/a"), "x\n", 0o644)
}
