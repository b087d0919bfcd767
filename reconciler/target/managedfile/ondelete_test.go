package managedfile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/statedb"
)

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

// Others have changed the content: it is theirs.
func TestContentThatOthersHaveWrittenIsNotRemovedOrReplaced(t *testing.T) {
	for name, change := range map[string][]func(*File){
		"made": nil, "adopted": {adopted}, "restored": {adopted, restored},
	} {
		t.Run(name, func(t *testing.T) {
			state, path := t.TempDir(), filepath.Join(t.TempDir(), "a")
			if name != "made" {
				mustWrite(t, path, "before\n")
			}
			row := file(path, "ours\n", change...)
			mustUpdate(t, openedTarget(t, state), row, true)
			mustWrite(t, path, "theirs\n")
			var log strings.Builder
			target := newTarget(t, Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}, state)
			err := target.Delete(t.Context(), nil, row)
			wantFile(t, path, "theirs\n", 0)
			if name == "restored" { // what is kept is not lost
				if err == nil || !strings.Contains(err.Error(), "cannot be restored") {
					t.Errorf("delete: %v", err)
				}
				wantRecords(t, openedTarget(t, state), 1)
				mustDelete(t, target, file(path, "ours\n", adopted, kept))
				return
			}
			must(t, err)
			wantRecords(t, openedTarget(t, state), 0)
			if !strings.Contains(log.String(), "is left as it is") || !strings.Contains(log.String(), path) {
				t.Errorf("log: %s", &log)
			}
		})
	}
}

// The document is gone and an administrator has written the file. Then the state directory is replaced by a backup.
func TestABackupOfTheStateDirectoryRemovesNothingOfOthers(t *testing.T) {
	state, backup, path := t.TempDir(), filepath.Join(t.TempDir(), "backup"), filepath.Join(t.TempDir(), "a")
	target := openedTarget(t, state)
	mustUpdate(t, target, file(path, "ours\n"), true)
	must(t, os.CopyFS(backup, os.DirFS(state)))
	mustUpdate(t, target, file(path, "newer\n"), true)
	mustDelete(t, target, file(path, "newer\n"))
	wantAbsent(t, path)
	mustWrite(t, path, "theirs\n")
	target = openedTarget(t, backup)
	if got := observed(t, target); got != "a" {
		t.Errorf("Observe yields %q", got)
	}
	mustDelete(t, target, File{Path: path})
	wantFile(t, path, "theirs\n", 0)
}

// A symbolic link on the way leads elsewhere, where others have made a file of that name.
func TestARecordIsOfOneDirectory(t *testing.T) {
	dir, state := t.TempDir(), t.TempDir()
	first, second, link := filepath.Join(dir, "first"), filepath.Join(dir, "second"), filepath.Join(dir, "link")
	must(t, os.Mkdir(first, 0o700))
	must(t, os.Mkdir(second, 0o755))
	must(t, os.Symlink("first", link))
	mustWrite(t, filepath.Join(first, "a"), "secret\n")
	mustWrite(t, filepath.Join(second, "a"), "theirs\n")
	target, row := openedTarget(t, state), file(filepath.Join(link, "a"), "ours\n", adopted, restored)
	mustUpdate(t, target, row, true)
	must(t, os.Remove(link))
	must(t, os.Symlink("second", link))
	if err := updateError(t, target, row); !strings.Contains(err.Error(), "still to be given back as "+filepath.Join(first, "a")) {
		t.Errorf("update: %v", err)
	}
	// The file that is given back is the one that was taken.
	mustDelete(t, target, row)
	wantFile(t, filepath.Join(second, "a"), "theirs\n", 0)
	wantFile(t, filepath.Join(first, "a"), "secret\n", 0)
	wantRecords(t, openedTarget(t, state), 0)

	// There is nothing to be given back: the file is made where the path leads to.
	must(t, os.Remove(filepath.Join(first, "a")))
	must(t, os.Remove(filepath.Join(second, "a")))
	mustUpdate(t, target, row, true)
	must(t, os.Remove(link))
	must(t, os.Symlink("first", link))
	mustWrite(t, filepath.Join(first, "a"), "theirs\n")
	if err := updateError(t, target, file(row.Path, "ours\n")); !errors.Is(err, ErrForeign) {
		t.Errorf("update: %v", err)
	}
	must(t, os.Remove(filepath.Join(first, "a")))
	mustUpdate(t, target, row, true)
	mustDelete(t, target, row)
	wantAbsent(t, filepath.Join(first, "a"))
	wantFile(t, filepath.Join(second, "a"), "ours\n", 0)
}

