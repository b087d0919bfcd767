package managedfile

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/statedb"
)

// live is a reconciler of files with a watcher, while both run.
type live struct {
	*bed
	files      *statedb.RWTable[File]
	seen       *statedb.RWTable[Seen]
	reconciler *reconciler.Reconciler[File]
	watcher    *Watcher
	health     *lastHealth // of the watcher
	stop       func()
}

// lastHealth keeps what was reported last.
type lastHealth struct {
	mu  sync.Mutex
	err error
}

func (h *lastHealth) OK(string)                    { h.set(nil) }
func (h *lastHealth) Degraded(_ string, err error) { h.set(err) }
func (h *lastHealth) Stopped(string)               {}
func (h *lastHealth) set(err error)                { h.mu.Lock(); h.err = err; h.mu.Unlock() }
func (h *lastHealth) get() error                   { h.mu.Lock(); defer h.mu.Unlock(); return h.err }

// newLive makes one, with files that are declared from the beginning.
func newLive(t *testing.T, rows ...File) *live {
	t.Helper()
	return newLiveOf(t, newBed(t), rows...)
}

func newLiveOf(t *testing.T, b *bed, rows ...File) *live {
	t.Helper()
	l := &live{bed: b, health: &lastHealth{}}
	var err error
	l.files, err = statedb.NewTable(l.db, Schema())
	must(t, err)
	l.seen, err = statedb.NewTable(l.db, SeenSchema())
	must(t, err)
	l.declare(rows...)
	l.watcher, err = l.target.NewWatcher(l.db, statedb.ReadOnly(l.files), l.seen)
	must(t, err)
	l.reconciler, err = reconciler.New(reconciler.Params[File]{
		DB: l.db, Table: l.files, Target: l.target,
		Config:   reconciler.Config{Drift: reconciler.Drift{Settle: 100 * time.Millisecond}, FullInterval: -1, DeleteLimit: reconciler.ChangeLimit{Off: true}},
		Related:  []reconciler.Related[File]{l.target.Related()},
		Observed: l.target.Observed(statedb.ReadOnly(l.seen)),
	})
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { check(t, l.watcher.Run(ctx, l.health)) })
	running.Go(func() { check(t, l.target.FollowTables(ctx, &lastHealth{})) })
	running.Go(func() { check(t, l.reconciler.Run(ctx)) })
	l.stop = func() { cancel(); running.Wait() }
	t.Cleanup(l.stop)
	return l
}

