package managedfile

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/statehive/statehive/reconciler/target/ownership"
	"github.com/statehive/statehive/statedb"
)

// The process that is to be killed is this one again, with these in its environment.
const (
	killAt    = "STATEHIVE_TEST_KILL_AT"
	killDir   = "STATEHIVE_TEST_KILL_DIR"
	killState = "STATEHIVE_TEST_KILL_STATE"
	killWhat  = "STATEHIVE_TEST_KILL_WHAT"
)

// steps are where a process can be killed, in the order in which an operation comes by.
var killSteps = []string{
	"looked", "removed", "written down", "temporary", "recorded", "renamed", "synced", "removed and synced", "never",
}

// killed runs an operation in a process that is killed at a step, unless it does not come
// by.
func killed(t *testing.T, step, what, dir, state string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^TestChildThatIsKilled$")
	cmd.Env = append(os.Environ(), killAt+"="+step, killWhat+"="+what, killDir+"="+dir, killState+"="+state)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL {
		return
	}
	if err != nil {
		t.Fatalf("killed at %q: %v\n%s", step, err, out)
	}
}

// killRows are the rows of an operation that is killed.
func killRows(dir, what string) []File {
	at := func(name string) string { return filepath.Join(dir, name) }
	if what == "change" {
		return []File{
			file(at("made"), "newer\n", withMode(0o600)),
			file(at("adopted"), "newer\n", adopted, restored),
			file(at("other"), "newer\n", kept),
		}
	}
	return []File{
		file(at("made"), "new\n"),
		file(at("adopted"), "new\n", adopted, restored),
		file(at("other"), "new\n"),
	}
}

func TestChildThatIsKilled(t *testing.T) {
	step, dir, what := os.Getenv(killAt), os.Getenv(killDir), os.Getenv(killWhat)
	if step == "" {
		return // nobody has asked for it: TestAProcessThatIsKilled does
	}
	owned, err := ownership.Open(ownership.Config{Dir: os.Getenv(killState)})
	must(t, err)
	target, err := New(Config{Owned: owned})
	must(t, err)
	must(t, target.Init(t.Context()))
	target.reached = func(at string) {
		if at == step {
			must(t, syscall.Kill(os.Getpid(), syscall.SIGKILL))
			select {}
		}
	}
	if what == "delete" {
		for _, err := range target.DeleteBatch(t.Context(), statedb.New().ReadTxn(), killRows(dir, "make")) {
			must(t, err)
		}
		return
	}
	for _, result := range target.UpdateBatch(t.Context(), statedb.New().ReadTxn(), killRows(dir, what)) {
		must(t, result.Err)
	}
}

// killBed is a directory in which others have made a file, with the rows that are ours
// before an operation is killed.
func killBed(t *testing.T, what string) (dir, state string) {
	t.Helper()
	dir, state = t.TempDir(), t.TempDir()
	mustWrite(t, filepath.Join(dir, "adopted"), "theirs\n")
	if what != "make" {
		target := openedTarget(t, state)
		for _, row := range killRows(dir, "make") {
			mustUpdate(t, target, row, true)
		}
	}
	return dir, state
}

// A process is killed at each step of each operation. Whatever it was, files are whole,
// and the next process goes on, or takes everything back.
func TestAProcessThatIsKilled(t *testing.T) {
	for _, what := range []string{"make", "change", "delete"} {
		for _, step := range killSteps {
			for _, next := range []string{"go on", "delete"} {
				t.Run(fmt.Sprintf("%s, killed at %s, then %s", what, step, next), func(t *testing.T) {
					dir, state := killBed(t, what)
					killed(t, step, what, dir, state)
					for _, name := range []string{"made", "adopted", "other"} {
						data, err := os.ReadFile(filepath.Join(dir, name))
						if whole := map[string]bool{"new\n": true, "newer\n": true, "theirs\n": name == "adopted", "": os.IsNotExist(err)}; !whole[string(data)] {
							t.Errorf("%s has %q, %v", name, data, err)
						}
					}
					target := openedTarget(t, state)
					wantTidy(t, dir, state)
					if next == "go on" {
						goOnAfterKill(t, target, what, dir)
					}
					for row, err := range target.Observe(t.Context()) {
						must(t, err)
						row.OnDelete = "" // the record says it, but for what is kept
						if filepath.Base(row.Path) == "other" {
							row.OnDelete = Remove
						}
						mustDelete(t, target, row)
					}
					wantAbsent(t, filepath.Join(dir, "made"))
					wantAbsent(t, filepath.Join(dir, "other"))
					wantFile(t, filepath.Join(dir, "adopted"), "theirs\n", 0o644)
					wantTidy(t, dir, state)
					wantRecords(t, openedTarget(t, state), 0)
				})
			}
		}
	}
}

