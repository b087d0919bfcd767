package targettest_test

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/targettest"
	"github.com/statehive/statehive/statedb"
)

// File is a row: a file with a text.
type File struct{ Name, Text string }

// Files is a target that keeps files in a directory; those that end in .ours are
// its own.
type Files struct {
	reconciler.NoPrune[File]

	dir string
}

func (f Files) path(name string) string { return filepath.Join(f.dir, name+".ours") }

// Init implements reconciler.Target.
func (f Files) Init(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return os.MkdirAll(f.dir, 0o700)
}

// Update implements reconciler.Target.
func (f Files) Update(ctx context.Context, _ statedb.ReadTxn, file File) (reconciler.Result, error) {
	if strings.Contains(file.Name, "/") {
		return reconciler.Result{}, reconciler.Terminal(errors.New("the name has a slash"))
	}
	text, err := os.ReadFile(f.path(file.Name))
	if err := errors.Join(ctx.Err(), ignoreAbsence(err)); err != nil {
		return reconciler.Result{}, err
	}
	if err == nil && string(text) == file.Text {
		return reconciler.Result{}, nil
	}
	temporary := filepath.Join(f.dir, file.Name+".tmp")
	if err := os.WriteFile(temporary, []byte(file.Text), 0o600); err != nil {
		return reconciler.Result{}, err
	}
	return reconciler.Result{Changed: true}, os.Rename(temporary, f.path(file.Name))
}

// Delete implements reconciler.Target.
func (f Files) Delete(ctx context.Context, _ statedb.ReadTxn, file File) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if strings.Contains(file.Name, "/") {
		return nil // there cannot be one
	}
	return ignoreAbsence(os.Remove(f.path(file.Name)))
}

func ignoreAbsence(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Observe implements reconciler.Observer.
func (f Files) Observe(ctx context.Context) iter.Seq2[File, error] {
	return func(yield func(File, error) bool) {
		entries, err := os.ReadDir(f.dir)
		if err := errors.Join(ctx.Err(), err); err != nil {
			yield(File{}, err)
			return
		}
		for _, entry := range entries {
			name, ours := strings.CutSuffix(entry.Name(), ".ours")
			if ours && !yield(File{Name: name}, nil) {
				return
			}
		}
	}
}

// checkFiles is what a test of Files says: func TestContract(t *testing.T).
func checkFiles(t *testing.T) {
	dir := t.TempDir()
	files := Files{dir: dir}
	targettest.Run(t, targettest.Contract[File]{
		// These three are enough.
		Open: func(*testing.T) reconciler.Target[File] { return Files{dir: dir} },
		Key:  func(f File) string { return f.Name },
		Rows: []File{{"a", "one"}, {"b", "two"}},
		// With more the kit can do more.
		Variants: []File{{"a", "three"}},
		Invalid:  []File{{"no/name", ""}},
		Holds: func(_ *testing.T, f File) bool {
			text, err := os.ReadFile(files.path(f.Name))
			return err == nil && string(text) == f.Text
		},
		Remove: func(t *testing.T, f File) {
			if err := ignoreAbsence(os.Remove(files.path(f.Name))); err != nil {
				t.Fatal(err)
			}
		},
	})
}

// The contract kit on a target that keeps files.
func ExampleRun() {
	test := checkFiles // func(t *testing.T)
	_ = test           // go test calls it
}
