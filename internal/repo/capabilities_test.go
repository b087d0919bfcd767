package repo

import (
	"fmt"
	"go/ast"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	capabilitiesFile = "Documentation/capabilities.md"
	securityFile     = "Documentation/security.md"
)

// A capability is a row of the table in the documentation.
type capability struct {
	file  string
	line  int
	id    string
	tests string
}

func checkCapabilities(t *tree) []string {
	index := slices.IndexFunc(t.texts, func(f textFile) bool { return f.path == capabilitiesFile })
	if index < 0 {
		return []string{capabilitiesFile + " is missing: write down what Statehive can do and which tests show it"}
	}
	rows, findings := parseTests(capabilitiesFile, t.texts[index].text, "id", "capability", "tests")
	present := newTestSet(t)
	seen := map[string]int{}
	for _, row := range rows {
		if first, ok := seen[row.id]; ok {
			findings = append(findings, row.at("%s is on line %d already: make one row of the two", row.id, first))
		}
		seen[row.id] = row.line
		findings = append(findings, row.check(present)...)
	}
	return findings
}

// checkAttacks is about the table of what was tried, which names tests too.
func checkAttacks(t *tree) (findings []string) {
	for _, file := range t.texts {
		if file.path != securityFile {
			continue
		}
		var rows []capability
		rows, findings = parseTests(file.path, file.text, "tried", "what happens", "tests")
		present := newTestSet(t)
		for _, row := range rows {
			findings = append(findings, row.checkTests(present)...)
		}
	}
	return findings
}

// parseTests reads every table of a file that has this header, which ends with tests.
func parseTests(file, text string, header ...string) (rows []capability, findings []string) {
	inside, tables, number := false, 0, 0
	for line := range strings.Lines(text) {
		number++
		cells, ok := tableCells(line)
		switch {
		case !ok:
			inside = false
		case slices.Equal(cells, header):
			inside = true
			tables++
		case !inside || strings.Trim(line, "|-: \n") == "":
		case len(cells) != len(header):
			findings = append(findings, fmt.Sprintf("%s:%d: %d cells in a row: there are three, | %s |; write \\| for a bar in a text",
				file, number, len(cells), strings.Join(header, " | ")))
		default:
			rows = append(rows, capability{file: file, line: number, id: cells[0], tests: cells[2]})
		}
	}
	if tables == 0 {
		findings = append(findings, fmt.Sprintf("%s: no table with the header | %s |: put one in", file, strings.Join(header, " | ")))
	}
	return rows, findings
}

// tableCells splits a line of a markdown table.
func tableCells(line string) (cells []string, ok bool) {
	const bar = "\x00"
	line = strings.TrimSpace(strings.ReplaceAll(line, `\|`, bar))
	if len(line) < 2 || line[0] != '|' || line[len(line)-1] != '|' {
		return nil, false
	}
	for cell := range strings.SplitSeq(line[1:len(line)-1], "|") {
		cells = append(cells, strings.TrimSpace(strings.ReplaceAll(cell, bar, "|")))
	}
	return cells, true
}

func (c capability) at(format string, args ...any) string {
	return fmt.Sprintf("%s:%d: ", c.file, c.line) + fmt.Sprintf(format, args...)
}

var (
	capabilityID = regexp.MustCompile(`^[A-Z][1-9][0-9]*$`)
	testList     = regexp.MustCompile("^`[^`]+`(, `[^`]+`)*$")
	testFunction = regexp.MustCompile(`^(.+)\.((?:Test|Example|Fuzz|Benchmark)\w*)$`)
	testScript   = regexp.MustCompile(`(?:^|/)testdata/.+\.txtar$`)
)

func (c capability) check(present testSet) []string {
	var findings []string
	if !capabilityID.MatchString(c.id) {
		findings = append(findings, c.at("id %q: write a capital letter and a number, as in D7", c.id))
	}
	return append(findings, c.checkTests(present)...)
}

func (c capability) checkTests(present testSet) (findings []string) {
	if !testList.MatchString(c.tests) {
		return append(findings, c.at("tests %q: name at least one, as `statedb.TestName` or `statedb/testdata/name.txtar`, with commas between", c.tests))
	}
	for name := range strings.SplitSeq(c.tests, ", ") {
		if finding := present.missing(strings.Trim(name, "`")); finding != "" {
			findings = append(findings, c.at("%s", finding))
		}
	}
	return findings
}

// A testSet holds the tests of the tree, in the form in which the table names them.
type testSet map[string]bool

func newTestSet(t *tree) testSet {
	present := testSet{}
	for _, file := range t.texts {
		if testScript.MatchString(file.path) {
			present[file.path] = true
		}
	}
	for _, file := range t.gos {
		if !file.isTest() {
			continue
		}
		for _, decl := range file.syntax.Decls {
			if function, ok := decl.(*ast.FuncDecl); ok && function.Recv == nil {
				present[file.dir()+"."+function.Name.Name] = true
			}
		}
	}
	return present
}