// goOnAfterKill does again what was interrupted.
func goOnAfterKill(t *testing.T, target *Target, what, dir string) {
	t.Helper()
	if what == "delete" {
		for _, row := range killRows(dir, "make") {
			mustDelete(t, target, row)
		}
		return
	}
	for _, row := range killRows(dir, what) {
		if _, err := target.Update(t.Context(), nil, row); err != nil {
			t.Fatal(err)
		}
		mustUpdate(t, target, row, false)
		wantFile(t, row.Path, *row.Content, os.FileMode(row.Mode))
	}
}

// Who sees the name of a temporary file in a directory in which everybody may make files can use it again once the file is renamed, and
// others may change the file before the next process comes.
func TestTheNamesOfTemporaryFilesSayNothingAfterAKill(t *testing.T) {
	for what, change := range map[string]func(file string){
		"as it was written": func(string) {},
		"edited":            func(file string) { mustWrite(t, file, "edited\n") },
		"replaced": func(file string) {
			must(t, os.Remove(file))
			mustWrite(t, file, "replaced\n")
		},
		"saved as editors do, with the number of the inode of the original": func(file string) {
			mustWrite(t, file+"~", "edited\n")
			must(t, os.Rename(file+"~", file))
		},
		"leased": func(file string) {
			f, err := os.OpenFile(file, os.O_RDWR, 0)
			must(t, err)
			t.Cleanup(func() { _ = f.Close() })
			_, err = unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_WRLCK)
			must(t, err)
		},
	} {
		for how, plant := range map[string]func(temporary, file string){
			"empty":  func(temporary, _ string) { mustWrite(t, temporary, "") },
			"copied": func(temporary, _ string) { mustWrite(t, temporary, "new\n") },
			"linked": func(temporary, file string) { must(t, os.Link(file, temporary)) },
		} {
			dir, state := killBed(t, "make")
			killed(t, "renamed", "make", dir, state)
			planted := 0
			for _, p := range written(t, state) {
				plant(filepath.Join(dir, p.Temporary), string(p.Key))
				planted++
			}
			if planted != 3 {
				t.Fatalf("%d temporary files are written down, want 3", planted)
			}
			change(filepath.Join(dir, "adopted"))
			target := openedTarget(t, state)
			wantTidy(t, dir, state)
			rec, known := target.records.Get(filepath.Join(dir, "adopted"))
			if !known || !rec.Adopted || rec.Original == nil || rec.Original.Hash != hashOf([]byte("theirs\n")) {
				t.Errorf("%s, %s: the record is %t, %+v", what, how, known, rec)
			}
			if what == "leased" {
				continue
			}
			goOnAfterKill(t, target, "change", dir)
			for _, row := range killRows(dir, "make")[:2] {
				mustDelete(t, target, row)
			}
			wantAbsent(t, filepath.Join(dir, "made"))
			wantFile(t, filepath.Join(dir, "adopted"), "theirs\n", 0o644)
		}
	}
}