func check(t *testing.T, err error) {
	if err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func (l *live) declare(rows ...File) {
	l.t.Helper()
	must(l.t, l.db.Update(context.Background(), func(txn *statedb.WriteTxn) error {
		for _, row := range rows {
			if _, _, err := l.files.Insert(txn, row); err != nil {
				return err
			}
		}
		return nil
	}, l.files))
}

func (l *live) undeclare(rows ...File) {
	l.t.Helper()
	must(l.t, l.db.Update(context.Background(), func(txn *statedb.WriteTxn) error {
		for _, row := range rows {
			if _, _, err := l.files.Delete(txn, row); err != nil {
				return err
			}
		}
		return nil
	}, l.files))
}

// eventually polls until something holds.
func eventually(t *testing.T, what string, holds func() error) {
	t.Helper()
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	for deadline := time.After(20 * time.Second); ; {
		err := holds()
		if err == nil {
			return
		}
		select {
		case <-poll.C:
		case <-deadline:
			t.Fatalf("%s: %v", what, err)
		}
	}
}

// becomes waits until a file has a content.
func (l *live) becomes(path, content string) {
	l.t.Helper()
	eventually(l.t, path, func() error {
		data, err := os.ReadFile(path)
		if err == nil && string(data) != content {
			err = fmt.Errorf("it has %q, expected %q", data, content)
		}
		return err
	})
}

// settled waits until all rows are done and what was seen is what there is.
func (l *live) settled() {
	l.t.Helper()
	must(l.t, l.reconciler.WaitTable(l.t.Context()))
	eventually(l.t, "what was seen", func() error {
		txn := l.db.ReadTxn()
		for row := range l.files.All(txn) {
			is, _, found := l.seen.Get(txn, SeenByKey.Query(row.Key()))
			last, made := l.target.versions.last(row.Key())
			if !found || last != is.version || is.Hash != made.Hash {
				return fmt.Errorf("%s was seen as %+v (%v)", row.Path, is, found)
			}
		}
		return nil
	})
}

func (l *live) drifts() uint64 { return l.reconciler.Stats().Drift }

func TestDriftIsNoticedAndRepairedAtOnce(t *testing.T) {
	dir := t.TempDir()
	drift := map[string]func(path string) error{
		"removed":  os.Remove,
		"written":  func(path string) error { return os.WriteFile(path, []byte("drift"), 0) },
		"replaced": func(path string) error { mustWrite(t, path+"~", "drift"); return os.Rename(path+"~", path) },
		"moved":    func(path string) error { return os.Rename(path, path+"~") },
		"mode":     func(path string) error { return os.Chmod(path, 0o666) },
		"touched":  func(path string) error { return os.Chtimes(path, time.Now(), time.Unix(7, 0)) },
	}
	var rows []File
	for name := range drift {
		rows = append(rows, file(filepath.Join(dir, name), "ours\n"))
	}
	l := newLive(t, rows...)
	l.settled()
	for name, happen := range drift {
		path := filepath.Join(dir, name)
		before := l.drifts()
		eventually(t, "the last operation is a while ago", func() error { return settledFor(path) })
		must(t, happen(path))
		if name == "touched" {
			l.settled()
			if now := l.drifts(); now != before {
				t.Errorf("%s: %d repairs of drift", name, now-before)
			}
			continue
		}
		eventually(t, name, func() error {
			data, err := os.ReadFile(path)
			info, statErr := os.Stat(path)
			if err != nil || statErr != nil || string(data) != "ours\n" || info.Mode() != 0o644 || l.drifts() != before+1 {
				return fmt.Errorf("%q, %d repairs: %w", data, l.drifts()-before, errors.Join(err, statErr))
			}
			return nil
		})
	}
}

func TestALeaseDoesNotHideDrift(t *testing.T) {
	row := file(filepath.Join(t.TempDir(), "a"), "ours\n")
	l := newLive(t, row)
	l.settled()
	leased(t, row.Path, "drift\n")
	eventually(t, "repair", func() error { // the file cannot be opened before
		if info, err := os.Stat(row.Path); err != nil || info.Size() != int64(len(*row.Content)) {
			return fmt.Errorf("%v, %w", info, err)
		}
		return nil
	})
	wantFile(t, row.Path, "ours\n", 0o644)
}

func TestFilesAreLookedAtAgainAfterUsersOrGroupsHaveChanged(t *testing.T) {
	for at, name := range []string{"passwd", "group"} {
		t.Run(name, func(t *testing.T) {
			b, accounts := newBed(t), filepath.Join(t.TempDir(), name)
			b.target.accounts[at] = accounts
			owned, plain := file(filepath.Join(t.TempDir(), "a"), ""), file(filepath.Join(t.TempDir(), "b"), "")
			for _, row := range []File{owned, plain} {
				made := version{stamp: stamp{Kind: unix.S_IFREG}}
				if row == owned && name == "passwd" {
					made.Owner = 7 // as if its name had stood for 7
				} else if row == owned {
					made.Group = 7
				}
				b.target.versions.noteMade(row.Key(), made)
			}
			files, err := statedb.NewTable(b.db, Schema())
			must(t, err)
			seen, err := statedb.NewTable(b.db, SeenSchema())
			must(t, err)
			w, err := b.target.NewWatcher(b.db, statedb.ReadOnly(files), seen)
			must(t, err)
			must(t, b.db.Update(t.Context(), func(txn *statedb.WriteTxn) error {
				_, _, err := files.Insert(txn, owned)
				_, _, err2 := files.Insert(txn, plain)
				return errors.Join(err, err2)
			}, files))
			r := &watching{Watcher: w, accounts: accountsIn(b.target.accounts)}
			for i, changed := range []bool{false, true, false, true} {
				if changed {
					must(t, os.WriteFile(accounts, make([]byte, i), 0o600))
				}
				checked := make(chan struct{})
				go func() { r.checkAccounts(t.Context()); close(checked) }()
				for due := 0; ; due++ {
					select {
					case key := <-b.target.due:
						if key != owned.Key() {
							t.Errorf("%s is due", key)
						}
						continue
					case <-checked:
					}
					if changed != (due == 1) {
						t.Errorf("check %d: %d files are due", i, due)
					}
					break
				}
			}
		})
	}
}

// The kernel notifies of a change through a hard link in the directory of that link only.
func TestAChangeThroughAnotherHardLinkIsRepaired(t *testing.T) {
	row, other := file(filepath.Join(t.TempDir(), "a"), "ours"), filepath.Join(t.TempDir(), "b")
	l := newLive(t, row)
	l.settled()
	must(t, os.Link(row.Path, other))
	l.settled()
	must(t, os.WriteFile(other, []byte("drift"), 0o644))
	l.becomes(row.Path, "ours")
}

// settledFor returns an error while a file is too young for drift of it to count.
func settledFor(path string) error {
	info, err := os.Stat(path)
	if err == nil && time.Since(info.ModTime()) < 300*time.Millisecond {
		err = errors.New("it is too young")
	}
	return err
}

func TestWhatWeWriteIsNoDrift(t *testing.T) {
	dir := t.TempDir()
	var rows []File
	for i := range 500 {
		rows = append(rows, file(filepath.Join(dir, fmt.Sprint(i)), fmt.Sprint(i)))
	}
	l := newLive(t, rows...)
	l.settled()
	for round := range 3 {
		for i := range rows {
			rows[i].Content = text(fmt.Sprint(i, round))
		}
		l.declare(rows...)
		l.settled()
	}
	l.undeclare(rows[:250]...)
	eventually(t, "the table of what is seen", func() error {
		if n := l.seen.Len(l.db.ReadTxn()); n != 250 {
			return fmt.Errorf("it has %d rows", n)
		}
		return nil
	})
	if n := l.drifts(); n != 0 {
		t.Errorf("%d repairs of drift", n)
	}
}

func TestDirectoriesComeAndGo(t *testing.T) {
	dir := t.TempDir()
	sub := filepath.Join(dir, "sub", "deeper")
	row := file(filepath.Join(sub, "a"), "ours\n")
	l := newLive(t, row)
	eventually(t, "the row fails", func() error {
		return wantStatus(l, row, "does not exist, and is not made")
	})
	must(t, os.MkdirAll(sub, 0o755))
	l.becomes(row.Path, "ours\n")
	l.settled()

	// Removed and made again, and moved away.
	must(t, os.RemoveAll(filepath.Join(dir, "sub")))
	must(t, os.MkdirAll(sub, 0o755))
	l.becomes(row.Path, "ours\n")
	l.settled()
	must(t, os.Rename(sub, sub+"2"))
	must(t, os.Mkdir(sub, 0o755))
	l.becomes(row.Path, "ours\n")
	l.settled()
	mustWrite(t, filepath.Join(sub+"2", "a"), "not ours any more")

	// One above it is moved, and something is mounted over it: the kernel tells nothing of that.
	must(t, os.Rename(filepath.Join(dir, "sub"), filepath.Join(dir, "sub2")))
	must(t, os.MkdirAll(sub, 0o755))
	l.becomes(row.Path, "ours\n")
	l.settled()
	must(t, unix.Mount("none", sub, "tmpfs", 0, ""))
	t.Cleanup(func() { must(t, unix.Unmount(sub, unix.MNT_DETACH)) })
	l.becomes(row.Path, "ours\n")
	l.settled()
	must(t, os.WriteFile(row.Path, []byte("drift"), 0o644))
	l.becomes(row.Path, "ours\n")
}

// wantStatus returns an error unless a row is in error with a text, or done without.
func wantStatus(l *live, row File, want string) error {
	is, _, found := l.files.Get(l.db.ReadTxn(), ByKey.Query(row.Key()))
	switch {
	case !found:
		return errors.New("the row is gone")
	case want == "" && is.Status.Kind() == reconciler.Done, want != "" && strings.Contains(fmt.Sprint(is.Status.Err()), want):
		return nil
	}
	return fmt.Errorf("the status is %v", is.Status)
}

func TestTwoDirectoriesThatDoNotExistShareAWatch(t *testing.T) {
	dir := t.TempDir()
	first, second := file(filepath.Join(dir, "one", "a"), "1"), file(filepath.Join(dir, "two", "a"), "2")
	third := file(filepath.Join(dir, "here"), "3")
	l := newLive(t, first, second, third)
	l.becomes(third.Path, "3")
	must(t, os.Mkdir(filepath.Join(dir, "one"), 0o755))
	l.becomes(first.Path, "1")
	must(t, os.Mkdir(filepath.Join(dir, "two"), 0o755))
	l.becomes(second.Path, "2")
	l.undeclare(first, second)
	eventually(t, "they are removed", func() error {
		if _, err := os.Stat(first.Path); err == nil {
			return errors.New("one is there")
		}
		return nil
	})
	l.settled()
	must(t, os.WriteFile(third.Path, []byte("drift"), 0o644))
	l.becomes(third.Path, "3")
}

func TestSymbolicLinksToADirectoryThatAreChanged(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	must(t, os.Mkdir(at("v1"), 0o755))
	must(t, os.Mkdir(at("v2"), 0o755))
	must(t, os.Symlink("v1", at("current")))
	row, direct := file(at("current/a"), "ours\n"), file(at("v1/b"), "direct\n")
	l := newLive(t, row, direct)
	l.becomes(at("v1/a"), "ours\n")
	l.settled()
	// Both directories are one, under two names: each row is told of its own.
	must(t, os.WriteFile(at("v1/a"), []byte("drift"), 0o644))
	must(t, os.WriteFile(at("v1/b"), []byte("drift"), 0o644))
	l.becomes(at("v1/a"), "ours\n")
	l.becomes(at("v1/b"), "direct\n")
	l.settled()
	must(t, os.Symlink("v2", at("next")))
	must(t, os.Rename(at("next"), at("current")))
	l.becomes(at("v2/a"), "ours\n")
}
