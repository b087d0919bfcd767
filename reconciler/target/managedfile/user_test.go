package managedfile

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/statehive/statehive/reconciler/target/ownership"
	"github.com/statehive/statehive/statedb"
)

const userDir = "STATEHIVE_TEST_USER_DIR"

// What another user than root can write is written, and the rest says what is in the way.
func TestAnotherUser(t *testing.T) {
	if !othersExist() {
		asAnotherUser(t, t.TempDir()) // the one who runs the tests is no more than that
		return
	}
	dir, err := os.MkdirTemp("", "other-user-") //nolint:usetesting // others cannot get to those
	must(t, err)
	t.Cleanup(func() { must(t, os.RemoveAll(dir)) })
	must(t, os.Chmod(dir, 0o755))
	for _, name := range []string{"state", "own", "listed"} {
		must(t, os.Mkdir(filepath.Join(dir, name), 0o700))
		must(t, os.Chown(filepath.Join(dir, name), 65533, 65533))
	}
	must(t, os.Mkdir(filepath.Join(dir, "roots"), 0o755))
	mustWrite(t, filepath.Join(dir, "own", "unreadable"), "x")
	must(t, os.Chmod(filepath.Join(dir, "own", "unreadable"), 0))
	program, err := os.ReadFile("/proc/self/exe")
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "test"), program, 0o755)) //nolint:gosec // another user executes it
	cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "test"), "-test.run=^TestChildOfAnotherUser$")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), userDir+"="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65533, Gid: 65533}}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	wantFile(t, filepath.Join(dir, "own", "a"), "x", 0o640)
}

func TestChildOfAnotherUser(t *testing.T) {
	dir := os.Getenv(userDir)
	if dir == "" {
		return // nobody has asked for it: TestAnotherUser does
	}
	asAnotherUser(t, dir)
	owned, err := ownership.Open(ownership.Config{Dir: filepath.Join(dir, "state")})
	must(t, err)
	target, err := New(Config{Owned: owned})
	must(t, err)
	for name, want := range map[string]string{
		"roots/a":        "make a temporary file in " + filepath.Join(dir, "roots") + ": permission denied",
		"own/unreadable": "keep what file " + filepath.Join(dir, "own", "unreadable") + " was before: permission denied",
	} {
		err := updateError(t, target, file(filepath.Join(dir, name), "x", adopted, func(f *File) { f.OnDelete = Restore }))
		if !strings.Contains(err.Error(), want) || !errors.Is(err, fs.ErrPermission) {
			t.Errorf("%s: error %v, expected %s", name, err, want)
		}
	}
	if err := updateError(t, target, file(filepath.Join(dir, "own", "unreadable"), "x")); !errors.Is(err, ErrForeign) {
		t.Errorf("a file that cannot be read: error %v", err)
	}
	err = updateError(t, target, file(filepath.Join(dir, "own", "b"), "x", func(f *File) { f.Owner = "0" }))
	if want := "give it to user 0 and group 65533: operation not permitted"; !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, expected %s", err, want)
	}
	wantTidy(t, filepath.Join(dir, "own"), filepath.Join(dir, "state"))
	// A directory that may be written and not be listed.
	must(t, os.Chmod(filepath.Join(dir, "listed"), 0o300))
	row := file(filepath.Join(dir, "listed", "a"), "x")
	mustUpdate(t, target, row, true)
	mustDelete(t, target, row)
	mustUpdate(t, target, file(filepath.Join(dir, "own", "a"), "x", withMode(0o640)), true)
	must(t, os.Chmod(filepath.Join(dir, "listed"), 0o700))
}

// asAnotherUser is what anybody can do.
func asAnotherUser(t *testing.T, dir string) {
	t.Helper()
	own := filepath.Join(dir, "own")
	must(t, os.MkdirAll(own, 0o700))
	must(t, os.MkdirAll(filepath.Join(dir, "state"), 0o700))
	target := openedTarget(t, filepath.Join(dir, "state"))
	row := file(filepath.Join(own, "mine"), "x")
	mustUpdate(t, target, row, true)
	mustDelete(t, target, row)

	// What cannot be read any more is replaced, but not removed.
	mustUpdate(t, target, row, true)
	must(t, os.Chmod(row.Path, 0))
	if os.Getuid() != 0 {
		if err := target.Delete(t.Context(), nil, row); err == nil || !strings.Contains(err.Error(), "cannot be read") {
			t.Errorf("Delete of a file that cannot be read: %v", err)
		}
	}
	mustUpdate(t, target, row, true)
	wantFile(t, row.Path, "x", 0o644)
	mustDelete(t, target, row)
}