// The file of a document was not there before. Who can write to its directory replaces it after a kill, too: it is the agent's all the same.
func TestTheNamesOfTemporaryFilesGiveNoFileToOthersAfterAKill(t *testing.T) {
	for _, step := range []string{"recorded", "renamed"} {
		for how, change := range map[string]func(temporary, file string){
			"another file":        func(temporary, file string) { mustWrite(t, temporary, "x"); mustWrite(t, file, "edited\n") },
			"linked and edited":   func(temporary, file string) { must(t, os.Link(file, temporary)); mustWrite(t, file, "edited\n") },
			"given its name back": func(temporary, file string) { must(t, os.Rename(file, temporary)); mustWrite(t, file, "edited\n") },
		} {
			for _, mode := range []os.FileMode{0o755, 0o777} {
				if step == "recorded" && how != "another file" || mode == 0o755 && how == "given its name back" {
					continue // there is no file yet; or only an administrator can have done that, and is asked
				}
				dir, state := killBed(t, "make")
				must(t, os.Chmod(dir, mode))
				killed(t, step, "make", dir, state)
				made := filepath.Join(dir, "made")
				for _, p := range written(t, state) {
					if string(p.Key) == made {
						temporary := filepath.Join(dir, p.Temporary)
						if step == "recorded" {
							must(t, os.Rename(temporary, temporary+".aside")) // its inode is not used again
						}
						change(temporary, made)
					}
				}
				target := openedTarget(t, state)
				if _, known := target.records.Get(made); !known {
					t.Errorf("killed at %q, %s, mode %v: the record is gone", step, how, mode)
					continue
				}
				mustUpdate(t, target, killRows(dir, "make")[0], true)
				wantFile(t, made, "new\n", 0)
			}
		}
	}
}

// written returns the temporary files that are written down.
func written(t *testing.T, state string) (all []pending) {
	t.Helper()
	for _, list := range newTarget(t, Config{}, state).pending.All() {
		all = append(all, list...)
	}
	return all
}

// The disk of a directory may be mounted later than at the next start, or something else in its place.
func TestTemporaryFilesOfADirectoryThatIsAwayAreRemovedWhenItIsBack(t *testing.T) {
	for what, replace := range map[string]func(dir string){
		"nothing":           func(string) {},
		"another directory": func(dir string) { must(t, os.Mkdir(dir, 0o755)) },
		"a file":            func(dir string) { mustWrite(t, dir, "") },
	} {
		for _, then := range []string{"restart", "update", "others have made a file", "others have made the file"} {
			dir, state := killBed(t, "make")
			made, rows := filepath.Join(dir, "made"), killRows(dir, "make")
			killed(t, "recorded", "make", dir, state)
			must(t, os.Rename(dir, dir+".away"))
			replace(dir)
			target := openedTarget(t, state)
			if n := len(written(t, state)); n != 3 {
				t.Errorf("%s in its place: %d temporary files are written down, want 3", what, n)
			}
			must(t, errors.Join(os.RemoveAll(dir), os.Rename(dir+".away", dir)))
			switch then { // the directory is back while the agent runs
			case "update":
				goOnAfterKill(t, target, "make", dir)
			case "others have made a file":
				mustWrite(t, made, "of others\n")
				if err := updateError(t, target, rows[0]); !errors.Is(err, ErrForeign) {
					t.Errorf("%s in its place: error %v", what, err)
				}
			case "others have made the file":
				mustWrite(t, made, "new\n")
			}
			if then != "restart" {
				mustDelete(t, target, rows[0])
				mustDelete(t, target, rows[1])
				mustDelete(t, target, file(rows[2].Path, "new\n"))
				wantTidy(t, dir, state)
			}
			target = openedTarget(t, state)
			wantRecords(t, target, 0)
			wantTidy(t, dir, state)
			wantFile(t, filepath.Join(dir, "adopted"), "theirs\n", 0o644)
			if data, _ := os.ReadFile(made); strings.HasPrefix(then, "others") != (len(data) > 0) {
				t.Errorf("%s in its place, %s: made has %q", what, then, data)
			}
		}
	}
}

// What others make after the kill, where we had not made anything yet, is theirs: the
// record that was written beforehand claims nothing.
func TestWhatOthersMakeAfterAKillIsTheirs(t *testing.T) {
	for _, step := range []string{"looked", "written down", "temporary", "recorded"} {
		for _, content := range []string{"of others\n", "of others after chown -R\n", "new\n"} {
			dir, state := killBed(t, "make")
			killed(t, step, "make", dir, state)
			mustWrite(t, filepath.Join(dir, "made"), content)
			if strings.Contains(content, "chown") && step != "looked" && step != "written down" {
				for _, p := range written(t, state) {
					must(t, os.Chown(filepath.Join(dir, p.Temporary), 0, 0))
				}
			}
			target := openedTarget(t, state)
			if content != "new\n" {
				if err := updateError(t, target, killRows(dir, "make")[0]); !errors.Is(err, ErrForeign) {
					t.Errorf("killed at %q: error %v", step, err)
				}
			}
			if got := observed(t, target); got != "" {
				t.Errorf("killed at %q: Observe yields %q", step, got)
			}
			mustDelete(t, target, killRows(dir, "make")[0])
			wantFile(t, filepath.Join(dir, "made"), content, 0)
			wantFile(t, filepath.Join(dir, "adopted"), "theirs\n", 0)
			wantTidy(t, dir, state)
		}
	}
}

