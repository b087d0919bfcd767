package repo

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// module is the path of the module that the rules are about.
const module = "github.com/statehive/statehive"

// A tree is what the rules look at: the text files of a repository, the Go files among them parsed.
type tree struct {
	fset  *token.FileSet
	texts []textFile
	gos   []goFile
}

// A textFile is any file that holds text, named by its slash-separated path from the root.
type textFile struct {
	path string
	text string
}

// A goFile is a parsed Go file that belongs to a package: not one below a testdata folder.
type goFile struct {
	textFile
	syntax *ast.File
}

func (f goFile) dir() string  { return path.Dir(f.path) }
func (f goFile) isTest() bool { return strings.HasSuffix(f.path, "_test.go") }

// repositoryRoot is the directory of the main module, found from the directory that the test runs in.
func repositoryRoot(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	for ; err == nil; dir = filepath.Dir(dir) {
		text, readErr := os.ReadFile(filepath.Join(dir, "go.mod"))
		if bytes.HasPrefix(text, []byte("module "+module+"\n")) {
			return dir
		}
		if dir == filepath.Dir(dir) {
			err = readErr
		}
	}
	t.Fatalf("no go.mod of %s at or above the test's directory: %v", module, err)
	return ""
}

// readTree reads all text files of root. A Go file that does not parse is an error.
func readTree(root fs.FS) (*tree, error) {
	read := &tree{fset: token.NewFileSet()}
	err := fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil // gone since its directory was listed
		case err != nil:
			return err
		case entry.IsDir() && skipDir(name):
			return fs.SkipDir
		case !entry.Type().IsRegular() || skipFile(name):
			return nil
		}
		return read.add(root, name)
	})
	return read, err
}

// skipDir says whether a directory is none of the repository's: what is built, and what tools keep below HOME if that is the root.
func skipDir(name string) bool {
	hidden := strings.HasPrefix(path.Base(name), ".") && name != "." && name != ".ci"
	return hidden || name == "bin" || name == "go"
}

// skipFile says whether a file is none of the repository's: shells and the like keep hidden ones in HOME.
func skipFile(name string) bool {
	return strings.HasPrefix(path.Base(name), ".") && !slices.Contains([]string{".gitignore", ".golangci.yml"}, name)
}

func (t *tree) add(root fs.FS, name string) error {
	text, err := fs.ReadFile(root, name)
	if errors.Is(err, fs.ErrNotExist) || bytes.IndexByte(text, 0) >= 0 {
		return nil
	}
	if err != nil {
		return err
	}
	file := textFile{path: name, text: string(text)}
	t.texts = append(t.texts, file)
	if path.Ext(name) != ".go" || slices.Contains(strings.Split(name, "/"), "testdata") {
		return nil
	}
	syntax, err := parser.ParseFile(t.fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	t.gos = append(t.gos, goFile{textFile: file, syntax: syntax})
	return nil
}

// at formats a breach of a rule, as file:line: message.
func (t *tree) at(pos token.Pos, format string, args ...any) string {
	position := t.fset.Position(pos)
	return fmt.Sprintf("%s:%d: ", position.Filename, position.Line) + fmt.Sprintf(format, args...)
}

// packages groups the Go files by directory, in order. External test packages belong to the directory's package.
func (t *tree) packages() [][]goFile {
	files := slices.SortedStableFunc(slices.Values(t.gos), func(a, b goFile) int { return cmp.Compare(a.dir(), b.dir()) })
	var packages [][]goFile
	for _, file := range files {
		if last := len(packages) - 1; last >= 0 && packages[last][0].dir() == file.dir() {
			packages[last] = append(packages[last], file)
			continue
		}
		packages = append(packages, []goFile{file})
	}
	return packages
}
