package managedfile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/statedb"
)

func TestEachFieldIsChanged(t *testing.T) {
	dir, state := t.TempDir(), t.TempDir()
	target := openedTarget(t, state)
	user, group := ids()
	path := filepath.Join(dir, "a")
	row := file(path, "one\n")
	mustUpdate(t, target, row, true)
	wantFile(t, path, "one\n", 0o644)
	for name, change := range map[string]func(*File){
		"content":   func(f *File) { f.Content = text("two\n") },
		"empty":     func(f *File) { f.Content = text("") },
		"template":  func(f *File) { f.Content, f.Template = nil, text(`{{printf "%03d" 7}}`) },
		"mode":      func(f *File) { f.Mode = 0o640 },
		"no mode":   func(f *File) { f.Mode = 0 },
		"all modes": func(f *File) { f.Mode = 0o7777 },
		"owner":     func(f *File) { f.Owner = user },
		"group":     func(f *File) { f.Group = group },
		"names":     func(f *File) { f.Owner, f.Group, f.Mode = "root", "root", 0o600 },
		"onDelete":  kept,
	} {
		changed := row
		change(&changed)
		due := changed.Mode != row.Mode || changed.Content != row.Content || changed.OnDelete != row.OnDelete || changed.Owner == "65533" || changed.Group == "65532"
		if changes, err := target.Diff(t.Context(), nil, changed); err != nil || (len(changes) > 0) != due {
			t.Errorf("%s: Diff = %v, %v", name, changes, err)
		}
		mustUpdate(t, target, changed, due)
		content := "one\n"
		switch {
		case changed.Template != nil:
			content = "007"
		case changed.Content != nil:
			content = *changed.Content
		}
		wantFile(t, path, content, 0)
		var stat unix.Stat_t
		must(t, unix.Lstat(path, &stat))
		if Mode(stat.Mode)&maxMode != changed.Mode || changed.Owner == user && fmt.Sprint(stat.Uid) != user || changed.Group == group && fmt.Sprint(stat.Gid) != group {
			t.Errorf("%s: mode %o, user %d, group %d", name, stat.Mode, stat.Uid, stat.Gid)
		}
		mustUpdate(t, openedTarget(t, state), changed, false) // after a restart
		mustUpdate(t, target, row, due)
	}
	mustDelete(t, target, row)
	wantAbsent(t, path)
	wantRecords(t, target, 0)
	wantTidy(t, dir, state)
}

func TestDiffSaysWhatChangesFieldByField(t *testing.T) {
	target := openedTarget(t, t.TempDir())
	row := file(filepath.Join(t.TempDir(), "a"), "secret\n")
	changes := func(row File) string {
		t.Helper()
		all, err := target.Diff(t.Context(), nil, row)
		must(t, err)
		return fmt.Sprint(all)
	}
	for _, want := range []string{"path", "content", "0644"} {
		if got := changes(row); !strings.Contains(got, want) {
			t.Errorf("Diff of what is not there = %s, expected %q in it", got, want)
		}
	}
	mustUpdate(t, target, row, true)
	other := file(row.Path, "another secret\n", withMode(0o600), kept)
	got := changes(other)
	for _, want := range []string{"content", "7 bytes", "15 bytes", "mode", "0644", "0600", "onDelete", "remove", "keep"} {
		if !strings.Contains(got, want) {
			t.Errorf("Diff = %s, expected %q in it", got, want)
		}
	}
	if strings.Contains(got, "secret") {
		t.Errorf("Diff = %s, which shows the content", got)
	}
}

func TestDriftOfEachAttributeIsRepaired(t *testing.T) {
	target := openedTarget(t, t.TempDir())
	path := filepath.Join(t.TempDir(), "a")
	row := file(path, "one\n")
	mustUpdate(t, target, row, true)
	user, group := ids()
	var uid, gid int
	_, err := fmt.Sscan(user+" "+group, &uid, &gid)
	must(t, err)
	for name, drift := range map[string]func() error{
		"removed":             func() error { return os.Remove(path) },
		"content":             func() error { return os.WriteFile(path, []byte("two\n"), 0o644) },
		"content by rename":   func() error { mustWrite(t, path+"~", "two\n"); return os.Rename(path+"~", path) },
		"appended":            func() error { return os.WriteFile(path, []byte("one\nmore"), 0o644) },
		"larger than allowed": func() error { return os.Truncate(path, MaxSize+1) },
		"mode":                func() error { return os.Chmod(path, 0o666) },
		"setuid":              func() error { return unix.Chmod(path, 0o4644) },
		"owner":               func() error { return os.Chown(path, uid, 0) },
		"group":               func() error { return os.Chown(path, 0, gid) },
	} {
		must(t, drift())
		due := othersExist() || name != "owner" && name != "group"
		if changes, err := target.Diff(t.Context(), nil, row); err != nil || (len(changes) > 0) != due {
			t.Errorf("%s: Diff = %v, %v", name, changes, err)
		}
		mustUpdate(t, target, row, due)
		wantFile(t, path, "one\n", 0o644)
	}
}

