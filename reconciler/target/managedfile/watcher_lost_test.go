package managedfile

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/statehive/statehive/statedb"
)

func TestAForeignFileThatGoesMakesRoomAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	mustWrite(t, path, "theirs\n")
	row := file(path, "ours\n")
	l := newLive(t, row)
	eventually(t, "the row fails", func() error { return wantStatus(l, row, "was not made by this agent") })
	must(t, os.Remove(path))
	l.becomes(path, "ours\n")
}

func TestLostNotificationsAreMadeUpFor(t *testing.T) {
	dir := t.TempDir()
	row := file(filepath.Join(dir, "a"), "ours\n")
	l := newLive(t, row)
	l.settled()
	w := l.watcher
	l.stop()
	r := &watching{Watcher: w, dirs: newDirectories(nil, newAnswers()), dirty: map[Key]bool{}}
	r.dirs.all[dir] = &directory{path: dir, files: map[string]bool{"a": true}}
	must(t, os.Remove(row.Path))
	must(t, r.failed(t.Context(), errLost))
	sources := l.seen.Sources(l.db.ReadTxn())
	if len(sources) != 1 || !strings.Contains(sources[0].Incomplete, "notifications of the kernel were lost") {
		t.Errorf("sources %+v", sources)
	}
	must(t, r.lookAtDirty(t.Context(), l.health))
	if sources := l.seen.Sources(l.db.ReadTxn()); sources[0].Incomplete != "" {
		t.Errorf("sources %+v", sources)
	}
	if n := l.seen.Len(l.db.ReadTxn()); n != 0 {
		t.Errorf("%d rows, although the file is gone", n)
	}
	if err := r.failed(t.Context(), os.ErrClosed); !errors.Is(err, os.ErrClosed) {
		t.Errorf("another error: %v", err)
	}
}

// A file system may give a directory the inode number of the one that was there before.
func TestADirectoryWithTheNumberOfItsPredecessorIsWatched(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "sub")
	must(t, os.Mkdir(dir, 0o755))
	notify, err := newNotifier()
	must(t, err)
	t.Cleanup(notify.close)
	r := &watching{notify: notify, dirs: newDirectories(notify, newAnswers()), dirty: map[Key]bool{}, moved: map[*directory]bool{}}
	watched := r.dirs.add(Key(filepath.Join(dir, "a")))
	r.watch(watched)
	must(t, os.Remove(dir))
	event := <-notify.events
	must(t, os.Mkdir(dir, 0o755))
	var stat unix.Stat_t
	must(t, unix.Stat(dir, &stat))
	watched.device, watched.inode = stat.Dev, stat.Ino // as if it had the number
	before := watched.watch
	clear(r.dirty)
	for range 3 {
		r.happened(event)
	}
	if len(r.moved) != 1 || watched.watch != before {
		t.Errorf("%d directories to be watched again, want 1 of %d", len(r.moved), before)
	}
	r.watchMoved()
	if len(r.dirs.watched) != 1 || watched.watch == before || watched.at != dir || !r.dirty[Key(filepath.Join(dir, "a"))] {
		t.Errorf("after %v: watched are %v, to be looked at %v", event, r.dirs.watched, r.dirty)
	}
}

// missingDirectories returns directories that share the watch of the one in which the first part of their paths is missing.
func missingDirectories(tb testing.TB, n int) (dirs *directories, all []*directory) {
	tb.Helper()
	dir := tb.TempDir()
	notify, err := newNotifier()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(notify.close)
	dirs = newDirectories(notify, newAnswers())
	for i := range n {
		all = append(all, dirs.add(Key(filepath.Join(dir, "missing", strconv.Itoa(i), "a"))))
	}
	dirs.watch(all...)
	return dirs, all
}

// Somebody makes the missing directory, or removes it: all are watched again.
func TestDirectoriesThatShareAWatchTakeMemoryInProportion(t *testing.T) {
	perDirectory := func(n int) uint64 {
		dirs, all := missingDirectories(t, n)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		missed := dirs.watch(all...)
		runtime.ReadMemStats(&after)
		if len(missed) != n || len(dirs.watched) != 1 {
			t.Fatalf("%d directories with %d watches, want %d with one", len(missed), len(dirs.watched), n)
		}
		return (after.TotalAlloc - before.TotalAlloc) / uint64(n)
	}
	if few, many := perDirectory(100), perDirectory(2000); many > 3*few {
		t.Errorf("%d bytes for each of 2000, %d for each of 100", many, few)
	}
}