// missing says what is wrong with the name of a test, or nothing.
func (s testSet) missing(name string) string {
	function := testFunction.FindStringSubmatch(name)
	switch {
	case s[name] && (function != nil || testScript.MatchString(name)):
		return ""
	case testScript.MatchString(name):
		return fmt.Sprintf("no script %s: name one that exists", name)
	case function != nil:
		return fmt.Sprintf("no function %s in the tests of %s%s", function[2], function[1], s.elsewhere(function[2]))
	}
	return fmt.Sprintf("%q is not the name of a test: write directory.TestName (or Example, Fuzz, Benchmark), without subtests, or directory/testdata/name.txtar", name)
}

// elsewhere helps with a test that has moved.
func (s testSet) elsewhere(function string) string {
	var found []string
	for name := range s {
		if strings.TrimPrefix(path.Ext(name), ".") == function {
			found = append(found, name)
		}
	}
	slices.Sort(found)
	if len(found) == 0 {
		return ": name one that exists"
	}
	return ": is it " + strings.Join(found, " or ") + "?"
}

func TestCapabilityWithoutTestsIsFound(t *testing.T) {
	table := func(rows ...string) source {
		return source{
			capabilitiesFile:              "# Capabilities\n| id | capability | tests |\n|---|---|---|\n" + strings.Join(rows, "\n") + "\n\n| other | table |\n|---|---|\n| x | y |\n",
			"statedb/a_test.go":           "package statedb\nfunc TestA() {}\nfunc ExampleA() {}\nfunc notATest() {}",
			"statedb/a.go":                "package statedb\nfunc TestNotInATest() {}",
			"statedb/index/a_test.go":     "package index_test\nfunc FuzzI() {}\nfunc (s) TestMethod() {}",
			"cmd/a/testdata/heals.txtar":  "-- x --",
			"cmd/a/testdata/d/deep.txtar": "-- x --",
		}
	}
	at := func(message string) []string { return []string{capabilitiesFile + ":4: " + message} }
	const form = "name at least one, as `statedb.TestName` or `statedb/testdata/name.txtar`, with commas between"
	tryRule(t, checkCapabilities, map[string]ruleCase{
		"no rows yet": {files: table()},
		"all there": {files: table(
			"| D1 | tables, a \\| b | `statedb.TestA`, `statedb.ExampleA`, `statedb/index.FuzzI` |",
			"| K12 | heals | `cmd/a/testdata/heals.txtar`, `cmd/a/testdata/d/deep.txtar` |",
		)},
		"no file":       {files: source{"a.md": ""}, want: []string{capabilitiesFile + " is missing: write down what Statehive can do and which tests show it"}},
		"no table":      {files: source{capabilitiesFile: "| id | tests |"}, want: []string{capabilitiesFile + ": no table with the header | id | capability | tests |: put one in"}},
		"id":            {files: table("| D01 | x | `statedb.TestA` |"), want: at(`id "D01": write a capital letter and a number, as in D7`)},
		"no tests":      {files: table("| D1 | x | |"), want: at(`tests "": ` + form)},
		"no backticks":  {files: table("| D1 | x | statedb.TestA |"), want: at(`tests "statedb.TestA": ` + form)},
		"cells":         {files: table("| D1 | x | y | `statedb.TestA` |"), want: at(`4 cells in a row: there are three, | id | capability | tests |; write \| for a bar in a text`)},
		"gone":          {files: table("| D1 | x | `statedb.TestGone` |"), want: at("no function TestGone in the tests of statedb: name one that exists")},
		"moved":         {files: table("| D1 | x | `hive.TestA` |"), want: at("no function TestA in the tests of hive: is it statedb.TestA?")},
		"not in a test": {files: table("| D1 | x | `statedb.TestNotInATest` |"), want: at("no function TestNotInATest in the tests of statedb: name one that exists")},
		"a method":      {files: table("| D1 | x | `statedb/index.TestMethod` |"), want: at("no function TestMethod in the tests of statedb/index: name one that exists")},
		"no script":     {files: table("| D1 | x | `cmd/a/testdata/gone.txtar` |"), want: at("no script cmd/a/testdata/gone.txtar: name one that exists")},
		"not a test": {
			files: table("| D1 | x | `statedb.notATest` |"),
			want:  at(`"statedb.notATest" is not the name of a test: write directory.TestName (or Example, Fuzz, Benchmark), without subtests, or directory/testdata/name.txtar`),
		},
		"twice": {
			files: table("| D1 | x | `statedb.TestA` |", "| D1 | y | `statedb.TestA` |"),
			want:  []string{capabilitiesFile + ":5: D1 is on line 4 already: make one row of the two"},
		},
	})
}

func TestAttackWithoutTestsIsFound(t *testing.T) {
	table := func(header, row string) source {
		return source{securityFile: header + "\n|---|---|---|\n" + row + "\n", "statedb/a_test.go": "package statedb\nfunc TestA() {}"}
	}
	const header = "| tried | what happens | tests |"
	tryRule(t, checkAttacks, map[string]ruleCase{
		"no file":   {files: source{"a.md": ""}},
		"all there": {files: table(header, "| a link | refused | `statedb.TestA` |")},
		"gone":      {files: table(header, "| a link | refused | `statedb.TestB` |"), want: []string{securityFile + ":3: no function TestB in the tests of statedb: name one that exists"}},
		"no table":  {files: table("| tried |", "| a link |"), want: []string{securityFile + ": no table with the header " + header + ": put one in"}},
	})
}