// A change within one tick of the clock of the file system, to the same size, is seen.
func TestAChangeAtTheSameMomentIsSeen(t *testing.T) {
	target := openedTarget(t, t.TempDir())
	path := filepath.Join(t.TempDir(), "a")
	for i := range 50 {
		row := file(path, fmt.Sprintf("%03d", i))
		mustUpdate(t, target, row, true)
		mustWrite(t, path, "xxx")
		result, err := target.Update(t.Context(), nil, row)
		if err != nil || !result.Changed {
			t.Fatalf("%d: Update = %v, %v, expected a change", i, result, err)
		}
	}
}

func TestForeignFilesAreLeftAlone(t *testing.T) {
	dir, state := t.TempDir(), t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	target := openedTarget(t, state)
	mustWrite(t, at("file"), "theirs\n")
	mustWrite(t, at("mode"), "ours\n")
	must(t, os.Chmod(at("mode"), 0o600))
	must(t, os.Mkdir(at("directory"), 0o755))
	must(t, unix.Mkfifo(at("pipe"), 0o644))
	must(t, os.Symlink(at("target"), at("symlink")))
	must(t, os.Symlink(at("mode"), at("symlink to a file")))
	for name, want := range map[string]string{
		"file":              `is a file of user 0, mode 0644, 7 bytes, sha256 [0-9a-f]{16}…\): declare it as it is, or take it over with adopt: true`,
		"mode":              `is a file of user 0, mode 0600`,
		"directory":         `is a directory of user 0\): it is left alone; remove it, or declare another path`,
		"pipe":              `is a pipe of user 0`,
		"symlink":           `is a symbolic link of user 0`,
		"symlink to a file": `is a symbolic link of user 0`,
	} {
		for _, adopt := range []bool{false, true} {
			row := file(at(name), "ours\n")
			if row.Adopt = adopt; adopt && (name == "file" || name == "mode") {
				continue
			}
			err := updateError(t, target, row)
			if !errors.Is(err, ErrForeign) || !regexp.MustCompile(want).MatchString(err.Error()) {
				t.Errorf("%s, adopt %v: %v, expected %s", name, adopt, err, want)
			}
			if _, err := target.Diff(t.Context(), nil, row); !errors.Is(err, ErrForeign) {
				t.Errorf("%s: Diff: %v", name, err)
			}
			mustDelete(t, target, row)
		}
	}
	wantFile(t, at("file"), "theirs\n", 0o644)
	wantFile(t, at("mode"), "ours\n", 0o600)
	wantAbsent(t, at("target"))
	wantRecords(t, target, 0)
	wantTidy(t, dir, state)

	// Once it is gone, the row has its way.
	must(t, os.Remove(at("file")))
	mustUpdate(t, target, file(at("file"), "ours\n"), true)
}

func TestAFileThatIsReplacedBySomethingElseIsNotOursAnyMore(t *testing.T) {
	dir := t.TempDir()
	target := openedTarget(t, t.TempDir())
	path, outside := filepath.Join(dir, "a"), filepath.Join(dir, "outside")
	mustWrite(t, outside, "theirs\n")
	row := file(path, "ours\n")
	mustUpdate(t, target, row, true)
	must(t, os.Remove(path))
	must(t, os.Symlink(outside, path))
	if err := updateError(t, target, row); !errors.Is(err, ErrForeign) {
		t.Errorf("Update: %v", err)
	}
	if got := observed(t, target); got != "" {
		t.Errorf("Observe yields %q", got)
	}
	mustDelete(t, target, row)
	if link, err := os.Readlink(path); err != nil || link != outside {
		t.Errorf("the link is %q, %v", link, err)
	}
	wantFile(t, outside, "theirs\n", 0)
	wantRecords(t, target, 0)
}

