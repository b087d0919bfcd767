package repo

import (
	"go/ast"
	"go/scanner"
	"go/token"
	"path"
	"slices"
	"strings"
	"testing"
)

const (
	maxFileLines = 500
	maxMainLines = 20
)

func checkPackageComments(t *tree) []string {
	var findings []string
	for _, files := range t.packages() {
		files = slices.DeleteFunc(slices.Clone(files), goFile.isTest)
		if len(files) == 0 {
			continue
		}
		name := files[0].syntax.Name.Name
		if !slices.ContainsFunc(files, func(f goFile) bool { return hasPackageComment(f.syntax) }) {
			findings = append(findings, t.at(files[0].syntax.Package,
				"package %s has no package comment: say above one of its package clauses what it is for, starting %q", name, commentStart(name)))
		}
	}
	return findings
}

func hasPackageComment(file *ast.File) bool {
	return strings.HasPrefix(file.Doc.Text(), commentStart(file.Name.Name))
}

func commentStart(packageName string) string {
	if packageName == "main" {
		return "Command "
	}
	return "Package " + packageName + " "
}

func checkPackageNames(t *tree) []string {
	empty := []string{"util", "utils", "common", "helper", "helpers", "types", "misc", "shared"}
	var findings []string
	for _, files := range t.packages() {
		name := strings.TrimSuffix(files[0].syntax.Name.Name, "_test")
		for _, name := range slices.Compact([]string{name, path.Base(files[0].dir())}) {
			if slices.Contains(empty, name) {
				findings = append(findings, t.at(files[0].syntax.Package, "%s says nothing: name the package for what it does", name))
			}
		}
	}
	return findings
}

func checkFileLengths(t *tree) []string {
	var findings []string
	for _, file := range t.gos {
		if lines := strings.Count(file.text, "\n"); !file.isTest() && lines >= maxFileLines {
			findings = append(findings, t.at(file.syntax.Package, "%d lines in one file, %d are too many: split it by what it is about",
				lines, maxFileLines))
		}
	}
	return findings
}

func checkThinMains(t *tree) []string {
	var findings []string
	for _, file := range t.gos {
		if path.Base(file.path) != "main.go" || !strings.HasPrefix(file.path, "cmd/") {
			continue
		}
		if lines := codeLines(file.text); lines >= maxMainLines {
			findings = append(findings, t.at(file.syntax.Package, "%d lines of code in main.go, %d are too many: move them into a package",
				lines, maxMainLines))
		}
	}
	return findings
}

// codeLines counts the lines that hold something other than comments.
func codeLines(text string) int {
	files := token.NewFileSet()
	file := files.AddFile("", files.Base(), len(text))
	var scan scanner.Scanner
	scan.Init(file, []byte(text), nil, 0)
	lines := map[int]bool{}
	for {
		pos, tok, literal := scan.Scan()
		switch {
		case tok == token.EOF:
			return len(lines)
		case tok == token.SEMICOLON && literal == "\n":
			continue // put in by the scanner
		}
		lines[file.Line(pos)] = true
	}
}

func checkNoInit(t *tree) []string {
	var findings []string
	for _, file := range t.gos {
		for _, decl := range file.syntax.Decls {
			if function, ok := decl.(*ast.FuncDecl); ok && function.Recv == nil && function.Name.Name == "init" {
				findings = append(findings, t.at(function.Pos(), "init function: let the caller construct what is needed"))
			}
		}
	}
	return findings
}

func TestPackageCommentIsMissed(t *testing.T) {
	tryRule(t, checkPackageComments, map[string]ruleCase{
		"present in one file":   {files: source{"a/a.go": "package a", "a/doc.go": "// Package a does.\npackage a"}},
		"present on a main":     {files: source{"a/a.go": "// Command a does.\npackage main"}},
		"needed by tests never": {files: source{"a/a_test.go": "package a"}},
		"absent": {
			files: source{"a/a.go": "package a", "a/a_test.go": "// Package a is tested.\npackage a"},
			want:  []string{`a/a.go:1: package a has no package comment: say above one of its package clauses what it is for, starting "Package a "`},
		},
		"about another package": {
			files: source{"a/a.go": "// Package b does.\npackage a"},
			want:  []string{`a/a.go:2: package a has no package comment: say above one of its package clauses what it is for, starting "Package a "`},
		},
	})
}

func TestEmptyPackageNameIsFound(t *testing.T) {
	tryRule(t, checkPackageNames, map[string]ruleCase{
		"telling":   {files: source{"queue/a.go": "package queue"}},
		"package":   {files: source{"x/a.go": "package util"}, want: []string{"x/a.go:1: util says nothing: name the package for what it does"}},
		"directory": {files: source{"types/a.go": "package x"}, want: []string{"types/a.go:1: types says nothing: name the package for what it does"}},
	})
}

func TestLongFileIsFound(t *testing.T) {
	lines := func(n int) string { return "package a\n" + strings.Repeat("\n", n-1) }
	tryRule(t, checkFileLengths, map[string]ruleCase{
		"short": {files: source{"a.go": lines(499)}},
		"test":  {files: source{"a_test.go": lines(900)}},
		"long": {
			files: source{"a.go": lines(500)},
			want:  []string{"a.go:1: 500 lines in one file, 500 are too many: split it by what it is about"},
		},
	})
}

func TestThickMainIsFound(t *testing.T) {
	body := func(n int) string {
		return "// Command a.\n\npackage main\n\nvar (\n" + strings.Repeat("_ = 1 // one\n", n-3) + ")\n"
	}
	tryRule(t, checkThinMains, map[string]ruleCase{
		"thin":      {files: source{"cmd/a/main.go": body(19)}},
		"elsewhere": {files: source{"examples/a/main.go": body(40)}},
		"thick": {
			files: source{"cmd/a/main.go": body(20)},
			want:  []string{"cmd/a/main.go:3: 20 lines of code in main.go, 20 are too many: move them into a package"},
		},
	})
}

func TestInitFunctionIsFound(t *testing.T) {
	tryRule(t, checkNoInit, map[string]ruleCase{
		"method": {files: source{"a.go": "package a\ntype t int\nfunc (t) init() {}"}},
		"function": {
			files: source{"a.go": "package a\nfunc init() {}"},
			want:  []string{"a.go:2: init function: let the caller construct what is needed"},
		},
	})
}