func TestAFileOnADiskThatIsMountedThereIsNotThatOfTheRecord(t *testing.T) {
	disk, state := t.TempDir(), t.TempDir()
	path := filepath.Join(disk, "a")
	row := file(path, "ours\n")
	mustUpdate(t, openedTarget(t, state), row, true)
	must(t, unix.Mount("none", disk, "tmpfs", 0, ""))
	t.Cleanup(func() { must(t, unix.Unmount(disk, 0)) })
	mustWrite(t, path, "theirs\n")
	target := openedTarget(t, state)
	if err := updateError(t, target, row); !errors.Is(err, ErrForeign) {
		t.Errorf("update: %v", err)
	}
	mustDelete(t, target, row)
	wantFile(t, path, "theirs\n", 0)
}

// While a disk is away, the agent makes the file in the directory below it. That does not make it the agent's on the disk.
func TestAFileThatWasThereBeforeStaysThoughItsDiskIsAwayForAWhile(t *testing.T) {
	for name, c := range map[string]struct {
		change []func(*File)
		after  string
	}{
		"as declared": {nil, "ours\n"},
		"taken over":  {[]func(*File){adopted}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			disk, aside, state := t.TempDir(), t.TempDir(), t.TempDir()
			must(t, unix.Mount("none", aside, "tmpfs", 0, ""))
			t.Cleanup(func() { must(t, unix.Unmount(aside, 0)) })
			mount := func() { must(t, unix.Mount(aside, disk, "", unix.MS_BIND, "")) }
			unmount := func() { must(t, unix.Unmount(disk, 0)) }
			path := filepath.Join(disk, "a")
			mount()
			mustWrite(t, path, "ours\n")
			target, row := openedTarget(t, state), file(path, "ours\n", c.change...)
			mustUpdate(t, target, row, false)
			unmount()
			mustUpdate(t, target, row, true)
			mount()
			defer unmount()
			mustUpdate(t, target, row, false)
			mustDelete(t, openedTarget(t, state), row)
			if c.after == "" {
				wantAbsent(t, path)
			} else {
				wantFile(t, path, c.after, 0)
			}
		})
	}
}

// The owner of the directory above puts another one into its place, which may be root's.
func TestNothingIsRestoredIntoAnotherDirectory(t *testing.T) {
	for name, between := range map[string]func(target *Target, row File){
		"at once":      func(*Target, File) {},
		"after update": func(target *Target, row File) { _ = updateError(t, target, row) },
	} {
		t.Run(name, func(t *testing.T) {
			dir, state := filepath.Join(t.TempDir(), "dir"), t.TempDir()
			must(t, os.Mkdir(dir, 0o755))
			path := filepath.Join(dir, "a")
			mustWrite(t, path, "before\n")
			target, row := openedTarget(t, state), file(path, "ours\n", adopted, restored)
			mustUpdate(t, target, row, true)
			must(t, os.Rename(dir, dir+".old"))
			must(t, os.Mkdir(dir, 0o755))
			between(target, row)
			if err := target.Delete(t.Context(), nil, row); err == nil || !strings.Contains(err.Error(), "cannot be restored") {
				t.Errorf("delete: %v", err)
			}
			wantAbsent(t, path)
			must(t, os.Remove(dir)) // back in its place
			must(t, os.Rename(dir+".old", dir))
			mustDelete(t, openedTarget(t, state), row)
			wantFile(t, path, "before\n", 0)
			wantRecords(t, openedTarget(t, state), 0)
		})
	}
}

// Nothing is given back, so the file may be wherever the path leads to.
func TestAnAdoptedFileIsWrittenAgainInADirectoryThatIsMadeAgain(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "dir")
	must(t, os.Mkdir(dir, 0o755))
	path := filepath.Join(dir, "a")
	mustWrite(t, path, "before\n")
	target, row := openedTarget(t, t.TempDir()), file(path, "ours\n", adopted)
	mustUpdate(t, target, row, true)
	must(t, os.RemoveAll(dir))
	must(t, os.Mkdir(dir, 0o755))
	mustUpdate(t, target, row, true)
	mustDelete(t, target, row)
	wantAbsent(t, path)
}

// The kernel gives the inode of a directory that was removed to the next one.
func TestADirectoryWithTheNumberOfAnotherIsNotThatOfTheRecord(t *testing.T) {
	f, err := openFolder(t.TempDir())
	must(t, err)
	defer func() { must(t, f.close()) }()
	if f.Born == 0 {
		t.Skip("the file system does not tell when a directory was made")
	}
	rec := record{Directory: f.identity}
	later := f.identity
	if id := identify(f.path, &unix.Statx_t{Ino: 7, Btime: unix.StatxTimestamp{Sec: 1}}, &unix.Statfs_t{Type: unix.OVERLAYFS_SUPER_MAGIC}); id.Born != 0 || id.Inode != 7 {
		t.Errorf("of an overlay: %+v", id) // the time changes with the first write
	}
	later.Born++
	if !rec.isOf(f.identity, version{}) || rec.isOf(later, version{}) {
		t.Error("the time at which a directory was made does not count")
	}
}