// The owner of a directory can have a file system of its own say that a file is root's, or runs with the rights of its owner, while the
// agent looks at it. It must not become so elsewhere.
func TestAFileThatAnotherUserCannotHaveMadeIsNotRestored(t *testing.T) {
	if !othersExist() {
		return // root has no other user here
	}
	const user = 65533
	for name, c := range map[string]struct {
		owner    int
		mode     os.FileMode
		restored bool
	}{
		"the user's":                      {user, 0o644, true},
		"root's":                          {0, 0o644, false},
		"of a third user":                 {65532, 0o644, false},
		"root's, with the user ID":        {0, 0o755 | os.ModeSetuid, false},
		"the user's, with the user ID":    {user, 0o755 | os.ModeSetuid, false},
		"the user's, with the group ID":   {user, 0o755 | os.ModeSetgid, false},
		"the user's, in a root directory": {user, 0o755, true},
		"root's, in a group's directory":  {0, 0o755 | os.ModeSetuid, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "a")
			mustWrite(t, path, "theirs")
			must(t, os.Chown(path, c.owner, c.owner))
			must(t, os.Chmod(path, c.mode))
			target, row := openedTarget(t, t.TempDir()), file(path, "ours", restored, adopted)
			mustUpdate(t, target, row, true) // the directory is root's, as if its owner had that said
			switch {
			case strings.HasSuffix(name, "in a group's directory"):
				must(t, os.Chown(dir, 0, user))
				must(t, os.Chmod(dir, 0o775))
			case !strings.HasSuffix(name, "in a root directory"):
				must(t, os.Chown(dir, user, user))
			}
			err := target.Delete(t.Context(), statedb.New().ReadTxn(), row)
			if (err == nil) != c.restored || err != nil && !strings.Contains(err.Error(), "could have made it look so") {
				t.Errorf("Delete: %v", err)
			}
			if c.restored {
				wantFile(t, path, "theirs", c.mode)
				return
			}
			wantFile(t, path, "ours", 0o644)
			must(t, os.Chown(path, c.owner, c.owner))
			must(t, os.Chmod(path, c.mode))
			if err := updateError(t, openedTarget(t, t.TempDir()), row); !strings.Contains(err.Error(), "could have made it look so") || !strings.Contains(err.Error(), "expected onDelete to be") {
				t.Errorf("Update: %v", err)
			}
		})
	}
}

// Such a file system may be mounted on a directory of root that its user may write to, or on the file itself.
func TestAFileOfAnotherFileSystemIsNotRestored(t *testing.T) {
	for name, mount := range map[string]func(t *testing.T, dir, path string) (unmount func()){
		"over the directory": func(t *testing.T, dir, path string) func() {
			serveDiskOf(t, 65533, dir)
			mustWrite(t, path, "theirs")
			return func() { must(t, unix.Unmount(dir, unix.MNT_DETACH)) }
		},
		"on the file": func(t *testing.T, _, path string) func() {
			serveDiskOf(t, 65533, path)
			return func() { must(t, unix.Unmount(path, unix.MNT_DETACH)) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			if !othersExist() {
				return // root has no other user here
			}
			dir := t.TempDir()
			path := filepath.Join(dir, "a")
			mustWrite(t, path, "real")
			unmount := mount(t, dir, path)
			target := openedTarget(t, t.TempDir())
			err := updateError(t, target, file(path, "ours", restored, adopted))
			if !strings.Contains(err.Error(), "mounted") || !errors.Is(err, fs.ErrPermission) && !strings.Contains(err.Error(), "user 65533") {
				t.Errorf("Update: %v", err)
			}
			unmount()
			mustUpdate(t, target, file(path, "ours", restored, adopted), true)
			mustDelete(t, target, file(path, "ours", restored, adopted))
			wantFile(t, path, "real", 0)
		})
	}
}

