package repo

import (
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
)

// checkLeaks finds packages whose tests may leave goroutines behind unseen. Benchmarks are a module of their own, which has nothing to look with.
func checkLeaks(t *tree) []string {
	looks := map[string]bool{}
	for _, file := range t.gos {
		if !file.isTest() || strings.HasPrefix(file.dir(), "benchmarks") {
			continue
		}
		looks[file.dir()] = looks[file.dir()] ||
			callsAnywhere(file.syntax, file.syntax, "go.uber.org/goleak", "VerifyTestMain") ||
			callsAnywhere(file.syntax, file.syntax, "github.com/statehive/statehive/reconciler/target/internal/nstest", "Main")
	}
	var findings []string
	for _, dir := range slices.Sorted(maps.Keys(looks)) {
		if !looks[dir] {
			findings = append(findings, path.Join(dir, "*_test.go")+": no test looks for goroutines left behind: call goleak.VerifyTestMain in TestMain")
		}
	}
	return findings
}

func TestLeaks(t *testing.T) {
	tryRule(t, checkLeaks, map[string]ruleCase{
		"a package that looks": {files: source{
			"a/main_test.go": "package a\n\nimport \"go.uber.org/goleak\"\n\nfunc TestMain(m *testing.M) { goleak.VerifyTestMain(m) }",
			"a/a_test.go":    "package a",
		}},
		"a package that does not": {
			files: source{"a/main_test.go": "package a\n\nfunc TestMain(m *testing.M) { goleak.VerifyTestMain(m) }", "b/b.go": "package b"},
			want:  []string{"a/*_test.go: no test looks for goroutines left behind: call goleak.VerifyTestMain in TestMain"},
		},
		"benchmarks": {files: source{"benchmarks/a/a_test.go": "package a"}},
	})
}
