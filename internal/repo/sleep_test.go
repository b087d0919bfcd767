package repo

import (
	"go/ast"
	"path"
	"strconv"
	"strings"
	"testing"
)

// checkNoSleep finds tests that wait for time to pass. In a bubble of testing/synctest time is virtual and a sleep is how to move it: that
// is let through where it can be seen: inside the call of synctest.Test, or of a function of the package's tests that makes that call
// around its argument, or in a function that itself calls synctest.Wait.
func checkNoSleep(t *tree) []string {
	var findings []string
	bubbles := bubbleMakers(t)
	for _, file := range t.gos {
		if !file.isTest() {
			continue
		}
		for _, decl := range file.syntax.Decls {
			for _, call := range realSleeps(file.syntax, decl, bubbles[file.dir()]) {
				findings = append(findings, t.at(call.Pos(),
					"time.Sleep in a test: run it in synctest.Test, or wait on a watch or poll with a deadline; a function that moves a bubble's clock calls synctest.Wait too"))
			}
		}
	}
	return findings
}

// bubbleMakers are, by directory, the functions of tests that call synctest.Test and are no tests themselves.
func bubbleMakers(t *tree) map[string]map[string]bool {
	makers := map[string]map[string]bool{}
	for _, file := range t.gos {
		for _, decl := range file.syntax.Decls {
			function, ok := decl.(*ast.FuncDecl)
			if !ok || !file.isTest() || strings.HasPrefix(function.Name.Name, "Test") || !callsAnywhere(file.syntax, function, "testing/synctest", "Test") {
				continue
			}
			if makers[file.dir()] == nil {
				makers[file.dir()] = map[string]bool{}
			}
			makers[file.dir()][function.Name.Name] = true
		}
	}
	return makers
}

func callsAnywhere(file *ast.File, in ast.Node, importPath, function string) (found bool) {
	ast.Inspect(in, func(node ast.Node) bool {
		call, ok := node.(*ast.CallExpr)
		found = found || ok && calls(file, call, importPath, function)
		return !found
	})
	return found
}

// realSleeps are the calls of time.Sleep in a declaration that cannot be seen to run in a bubble.
func realSleeps(file *ast.File, decl ast.Decl, bubbles map[string]bool) []*ast.CallExpr {
	var sleeps []*ast.CallExpr
	waits := false
	ast.Inspect(decl, func(node ast.Node) bool {
		call, ok := node.(*ast.CallExpr)
		switch {
		case !ok:
		case calls(file, call, "testing/synctest", "Test"), isCallOf(call, bubbles):
			return false
		case calls(file, call, "testing/synctest", "Wait"):
			waits = true
		case calls(file, call, "time", "Sleep"):
			sleeps = append(sleeps, call)
		}
		return true
	})
	if waits {
		return nil
	}
	return sleeps
}

func isCallOf(call *ast.CallExpr, functions map[string]bool) bool {
	name, ok := call.Fun.(*ast.Ident)
	return ok && functions[name.Name]
}

// calls says whether a call is that of a package's function, under whatever name the file imports the package.
func calls(file *ast.File, call *ast.CallExpr, importPath, function string) bool {
	selector, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || selector.Sel.Name != function {
		return false
	}
	receiver, ok := selector.X.(*ast.Ident)
	return ok && receiver.Name == importName(file, importPath)
}

// importName is the name by which a file knows an import, empty if it does not import it.
func importName(file *ast.File, importPath string) string {
	for _, spec := range file.Imports {
		if spec.Path.Value != strconv.Quote(importPath) {
			continue
		}
		if spec.Name != nil {
			return spec.Name.Name
		}
		return path.Base(importPath)
	}
	return ""
}

func TestSleepInATestIsFound(t *testing.T) {
	const message = "time.Sleep in a test: run it in synctest.Test, or wait on a watch or poll with a deadline; a function that moves a bubble's clock calls synctest.Wait too"
	code := func(body string) string {
		return "package a\nimport \"time\"\nimport \"testing/synctest\"\n" + body
	}
	tryRule(t, checkNoSleep, map[string]ruleCase{
		"in a bubble":   {files: source{"a_test.go": code("func TestA(t *testing.T) { synctest.Test(t, func(t *testing.T) { time.Sleep(1) }) }")}},
		"moves a clock": {files: source{"a_test.go": code("func advance() { time.Sleep(1); synctest.Wait() }")}},
		"in a wrapper":  {files: source{"a_test.go": code("func bubble(f func(*testing.T)) { synctest.Test(nil, f) }\nfunc TestA(t *testing.T) { bubble(func(t *testing.T) { time.Sleep(1) }) }")}},
		"not a test":    {files: source{"a.go": code("func a() { time.Sleep(1) }")}},
		"another Sleep": {files: source{"a_test.go": "package a\nfunc a() { time.Sleep(1) }"}},
		"real":          {files: source{"a_test.go": code("func TestA(t *testing.T) { time.Sleep(1) }")}, want: []string{"a_test.go:4: " + message}},
		"beside a bubble": {
			files: source{"a_test.go": code("func TestA(t *testing.T) {\nsynctest.Test(t, f)\ntime.Sleep(1) }")},
			want:  []string{"a_test.go:6: " + message},
		},
		"renamed import": {
			files: source{"a_test.go": "package a\nimport clock \"time\"\nvar f = func() { clock.Sleep(1) }"},
			want:  []string{"a_test.go:3: " + message},
		},
	})
}