// The owner of a file can put something in place of the temporary file that is about to become it, in a sticky directory or by a mount.
func TestATemporaryFileThatCannotBeRemovedStopsNoOtherFile(t *testing.T) {
	for name, obstruct := range map[string]func(t *testing.T, path string){
		"a directory": func(t *testing.T, path string) {
			must(t, os.Remove(path))
			must(t, os.Mkdir(path, 0o755))
		},
		"a mount": func(t *testing.T, path string) {
			must(t, unix.Mount(path, path, "", unix.MS_BIND, ""))
			t.Cleanup(func() { must(t, unix.Unmount(path, unix.MNT_DETACH)) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir, state := t.TempDir(), t.TempDir()
			target := openedTarget(t, state)
			theirs, ours := file(filepath.Join(dir, "theirs"), "2"), file(filepath.Join(dir, "ours"), "1")
			mustUpdate(t, target, file(theirs.Path, "1"), true)
			target.reached = func(step string) {
				if step != "temporary" {
					return
				}
				made, err := filepath.Glob(filepath.Join(dir, ".statehive-tmp-*"))
				if must(t, err); len(made) == 1 {
					obstruct(t, made[0])
				}
			}
			if err := updateError(t, target, theirs); err == nil {
				t.Error("it was written")
			}
			target.reached = func(string) {}
			for _, content := range []string{"1", "2"} {
				mustUpdate(t, target, file(ours.Path, content), true)
			}
			mustUpdate(t, target, theirs, true)
		})
	}
}

// What cannot be removed stays, but does not become more with each attempt, also if the directory has two paths.
func TestTemporaryFilesThatCannotBeRemovedAreFew(t *testing.T) {
	dir, state := t.TempDir(), t.TempDir()
	link := filepath.Join(t.TempDir(), "link")
	must(t, os.Symlink(dir, link))
	var target *Target
	theirs := []File{file(filepath.Join(dir, "theirs"), "1"), file(filepath.Join(link, "others"), "1")}
	var mu sync.Mutex
	mounted := map[string]bool{}
	obstruct := func(step string) {
		mu.Lock()
		defer mu.Unlock()
		made, err := filepath.Glob(filepath.Join(dir, ".statehive-tmp-*"))
		for _, path := range made {
			if must(t, err); step == "temporary" && !mounted[path] && unix.Mount(path, path, "", unix.MS_BIND, "") == nil { // or the other one is done
				mounted[path] = true
			}
		}
	}
	unmount := func() {
		for path := range mounted {
			must(t, unix.Unmount(path, unix.MNT_DETACH))
			delete(mounted, path)
		}
	}
	t.Cleanup(unmount)
	for range 2 { // processes
		target = openedTarget(t, state)
		must(t, target.Init(t.Context()))
		for range 20 {
			target.reached = obstruct
			results := target.UpdateBatch(t.Context(), nil, theirs)
			target.reached = func(string) {}
			for i, r := range results {
				if r.Err == nil || !strings.Contains(r.Err.Error(), "remove temporary file "+dir) {
					t.Fatalf("%s: error %v", theirs[i].Path, r.Err)
				}
			}
		}
		wantRecords(t, target, 0)
	}
	if lists, err := os.ReadDir(filepath.Join(state, "file-writing")); len(mounted) != 2*maxLeft || len(lists) != 2*maxLeft || err != nil {
		t.Errorf("%d temporary files in %d lists, want %d: %v", len(mounted), len(lists), 2*maxLeft, err)
	}
	if lists := target.left.lists(dir); len(lists) != 2*maxLeft {
		t.Errorf("the target knows of %d lists, want each once: %v", len(lists), lists)
	}
	if err := updateError(t, target, theirs[0]); !strings.Contains(err.Error(), "too many temporary files are left over: ") {
		t.Errorf("error %v", err)
	}
	mustUpdate(t, target, file(filepath.Join(dir, "ours"), "1"), true)
	unmount()
	for _, row := range theirs {
		mustUpdate(t, target, row, true)
	}
	wantTidy(t, dir, state)
}