func TestHardLinksOfOthersKeepWhatTheyHave(t *testing.T) {
	dir := t.TempDir()
	target := openedTarget(t, t.TempDir())
	path, other := filepath.Join(dir, "a"), filepath.Join(dir, "other")
	mustWrite(t, other, "theirs\n")
	must(t, os.Link(other, path))
	mustUpdate(t, target, file(path, "ours\n", adopted, withMode(0o600)), true)
	wantFile(t, other, "theirs\n", 0o644)
	wantFile(t, path, "ours\n", 0o600)
	must(t, os.Link(path, other+"2"))
	mustUpdate(t, target, file(path, "ours\n", adopted, withMode(0o640)), true)
	wantFile(t, other+"2", "ours\n", 0o600)
	wantFile(t, path, "ours\n", 0o640)
}

func TestWhatBecomesOfAFileWhenItsRowGoes(t *testing.T) {
	const theirs = "theirs\n"
	for name, c := range map[string]struct {
		before string // empty: there is none
		row    func(path string) File
		after  string // empty: there is none
	}{
		"made, remove":            {"", func(p string) File { return file(p, "x") }, ""},
		"made, restore":           {"", func(p string) File { return file(p, "x", restored) }, ""},
		"made, keep":              {"", func(p string) File { return file(p, "x", kept) }, "x"},
		"adopted, remove":         {theirs, func(p string) File { return file(p, "x", adopted) }, ""},
		"adopted, restore":        {theirs, func(p string) File { return file(p, "x", adopted, restored) }, theirs},
		"adopted, keep":           {theirs, func(p string) File { return file(p, "x", adopted, kept) }, "x"},
		"as it was, remove":       {theirs, func(p string) File { return file(p, theirs) }, theirs},
		"as it was, restore":      {theirs, func(p string) File { return file(p, theirs, restored) }, theirs},
		"as it was, keep":         {theirs, func(p string) File { return file(p, theirs, kept) }, theirs},
		"as it was, adopt":        {theirs, func(p string) File { return file(p, theirs, adopted) }, ""},
		"as it was, adopt & keep": {theirs, func(p string) File { return file(p, theirs, adopted, kept) }, theirs},
	} {
		t.Run(name, func(t *testing.T) {
			dir, state := t.TempDir(), t.TempDir()
			path := filepath.Join(dir, "a")
			for _, how := range []func(*Target, File){
				func(target *Target, row File) { mustDelete(t, target, row) },
				func(target *Target, row File) { mustDelete(t, openedTarget(t, state), row) },
				func(target *Target, row File) { // as an orphan
					next := openedTarget(t, state)
					for row, err := range next.Observe(t.Context()) {
						must(t, err)
						mustDelete(t, next, row)
					}
				},
			} {
				os.Remove(path)
				if c.before != "" {
					mustWrite(t, path, c.before)
				}
				target, row := openedTarget(t, state), c.row(path)
				mustUpdate(t, target, row, c.before != *row.Content)
				wantFile(t, path, *row.Content, 0)
				if got := observed(t, target); got != "a" {
					t.Errorf("Observe yields %q", got)
				}
				how(target, row)
				if c.after == "" {
					wantAbsent(t, path)
				} else {
					wantFile(t, path, c.after, 0)
				}
				wantRecords(t, openedTarget(t, state), 0)
				if left, err := filepath.Glob(filepath.Join(state, "file", "*")); err != nil || len(left) > 0 {
					t.Errorf("left over in the state directory: %q, %v", left, err)
				}
			}
		})
	}
}

