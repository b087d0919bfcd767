package repo

import (
	"path"
	"strconv"
	"strings"
	"testing"
)

// A layer says which of our packages a part of the tree may import. In patterns, "x/..." is x and all below it, and a star is one part of a path.
type layer struct {
	packages string
	imports  []string
	// tests are what test files may import besides.
	tests []string
}

// layers are the directions of the architecture; the first whose pattern fits a package counts. A package may always import its own
// internal packages, and those below its parents' internal folders, as the language allows.
func layers() []layer {
	return []layer{
		// Joins come first: packages that put a library into a hive.
		{packages: "statedb/dbcell/...", imports: []string{"statedb/...", "hive/..."}},
		{packages: "reconciler/reconcilercell/...", imports: []string{"statedb/...", "reconciler", "hive/..."}, tests: []string{"reconciler/targettest", "reconciler/source/filecell"}},
		{packages: "reconciler/source/filecell/...", imports: []string{"statedb/...", "reconciler/source/...", "hive/...", "internal/trusted"}},
		{packages: "reconciler/target/kindcell", imports: []string{"statedb/...", "reconciler/...", "hive/..."}},
		{packages: "reconciler/target/*/*cell", imports: []string{"statedb/...", "reconciler/...", "hive/..."}},

		// Libraries: nothing of the hive.
		{packages: "statedb/index/...", imports: []string{"statedb/index/..."}},
		{packages: "statedb/immutable/...", imports: []string{"statedb/immutable/...", "statedb/index"}, tests: []string{"statedb"}},
		{packages: "internal/store/...", imports: []string{"internal/store/...", "statedb/index"}},
		{packages: "statedb/derive/...", imports: []string{"statedb", "statedb/index", "internal/backoff", "internal/duetime", "internal/loglimit"}},
		{packages: "statedb/...", imports: []string{"statedb", "statedb/index", "statedb/immutable", "internal/store/..."}},
		{packages: "reconciler/targettest/...", imports: []string{"statedb", "statedb/index", "reconciler"}},
		{packages: "reconciler/target/...", imports: []string{"statedb", "statedb/index", "statedb/immutable", "reconciler", "reconciler/target/...", "internal/trusted"}, tests: []string{"reconciler/targettest"}},
		{packages: "reconciler/source/...", imports: []string{"statedb", "statedb/index", "statedb/immutable", "reconciler", "internal/loglimit", "internal/trusted", "internal/yamlsize", "reconciler/source/..."}},
		{packages: "reconciler/internal/...", imports: []string{"statedb", "reconciler/internal/...", "internal/store", "internal/backoff", "internal/duetime", "internal/loglimit"}},
		{packages: "reconciler", imports: []string{"statedb", "statedb/index", "statedb/immutable", "internal/store", "reconciler/internal/..."}, tests: []string{"reconciler/targettest"}},

		// The hive: tables are its means, reconcilers are unknown to it. The API and the command line know neither.
		{packages: "hive/internal/description", imports: nil},
		{packages: "hive/cell/...", imports: []string{"hive/internal/description"}},
		{packages: "hive/internal/graph", imports: []string{"hive/cell", "hive/internal/description", "hive/internal/guard"}},
		{packages: "hive/cli/...", imports: []string{"hive/..."}},
		{packages: "hive/inspect/...", imports: []string{"hive/...", "internal/loglimit", "internal/process", "internal/trusted"}},
		{packages: "hive/metrics/...", imports: []string{"hive/...", "statedb"}},
		{packages: "hive/...", imports: []string{"hive/...", "statedb", "statedb/index", "statedb/immutable", "internal/loglimit", "internal/stderrlog", "internal/trusted", "internal/yamlsize"}},

		// Programs may use everything, and nobody may use programs.
		{packages: "cmd/...", imports: []string{"cmd/...", "statedb/...", "reconciler/...", "hive/...", "internal/process", "internal/stderrlog", "internal/trusted"}},
		{packages: "examples/...", imports: []string{"examples/...", "statedb/...", "reconciler/...", "hive/..."}},
		{packages: "benchmarks/...", imports: []string{"benchmarks/...", "statedb/...", "reconciler/...", "hive/..."}},
		{packages: "internal/...", imports: []string{"internal/..."}},
		{packages: ".", imports: nil},
	}
}

