package managedfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
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