func TestRestoringBringsBackTheAttributes(t *testing.T) {
	state := t.TempDir()
	target := openedTarget(t, state)
	path := filepath.Join(t.TempDir(), "a")
	mustWrite(t, path, "theirs\n")
	user, group := ids()
	var uid, gid int
	_, err := fmt.Sscan(user+" "+group, &uid, &gid)
	must(t, err)
	must(t, os.Chown(path, uid, gid))
	must(t, unix.Chmod(path, 0o4750))
	row := file(path, "theirs\n", adopted, restored)
	mustUpdate(t, target, row, true)
	mustUpdate(t, target, file(path, "ours\n", adopted, restored), true)
	copies, err := filepath.Glob(filepath.Join(state, "file", "*.data"))
	if err != nil || len(copies) != 1 {
		t.Fatalf("what is kept: %q, %v", copies, err)
	}
	wantFile(t, copies[0], "theirs\n", 0o600)
	// Somebody removes it: what was there before is still to be given back.
	must(t, os.Remove(path))
	target = openedTarget(t, state)
	if got := observed(t, target); got != "a" {
		t.Errorf("Observe yields %q", got)
	}
	mustDelete(t, target, File{Path: path})
	var stat unix.Stat_t
	must(t, unix.Stat(path, &stat))
	if stat.Mode&0o7777 != 0o4750 || int(stat.Uid) != uid || int(stat.Gid) != gid {
		t.Errorf("restored with mode %o, user %d, group %d", stat.Mode, stat.Uid, stat.Gid)
	}
	wantFile(t, path, "theirs\n", 0)
}

func TestWhatIsTooLargeCannotBeRestored(t *testing.T) {
	target := openedTarget(t, t.TempDir())
	path := filepath.Join(t.TempDir(), "a")
	mustWrite(t, path, "")
	must(t, os.Truncate(path, MaxSize+1))
	err := updateError(t, target, file(path, "ours\n", adopted, restored))
	const want = "what was there before cannot be restored: its 1048577 bytes were not kept (at most 1048576 are): expected onDelete to be remove or keep"
	if !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, expected %s", err, want)
	}
	if info, err := os.Stat(path); err != nil || info.Size() != MaxSize+1 {
		t.Errorf("the file is %v, %v", info, err)
	}
	wantRecords(t, target, 0)
	mustUpdate(t, target, file(path, "ours\n", adopted), true)
	// It is gone by now.
	if err := updateError(t, target, file(path, "ours\n", adopted, restored)); !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, expected %s", err, want)
	}
	must(t, os.Truncate(path, MaxSize))
	mustUpdate(t, target, file(path, strings.Repeat("x", MaxSize), adopted), true)
}

func TestALostStateDirectory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	row := file(path, "ours\n")
	mustUpdate(t, openedTarget(t, t.TempDir()), row, true)
	next := openedTarget(t, t.TempDir())
	mustUpdate(t, next, row, false)
	newer := file(path, "newer\n")
	mustUpdate(t, next, newer, true)
	mustDelete(t, next, newer)
	wantFile(t, path, "newer\n", 0) // nobody knows that we made it
	newer.Adopt = true
	mustUpdate(t, next, newer, false)
	mustDelete(t, next, newer)
	wantAbsent(t, path)
}

func TestRecordsOfFilesThatOthersRemovedAreDropped(t *testing.T) {
	dir, state := t.TempDir(), t.TempDir()
	path := filepath.Join(dir, "a")
	mustUpdate(t, openedTarget(t, state), file(path, "ours\n"), true)
	must(t, os.Remove(path))
	wantRecords(t, openedTarget(t, state), 0)
	mustWrite(t, path, "theirs\n")
	if got := observed(t, openedTarget(t, state)); got != "" {
		t.Errorf("Observe yields %q", got)
	}

	// Where a disk is not mounted, nothing is concluded.
	disk := filepath.Join(dir, "disk")
	must(t, os.Mkdir(disk, 0o755))
	must(t, unix.Mount("none", disk, "tmpfs", 0, ""))
	row := file(filepath.Join(disk, "b"), "ours\n")
	mustUpdate(t, openedTarget(t, state), row, true)
	must(t, unix.Unmount(disk, 0))
	wantRecords(t, openedTarget(t, state), 1)
	must(t, os.Remove(disk))
	wantRecords(t, openedTarget(t, state), 1)
}

