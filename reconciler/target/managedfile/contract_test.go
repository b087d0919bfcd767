package managedfile

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/targettest"
	"github.com/statehive/statehive/statedb"
)

func keyText(row File) string { return row.Path }

// holds reports whether a file is as a row says, whose template has nothing to execute.
func holds(t *testing.T, row File) bool {
	t.Helper()
	want := row.Content
	if want == nil {
		want = row.Template
	}
	data, err := os.ReadFile(row.Path)
	if os.IsNotExist(err) {
		return false
	}
	info, statErr := os.Lstat(row.Path)
	if err != nil || statErr != nil {
		t.Fatal(err, statErr)
	}
	mode := Mode(info.Mode().Perm())
	if info.Mode()&os.ModeSetuid != 0 {
		mode |= 0o4000
	}
	return bytes.Equal(data, []byte(*want)) && mode == row.Mode
}

func TestTargetKeepsTheContract(t *testing.T) {
	dir, state := t.TempDir(), t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, "sub"), 0o700))
	at := func(name string) string { return filepath.Join(dir, name) }
	user, group := ids()
	owned := func(f *File) { f.Owner, f.Group = user, group }
	rendered := func(f *File) { f.Content, f.Template = nil, f.Content }
	targettest.Run(t, targettest.Contract[File]{
		Open: func(t *testing.T) reconciler.Target[File] { return newTarget(t, Config{}, state) },
		Key:  keyText,
		Rows: []File{
			file(at("a"), "one\n"),
			file(at("empty"), "", withMode(0o600)),
			file(at("sub/template"), "text\n", rendered),
			file(at("sub/owned"), "text\n", owned, withMode(0o4755)),
			file(at("restored"), "new\n", restored),
		},
		Variants: []File{
			file(at("a"), "another\n"),
			file(at("a"), "one\n", withMode(0o640)),
			file(at("sub/template"), "other text\n", rendered),
			file(at("restored"), "newer\n", restored),
		},
		Invalid: []File{
			file("relative", "x"),
			file("/proc/self/comm", "x"),
			file(at("sub")+"/../b", "x"),
			{Path: at("neither")},
			file(at("both"), "x", func(f *File) { f.Template = text("y") }),
			file(at("bad template"), "{{", rendered),
			file(at("bad end"), "x", func(f *File) { f.OnDelete = "explode" }),
		},
		Holds:  holds,
		Remove: func(t *testing.T, row File) { os.Remove(row.Path) },
		Disturb: func(t *testing.T, row File) {
			must(t, os.Truncate(row.Path, 7))
		},
		Foreign: func(t *testing.T) func() bool {
			others := map[string]string{"others": "x", "sub/others": "y", temporaryPrefix + "of others": "z"}
			for name, content := range others {
				mustWrite(t, at(name), content)
				t.Cleanup(func() { os.Remove(at(name)) })
			}
			return func() bool {
				for name, content := range others {
					if data, err := os.ReadFile(at(name)); err != nil || string(data) != content {
						return false
					}
				}
				return true
			}
		},
		Snapshot: statedb.New().ReadTxn,
	})
	wantTidy(t, dir, state)
	wantTidy(t, at("sub"), state)
}

// Files that were there before, and are restored.
func TestAdoptedFilesKeepTheContract(t *testing.T) {
	dir, state := t.TempDir(), t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	rows := []File{
		file(at("a"), "ours\n", adopted, restored),
		file(at("b"), "ours\n", adopted, restored, withMode(0o600)),
	}
	for _, row := range rows {
		mustWrite(t, row.Path, "theirs\n")
	}
	targettest.Run(t, targettest.Contract[File]{
		Open:     func(t *testing.T) reconciler.Target[File] { return newTarget(t, Config{}, state) },
		Key:      keyText,
		Rows:     rows,
		Variants: []File{file(at("a"), "newer\n", adopted, restored)},
		Holds:    holds,
		Disturb:  func(t *testing.T, row File) { mustWrite(t, row.Path, "drift") },
	})
	for _, row := range rows {
		wantFile(t, row.Path, "theirs\n", 0o644)
	}
	wantTidy(t, dir, state)
}