func checkDirections(t *tree) []string {
	var findings []string
	for _, file := range t.gos {
		from := file.dir()
		allowed, known := layerOf(from)
		if !known {
			findings = append(findings, t.at(file.syntax.Package, "no layer for package %s: say in internal/repo/directions_test.go what it may import", from))
			continue
		}
		for _, spec := range file.syntax.Imports {
			to, ours := ourPackage(spec.Path.Value)
			if !ours || to == from || allowed.permits(to, file.isTest()) {
				continue
			}
			findings = append(findings, t.at(spec.Pos(), "%s may not import %s: move the code, or let the caller hand it in; the directions are in internal/repo/directions_test.go",
				from, to))
		}
	}
	return findings
}

func layerOf(dir string) (layer, bool) {
	for _, candidate := range layers() {
		if matches(candidate.packages, dir) {
			return candidate, true
		}
	}
	return layer{}, false
}

func (l layer) permits(to string, test bool) bool {
	patterns := l.imports
	if test {
		patterns = append(l.tests, patterns...)
		// Tests of any part may use what tests share.
		patterns = append(patterns, "internal/...")
	}
	for _, pattern := range patterns {
		if matches(pattern, to) {
			return true
		}
	}
	return false
}

// ourPackage turns a quoted import path into the directory of our package.
func ourPackage(quoted string) (dir string, ours bool) {
	importPath, err := strconv.Unquote(quoted)
	if err != nil {
		return "", false
	}
	if importPath == module {
		return ".", true
	}
	return strings.CutPrefix(importPath, module+"/")
}

// matches says whether a directory fits a pattern.
func matches(pattern, dir string) bool {
	if strings.Contains(pattern, "*") {
		fits, err := path.Match(pattern, dir)
		return fits && err == nil
	}
	base, below := strings.CutSuffix(pattern, "/...")
	return dir == base || below && strings.HasPrefix(dir, base+"/")
}

func TestWrongDirectionIsFound(t *testing.T) {
	imports := func(paths ...string) string {
		text := "package a\n"
		for _, p := range paths {
			text += "import \"" + module + "/" + p + "\"\n"
		}
		return text
	}
	finding := func(place, from, to string) []string {
		return []string{place + ": " + from + " may not import " + to +
			": move the code, or let the caller hand it in; the directions are in internal/repo/directions_test.go"}
	}
	tryRule(t, checkDirections, map[string]ruleCase{
		"right": {files: source{
			"statedb/a.go":                   imports("statedb/index", "internal/store"),
			"statedb/dbcell/a.go":            imports("statedb", "hive/inspect"),
			"reconciler/a.go":                imports("statedb"),
			"reconciler/a_test.go":           imports("reconciler/targettest"),
			"reconciler/reconcilercell/a.go": imports("reconciler", "statedb/dbcell", "hive"),
			"hive/health/a.go":               imports("statedb"),
			"cmd/statehive/a.go":             imports("cmd/statehive/internal/agent"),
		}},
		"foreign modules do not matter": {files: source{"statedb/a.go": "package a\nimport \"example.com/statedb/hive\""}},
		"statedb to the hive":           {files: source{"statedb/a.go": imports("hive/cell")}, want: finding("statedb/a.go:2", "statedb", "hive/cell")},
		"statedb to its cell":           {files: source{"statedb/a.go": imports("statedb/dbcell")}, want: finding("statedb/a.go:2", "statedb", "statedb/dbcell")},
		"reconciler to the hive":        {files: source{"reconciler/a.go": imports("hive/job")}, want: finding("reconciler/a.go:2", "reconciler", "hive/job")},
		"hive to the reconciler":        {files: source{"hive/a.go": imports("reconciler")}, want: finding("hive/a.go:2", "hive", "reconciler")},
		"cell to a table":               {files: source{"hive/cell/a.go": imports("statedb")}, want: finding("hive/cell/a.go:2", "hive/cell", "statedb")},
		"command line to a table":       {files: source{"hive/cli/a.go": imports("statedb")}, want: finding("hive/cli/a.go:2", "hive/cli", "statedb")},
		"anyone to cmd":                 {files: source{"examples/x/a.go": imports("cmd/statehive/internal/agent")}, want: finding("examples/x/a.go:2", "examples/x", "cmd/statehive/internal/agent")},
		"a test, too":                   {files: source{"statedb/a_test.go": imports("reconciler")}, want: finding("statedb/a_test.go:2", "statedb", "reconciler")},
		"the contract kit in a program": {files: source{"reconciler/a.go": imports("reconciler/targettest")}, want: finding("reconciler/a.go:2", "reconciler", "reconciler/targettest")},
		"a part that is not known": {
			files: source{"novelty/a.go": imports()},
			want:  []string{"novelty/a.go:1: no layer for package novelty: say in internal/repo/directions_test.go what it may import"},
		},
	})
}