func TestErrorsOfUpdate(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	mustWrite(t, at("file"), "x")
	target := newTarget(t, Config{Allow: func(path string) error {
		if strings.HasPrefix(path, at("forbidden")) {
			return errors.New("not there")
		}
		return nil
	}}, t.TempDir())
	for _, name := range []string{"forbidden", "read-only", "full"} {
		must(t, os.Mkdir(at(name), 0o755))
	}
	must(t, os.Symlink("forbidden", at("way in")))
	must(t, os.Symlink("loop", at("loop")))
	must(t, unix.Mount("none", at("read-only"), "tmpfs", unix.MS_RDONLY, ""))
	t.Cleanup(func() { must(t, unix.Unmount(at("read-only"), 0)) })
	must(t, os.Mkdir(at("proc"), 0o755))
	must(t, unix.Mount("/proc/self", at("proc"), "", unix.MS_BIND|unix.MS_REC, ""))
	t.Cleanup(func() { must(t, unix.Unmount(at("proc"), unix.MNT_DETACH)) })
	must(t, os.Symlink("/proc/sys", at("to proc")))
	for path, c := range map[string]struct {
		text     string
		is       error
		terminal bool
	}{
		at("none/a"):                  {"directory " + at("none") + " does not exist, and is not made: no such file or directory", fs.ErrNotExist, false},
		at("none/further/a"):          {"directory " + at("none") + " does not exist, and is not made", fs.ErrNotExist, false},
		at("file/a"):                  {at("file") + " is not a directory: not a directory", syscall.ENOTDIR, false},
		at("loop/a"):                  {"too many levels of symbolic links", syscall.ELOOP, false},
		at("read-only/a"):             {"make a temporary file in " + at("read-only") + ": read-only file system", syscall.EROFS, false},
		at("forbidden/a"):             {"not there", nil, true},
		at("way in/a"):                {"not there", nil, true},
		at("proc/comm"):               {"is on a file system of type proc: the kernel and not the disk keeps files there", nil, true},
		at("to proc/kernel/hostname"): {"the kernel and not the disk keeps files there", nil, true},
	} {
		err := updateError(t, target, file(path, "x\n"))
		if !strings.HasPrefix(err.Error(), "file "+path) && !strings.Contains(err.Error(), "write file "+path) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: error\n%v\nexpected\n%s", path, err, c.text)
		}
		if c.is != nil && !errors.Is(err, c.is) {
			t.Errorf("%s: error %v does not match %v", path, err, c.is)
		}
		if isTerminal(err) != c.terminal {
			t.Errorf("%s: error %v is terminal: %v", path, err, !c.terminal)
		}
	}
	for row, want := range map[*File]string{
		{Owner: "nobody-of-that-name"}: `there is no user "nobody-of-that-name"`,
		{Group: "none-of-that-name"}:   `there is no group "none-of-that-name"`,
	} {
		row.Path, row.Content = at("a"), text("")
		if err := updateError(t, target, *row); !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, expected %s", err, want)
		}
	}
	wantAbsent(t, at("a"))
	wantRecords(t, target, 0)
}

// isTerminal reports whether a row is not tried again.
func isTerminal(err error) bool {
	marker := fmt.Sprintf("%T", reconciler.Terminal(errors.ErrUnsupported))
	for ; err != nil; err = errors.Unwrap(err) {
		if fmt.Sprintf("%T", err) == marker {
			return true
		}
	}
	return false
}

func TestAFullDiskChangesNothing(t *testing.T) {
	disk, state := t.TempDir(), t.TempDir()
	must(t, unix.Mount("none", disk, "tmpfs", 0, "size=64k"))
	t.Cleanup(func() { must(t, unix.Unmount(disk, 0)) })
	target := openedTarget(t, state)
	path := filepath.Join(disk, "a")
	mustUpdate(t, target, file(path, "old\n"), true)
	large := strings.Repeat("x", 128<<10)
	for _, row := range []File{file(path, large), file(filepath.Join(disk, "b"), large)} {
		err := updateError(t, target, row)
		if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "no space left on device") {
			t.Errorf("error %v, expected that of a full disk", err)
		}
	}
	wantFile(t, path, "old\n", 0o644)
	wantAbsent(t, filepath.Join(disk, "b"))
	wantTidy(t, disk, state)
	wantRecords(t, target, 1)
	mustUpdate(t, target, file(path, "new\n"), true)
}