// A directory with the name of a temporary file is not the agent's, and does not keep its row from being applied.
func TestADirectoryInPlaceOfATemporaryFileAfterAKill(t *testing.T) {
	dir, state := killBed(t, "make")
	killed(t, "recorded", "make", dir, state)
	must(t, os.Rename(dir, dir+".away"))
	target := openedTarget(t, state)
	must(t, os.Rename(dir+".away", dir))
	for _, p := range written(t, state) {
		must(t, errors.Join(os.Remove(filepath.Join(dir, p.Temporary)), os.Mkdir(filepath.Join(dir, p.Temporary), 0o755)))
	}
	goOnAfterKill(t, target, "make", dir)
	if left := written(t, state); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
}

// The disk of a directory is away at the next start, and the documents go, or the files are written below it. Then it comes back.
func TestWhatIsLeftOverOnADiskThatComesBackIsRemoved(t *testing.T) {
	for name, meanwhile := range map[string]func(t *testing.T, target *Target, dir, state string){
		"documents gone": func(t *testing.T, target *Target, dir, _ string) {
			t.Helper()
			for _, row := range killRows(dir, "make") {
				mustDelete(t, target, row)
			}
		},
		"written below": func(t *testing.T, target *Target, dir, state string) {
			t.Helper()
			goOnAfterKill(t, target, "make", dir)
			openedTarget(t, state)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir, state := killBed(t, "make")
			killed(t, "temporary", "make", dir, state)
			must(t, os.Rename(dir, dir+".away"))
			must(t, os.Mkdir(dir, 0o755))
			meanwhile(t, openedTarget(t, state), dir, state)
			must(t, errors.Join(os.RemoveAll(dir), os.Rename(dir+".away", dir)))
			openedTarget(t, state)
			wantTidy(t, dir, state)
		})
	}
}

// An old list of temporary files says nothing about a record of another directory.
func TestAListOfAnotherDirectoryTakesNoRecordAway(t *testing.T) {
	dir, state := killBed(t, "make")
	killed(t, "temporary", "make", dir, state) // there is no record yet
	must(t, os.Rename(dir, dir+".away"))
	must(t, os.Mkdir(dir, 0o755))
	row := killRows(dir, "make")[1]
	mustWrite(t, row.Path, "theirs\n") // as in the former directory
	mustUpdate(t, openedTarget(t, state), row, true)
	must(t, errors.Join(os.RemoveAll(dir), os.Rename(dir+".away", dir)))
	target := openedTarget(t, state)
	wantRecords(t, target, 1)
	wantTidy(t, dir, state)
}

// A plan changes nothing, and an update of the file may store its record at the same time.
func TestADiffSettlesNothing(t *testing.T) {
	dir, state := killBed(t, "make")
	killed(t, "recorded", "make", dir, state)
	must(t, os.Rename(dir, dir+".away"))
	target := openedTarget(t, state)
	must(t, os.Rename(dir+".away", dir))
	for _, result := range target.DiffBatch(t.Context(), statedb.New().ReadTxn(), killRows(dir, "make")) {
		must(t, result.Err)
	}
	wantRecords(t, target, 3)
	if n := len(written(t, state)); n != 3 {
		t.Errorf("%d temporary files are written down, want 3", n)
	}
	if left, err := filepath.Glob(filepath.Join(dir, temporaryPrefix+"*")); err != nil || len(left) != 3 {
		t.Errorf("temporary files %q, %v, want 3", left, err)
	}
	goOnAfterKill(t, target, "make", dir)
	wantTidy(t, dir, state)
}