func BenchmarkMissingDirectories(b *testing.B) {
	for _, n := range []int{1000, 4000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			b.ReportAllocs()
			dirs, all := missingDirectories(b, n)
			for b.Loop() {
				dirs.watch(all...)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/directory")
		})
	}
}

// Where watches are used up, files are looked at again and again.
func TestDirectoriesThatCannotBeWatchedAreLookedAt(t *testing.T) {
	const limit = "/proc/sys/user/max_inotify_watches"
	before, err := os.ReadFile(limit)
	must(t, err)
	must(t, os.WriteFile(limit, []byte("1"), 0))
	t.Cleanup(func() { must(t, os.WriteFile(limit, before, 0)) })
	dir := t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, "sub"), 0o755))
	rows := []File{file(filepath.Join(dir, "a"), "a"), file(filepath.Join(dir, "sub", "b"), "b")}
	l := newLive(t, rows...)
	for _, row := range rows {
		l.becomes(row.Path, *row.Content)
	}
	eventually(t, "health", func() error {
		if err := l.health.get(); err == nil || !strings.Contains(err.Error(), "raise the sysctl fs.inotify.max_user_watches") {
			return fmt.Errorf("health is %q", fmt.Sprint(err))
		}
		return nil
	})
	l.settled()
	for _, row := range rows {
		must(t, os.WriteFile(row.Path, []byte("drift"), 0o644))
	}
	for _, row := range rows {
		l.becomes(row.Path, *row.Content)
	}
	must(t, os.WriteFile(limit, before, 0))
	eventually(t, "health", l.health.get)
}

func TestTemplatesFollowTheirTables(t *testing.T) {
	dir := t.TempDir()
	row := Default()
	row.Path, row.Template = filepath.Join(dir, "hosts"), text(`{{range rows "hosts"}}{{.name}}={{.port}};{{end}}`)
	one := Default()
	one.Path, one.Template = filepath.Join(dir, "one"), text(`{{with row "hosts" "a"}}{{.port}}{{end}}`)
	l := newLive(t, row, one)
	l.becomes(row.Path, "a=80;b=4294967296;")
	l.becomes(one.Path, "80")
	for i := range 20 {
		l.put(host{Name: "c", Port: uint64(i)})
	}
	l.becomes(row.Path, "a=80;b=4294967296;c=19;")
	l.put(host{Name: "a", Port: 81})
	l.becomes(row.Path, "a=81;b=4294967296;c=19;")
	l.becomes(one.Path, "81")

	// What changes nothing of a file writes nothing.
	l.settled()
	info, err := os.Stat(row.Path)
	must(t, err)
	l.put(host{Name: "a", Port: 81, Extra: "x"}, host{Name: "b", Port: 7})
	l.becomes(row.Path, "a=81;b=7;c=19;")
	l.settled()
	if now, err := os.Stat(one.Path); err != nil || !now.ModTime().Before(time.Now()) || os.SameFile(now, info) {
		t.Errorf("%v, %v", now, err)
	}

	// A table that comes to be later.
	later := Default()
	later.Path, later.Template = filepath.Join(dir, "later"), text(`{{len (rows "later")}}`)
	l.declare(later)
	eventually(t, "the row fails", func() error { return wantStatus(l, later, `"later"`) })
	_, err = statedb.NewTable(l.db, statedb.Schema[host]{Name: "later", Primary: hostByName})
	must(t, err)
	l.becomes(later.Path, "0")

	// A template that fails for what is in the table, and then does not.
	strict := Default()
	strict.Path, strict.Template = filepath.Join(dir, "strict"), text(`{{range rows "hosts"}}{{.tags}}{{end}}`)
	l.declare(strict)
	eventually(t, "the row fails", func() error { return wantStatus(l, strict, `line 1: at <.tags>: map has no entry for key "tags"`) })
	l.put(host{Name: "a", Tags: []string{"1"}}, host{Name: "b", Tags: []string{"2"}}, host{Name: "c", Tags: []string{"3"}})
	l.becomes(strict.Path, "[1][2][3]")
}

