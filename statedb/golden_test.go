package statedb_test

import (
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write testdata/exported.txt anew")

const (
	exportedFile  = "testdata/exported.txt"
	maxExported   = 90 // methods and fields do not count
	howToUpdateIt = "go test ./statedb -run TestExportedNames -update"
)

func TestExportedNamesAreThoseOfTheGoldenFile(t *testing.T) {
	names := exportedNames(t)
	if len(names) > maxExported {
		t.Errorf("%d exported names, no more than %d are allowed", len(names), maxExported)
	}
	got := strings.Join(names, "\n") + "\n"
	if *update {
		if err := os.WriteFile(exportedFile, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(exportedFile)
	if err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("the exported names (+) are not those of %s (-); if that is meant, run `%s`:\n%s", exportedFile, howToUpdateIt, diff)
	}
}

// exportedNames are those of the package, each with what it is, sorted.
func exportedNames(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range parsed.Decls {
			names = append(names, exportedBy(decl)...)
		}
	}
	slices.Sort(names)
	return names
}

func exportedBy(decl ast.Decl) (names []string) {
	add := func(kind string, ids ...*ast.Ident) {
		for _, id := range ids {
			if id.IsExported() {
				names = append(names, kind+" "+id.Name)
			}
		}
	}
	switch d := decl.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			add("func", d.Name)
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.TypeSpec:
				add("type", s.Name)
			case *ast.ValueSpec:
				add(d.Tok.String(), s.Names...)
			}
		}
	}
	return names
}
