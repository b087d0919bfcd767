package managedfile

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/statehive/statehive/reconciler/target/ownership"
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
		"own/unreadable": "read file " + filepath.Join(dir, "own", "unreadable") + ": permission denied",
	} {
		if err := updateError(t, target, file(filepath.Join(dir, name), "x")); !strings.Contains(err.Error(), want) || !errors.Is(err, fs.ErrPermission) {
			t.Errorf("%s: error %v, expected %s", name, err, want)
		}
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
}
