package repo

import (
	"os"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

// A rule finds what breaks it; each finding says where and what to change.
type rule func(*tree) []string

func TestRepositoryKeepsItsRules(t *testing.T) {
	sources, err := readTree(os.DirFS(repositoryRoot(t)))
	if err != nil {
		t.Fatal(err)
	}
	for name, check := range map[string]rule{
		"every package has a package comment":      checkPackageComments,
		"packages are named for what they do":      checkPackageNames,
		"packages import in the right direction":   checkDirections,
		"files are short":                          checkFileLengths,
		"main functions are thin":                  checkThinMains,
		"no init functions":                        checkNoInit,
		"tests do not sleep":                       checkNoSleep,
		"tests look for goroutines left behind":    checkLeaks,
		"nothing is put off":                       checkNothingPutOff,
		"merges are finished":                      checkMerged,
		"nothing names a machine":                  checkNoMachine,
		"capabilities name the tests that show it": checkCapabilities,
		"what was tried names the tests":           checkAttacks,
		"code in documents is that of a file":      checkSnippets,
	} {
		t.Run(name, func(t *testing.T) {
			for _, finding := range check(sources) {
				t.Error(finding)
			}
		})
	}
}

// source is a made-up repository: text by path.
type source map[string]string

func (s source) tree(t *testing.T) *tree {
	t.Helper()
	files := fstest.MapFS{}
	for name, text := range s {
		files[name] = &fstest.MapFile{Data: []byte(text)}
	}
	read, err := readTree(files)
	if err != nil {
		t.Fatal(err)
	}
	return read
}

// ruleCase tries a rule on a made-up repository.
type ruleCase struct {
	files source
	want  []string
}

func tryRule(t *testing.T, check rule, cases map[string]ruleCase) {
	t.Helper()
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, check(c.files.tree(t))); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTreeLeavesOutWhatIsNotOfTheRepository(t *testing.T) {
	read := source{
		"a.go":                "package a",
		".ci/run":             "#!/bin/bash",
		".gitignore":          "/bin/",
		".bash_history":       "ls",
		".git/config":         "[core]",
		".cache/x/x.go":       "not Go",
		"bin/x.go":            "not Go",
		"go/pkg/mod/x/x.go":   "not Go",
		"a/testdata/x/x.go":   "not Go",
		"a/picture.png":       "\x89PNG\x00",
		"cmd/go/bin/x.go":     "package x",
		"cmd/.hidden/main.go": "not Go",
	}.tree(t)

	var texts, gos []string
	for _, file := range read.texts {
		texts = append(texts, file.path)
	}
	for _, file := range read.gos {
		gos = append(gos, file.path)
	}
	if diff := cmp.Diff([]string{".ci/run", ".gitignore", "a/testdata/x/x.go", "a.go", "cmd/go/bin/x.go"}, texts); diff != "" {
		t.Errorf("text files (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"a.go", "cmd/go/bin/x.go"}, gos); diff != "" {
		t.Errorf("Go files (-want +got):\n%s", diff)
	}
}