func TestAFullStateDirectoryTouchesNothing(t *testing.T) {
	dir, state := t.TempDir(), t.TempDir()
	must(t, unix.Mount("none", state, "tmpfs", 0, "size=64k,mode=0700"))
	t.Cleanup(func() { must(t, unix.Unmount(state, 0)) })
	path := filepath.Join(dir, "a")
	mustWrite(t, path, "theirs\n")
	target := openedTarget(t, state)
	fill, err := os.Create(filepath.Join(state, "fill"))
	must(t, err)
	for err == nil {
		_, err = fill.Write(make([]byte, 4096))
	}
	must(t, fill.Close())
	for _, row := range []File{file(path, "ours\n", adopted), file(filepath.Join(dir, "b"), "ours\n")} {
		if err := updateError(t, target, row); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("error %v, expected that of a full disk", err)
		}
	}
	wantFile(t, path, "theirs\n", 0)
	wantAbsent(t, filepath.Join(dir, "b"))
	must(t, os.Remove(filepath.Join(state, "fill")))
	wantRecords(t, target, 0)
	mustUpdate(t, target, file(path, "ours\n", adopted), true)
	wantTidy(t, dir, state)
}

func TestSymbolicLinksOnTheWay(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	must(t, os.MkdirAll(at("real/sub"), 0o755))
	must(t, os.Symlink("real", at("relative")))
	must(t, os.Symlink(at("relative/sub"), at("absolute")))
	must(t, os.Symlink("../real/../real/sub", at("real/up")))
	target := openedTarget(t, t.TempDir())
	for _, way := range []string{"relative", "relative/sub", "absolute", "real/up", "real/up/../sub"} {
		path := filepath.Join(at(way), "a")
		mustUpdate(t, target, file(path, "x\n"), true)
		wantFile(t, path, "x\n", 0o644)
		mustDelete(t, target, file(path, "x\n"))
		wantAbsent(t, path)
	}
	if !othersExist() {
		return // root has no other user here whose links there could be
	}
	must(t, os.Symlink("real", at("theirs")))
	must(t, os.Lchown(at("theirs"), 65533, 65533))
	err := updateError(t, target, file(at("theirs/a"), "x\n"))
	want := at("theirs") + " is a symbolic link of user 65533, who could lead it anywhere: expected one of root or a directory"
	if !strings.Contains(err.Error(), want) || !errors.Is(err, fs.ErrPermission) {
		t.Errorf("error %v, expected %s", err, want)
	}
	wantAbsent(t, at("real/a"))
}

func TestAnEndedContextLeavesNothing(t *testing.T) {
	dir, state := t.TempDir(), t.TempDir()
	target := openedTarget(t, state)
	ctx, cancel := context.WithCancel(t.Context())
	target.reached = func(step string) {
		if step == "written down" {
			cancel()
		}
	}
	rows := []File{file(filepath.Join(dir, "a"), "x"), file(filepath.Join(dir, "b"), "x")}
	for _, result := range target.UpdateBatch(ctx, statedb.New().ReadTxn(), rows) {
		if !errors.Is(result.Err, context.Canceled) {
			t.Errorf("outcome %v", result)
		}
	}
	wantRecords(t, target, 0)
	wantTidy(t, dir, state)
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) > 0 {
		t.Errorf("left over: %v, %v", entries, err)
	}
}

// Somebody makes the file between the look at it and its making.
func TestAFileThatOthersMakeMeanwhileIsTheirs(t *testing.T) {
	dir, state := t.TempDir(), t.TempDir()
	target := openedTarget(t, state)
	path := filepath.Join(dir, "a")
	target.reached = func(step string) {
		if step == "recorded" {
			mustWrite(t, path, "theirs\n")
		}
	}
	err := updateError(t, target, file(path, "ours\n"))
	if !errors.Is(err, fs.ErrExist) {
		t.Errorf("error %v", err)
	}
	target.reached = func(string) {}
	if err := updateError(t, target, file(path, "ours\n")); !errors.Is(err, ErrForeign) {
		t.Errorf("the next error %v", err)
	}
	wantFile(t, path, "theirs\n", 0)
	wantRecords(t, target, 0)
	wantTidy(t, dir, state)
}

func TestANewNameReplacesNothingWhereRenamesAlwaysDo(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	f, err := openFolder(dir)
	must(t, err)
	defer func() { must(t, f.close()) }()
	mustWrite(t, at("from"), "new")
	mustWrite(t, at("there"), "old")
	if err := linkNew(f.fd, "from", "there"); !errors.Is(err, fs.ErrExist) {
		t.Errorf("over one that is there: %v", err)
	}
	wantFile(t, at("there"), "old", 0)
	must(t, linkNew(f.fd, "from", "to"))
	wantFile(t, at("to"), "new", 0)
	wantAbsent(t, at("from"))
}