// A directory that was copied, as from a backup, has the agent's files.
func TestACopiedDirectoryKeepsItsRecord(t *testing.T) {
	dir, state := filepath.Join(t.TempDir(), "dir"), t.TempDir()
	must(t, os.Mkdir(dir, 0o755))
	path := filepath.Join(dir, "a")
	mustWrite(t, path, "before\n")
	row := file(path, "ours\n", adopted, restored)
	mustUpdate(t, openedTarget(t, state), row, true)
	must(t, os.Rename(dir, dir+".old"))
	must(t, os.CopyFS(dir, os.DirFS(dir+".old")))
	target := openedTarget(t, state)
	mustUpdate(t, target, file(path, "newer\n", restored), true)
	mustDelete(t, target, row)
	wantFile(t, path, "before\n", 0)
}

// A state directory of another machine, or an old one, has records of files that somebody else has made since, with the same content.
func TestOrphansAreRemovedFromTheirOwnDirectoryOnly(t *testing.T) {
	for name, change := range map[string]func(*File){"remove": func(*File) {}, "restore": restored} {
		for _, copied := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, copied %t", name, copied), func(t *testing.T) {
				dir, state := filepath.Join(t.TempDir(), "dir"), t.TempDir()
				must(t, os.Mkdir(dir, 0o755))
				path := filepath.Join(dir, "a")
				mustWrite(t, path, "before\n")
				mustUpdate(t, openedTarget(t, state), file(path, "same\n", adopted, change), true)
				if copied {
					must(t, os.Rename(dir, dir+".other"))
					must(t, os.CopyFS(dir, os.DirFS(dir+".other")))
				}
				target := openedTarget(t, state)
				for row, err := range target.Observe(t.Context()) {
					must(t, err)
					err := target.Delete(t.Context(), nil, row)
					if refused := copied && name == "restore"; (err != nil) != refused {
						t.Errorf("delete: %v", err)
					}
				}
				switch {
				case copied:
					wantFile(t, path, "same\n", 0)
				case name == "restore":
					wantFile(t, path, "before\n", 0)
				default:
					wantAbsent(t, path)
				}
			})
		}
	}
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

// A file that was as declared is lost only when its document changes. It is kept then.
func TestWhatWasAsDeclaredIsRestoredAfterSeveralChanges(t *testing.T) {
	dir, state := t.TempDir(), t.TempDir()
	path := filepath.Join(dir, "a")
	mustWrite(t, path, "theirs")
	must(t, os.Chmod(path, 0o755|os.ModeSetuid))
	target := openedTarget(t, state)
	mustUpdate(t, target, file(path, "theirs", withMode(0o4755)), false)
	mustUpdate(t, target, file(path, "ours", withMode(0)), true)
	target = openedTarget(t, state)
	mustUpdate(t, target, file(path, "ours again"), true)
	row := file(path, "ours again", restored)
	mustUpdate(t, target, row, true)
	mustDelete(t, target, row)
	wantFile(t, path, "theirs", 0o755|os.ModeSetuid)
	wantTidy(t, dir, state)
}

// The document is edited, together with a mistake, and goes while the agent does not run.
func TestWhatIsToBecomeOfAFileIsNotedAlthoughItIsInError(t *testing.T) {
	mistake := func(f *File) { f.Owner = "nosuchuser" }
	for name, c := range map[string]struct {
		before, after func(*File)
		want          string // the content in the end
	}{
		"keep":    {func(*File) {}, kept, "new"},
		"restore": {func(*File) {}, restored, "old"},
		"remove":  {kept, func(*File) {}, ""},
		"unknown": {kept, func(f *File) { f.OnDelete = "leave" }, "new"},
	} {
		t.Run(name, func(t *testing.T) {
			path, state := filepath.Join(t.TempDir(), "a"), t.TempDir()
			mustWrite(t, path, "old")
			target := openedTarget(t, state)
			mustUpdate(t, target, file(path, "new", adopted, c.before), true)
			if err := updateError(t, target, file(path, "new", adopted, c.after, mistake)); err == nil {
				t.Error("no error")
			}
			target = openedTarget(t, state)
			for row, err := range target.Observe(t.Context()) {
				must(t, err)
				mustDelete(t, target, row)
			}
			if c.want == "" {
				wantAbsent(t, path)
			} else {
				wantFile(t, path, c.want, 0o644)
			}
		})
	}
}