func TestTemplatesFollowTheHostName(t *testing.T) {
	row := Default()
	row.Path, row.Template = filepath.Join(t.TempDir(), "motd"), text("{{hostname}}")
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		var name atomic.Value
		name.Store("old")
		b.target.hostname = func() (string, error) { return name.Load().(string), nil }
		_, err := b.target.Update(t.Context(), b.db.ReadTxn(), row)
		must(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- b.target.FollowTables(ctx, &lastHealth{}) }()
		time.Sleep(time.Minute)
		name.Store("new")
		select {
		case key := <-b.target.due:
			if key != row.Key() {
				t.Errorf("%s is due, expected %s", key, row.Key())
			}
		case <-time.After(20 * time.Second):
			t.Error("nothing is due")
		}
		cancel()
		must(t, <-ended)
	})
}

// A table that is incomplete for a moment fails no row that is done.
func TestAMomentWithoutAllRowsChangesNothing(t *testing.T) {
	row := Default()
	row.Path, row.Template = filepath.Join(t.TempDir(), "hosts"), text(`{{range rows "hosts"}}{{.name}}{{end}}`)
	l := newLive(t, row)
	l.becomes(row.Path, "ab")
	l.settled()
	operations := l.reconciler.Stats().Incremental.Count
	var source *statedb.Source
	must(t, l.db.Update(t.Context(), func(txn *statedb.WriteTxn) (err error) {
		source, err = l.hosts.RegisterSource(txn, "discovery")
		_, _, deleteErr := l.hosts.Delete(txn, host{Name: "b"})
		return errors.Join(err, deleteErr)
	}, l.hosts))
	eventually(t, "it was rendered again", func() error {
		if all, _ := l.target.renderings.all(); all[row.Key()].lacks == nil {
			return errors.New("not yet")
		}
		return nil
	})
	if now := l.reconciler.Stats().Incremental.Count; now != operations || wantStatus(l, row, "") != nil {
		t.Errorf("%d operations, %v", now-operations, wantStatus(l, row, ""))
	}
	must(t, l.db.Update(t.Context(), func(txn *statedb.WriteTxn) error { return source.Initialized(txn) }, l.hosts))
	l.becomes(row.Path, "a")
}

func TestWhatWasSeenIsCompared(t *testing.T) {
	target := newTarget(t, Config{}, t.TempDir())
	db := statedb.New()
	table, err := statedb.NewTable(db, SeenSchema())
	must(t, err)
	row := file(filepath.Join(t.TempDir(), "a"), "ours\n")
	want := func(want string) {
		t.Helper()
		var fields []string
		for _, change := range target.driftOf(db.ReadTxn(), statedb.ReadOnly(table), row) {
			fields = append(fields, change.Field)
		}
		if got := strings.Join(fields, " "); got != want {
			t.Errorf("it differs in %q, expected %q", got, want)
		}
	}
	see := func() {
		t.Helper()
		o := target.begin(nil)
		defer o.close()
		f, err := o.open(row.Path)
		must(t, err)
		is, err := target.look(row.Key(), f)
		must(t, err)
		must(t, db.Update(t.Context(), func(txn *statedb.WriteTxn) (err error) {
			if is.exists() {
				_, _, err = table.Insert(txn, seenOf(row.Key(), is))
			} else {
				_, _, err = table.Delete(txn, Seen{Path: row.Path})
			}
			return err
		}, table))
	}
	want("") // nothing was made
	mustUpdate(t, target, row, true)
	want("") // the news are not there yet
	see()
	want("")
	mustWrite(t, row.Path, "drift\n")
	must(t, os.Chmod(row.Path, 0o600))
	want("")
	see()
	want("content mode")
	mustUpdate(t, target, row, true)
	want("") // old news
	see()
	want("")
	must(t, os.Remove(row.Path))
	see()
	want("path")
	must(t, os.Mkdir(row.Path, 0o755))
	see()
	want("type")
}
