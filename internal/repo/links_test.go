package repo

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A library is a part that someone may embed alone, with all that it is allowed to link.
type library struct {
	packages []string // patterns as for the go command, relative to the root
	without  []string // packages under the patterns that are not meant
	modules  []string
}

func libraries() map[string]library {
	tree := []string{"github.com/hashicorp/go-immutable-radix/v2", "github.com/hashicorp/golang-lru/v2"}
	return map[string]library{
		"statedb":    {packages: []string{"./statedb", "./statedb/derive", "./statedb/index"}},
		"immutable":  {packages: []string{"./statedb/immutable"}, modules: tree},
		"reconciler": {packages: []string{"./reconciler"}, modules: append([]string{"golang.org/x/time"}, tree...)},
		"hive/cell":  {packages: []string{"./hive/cell"}, modules: []string{"github.com/spf13/pflag", "go.uber.org/dig"}},
	}
}

func TestLibrariesLinkFewModules(t *testing.T) {
	root := repositoryRoot(t)
	// The go command's reads are not seen by the test cache; these make its key.
	if _, err := readTree(os.DirFS(root)); err != nil {
		t.Fatal(err)
	}
	for name, lib := range libraries() {
		t.Run(name, func(t *testing.T) {
			for _, finding := range unexpectedModules(lib, linked(t, root, lib)) {
				t.Error(finding)
			}
		})
	}
}

// linked lists, for each module that the library links and that is not ours, one package of it.
func linked(t *testing.T, root string, lib library) map[string]string {
	t.Helper()
	arguments := append([]string{"-e", "-f", "{{.ImportPath}}"}, lib.packages...)
	roots := slices.DeleteFunc(goList(t, root, arguments...), func(p string) bool {
		return slices.ContainsFunc(lib.without, func(w string) bool { return matches(w+"/...", strings.TrimPrefix(p, module+"/")) })
	})
	if len(roots) == 0 {
		t.Fatalf("no packages match %v: correct internal/repo/links_test.go", lib.packages)
	}
	modules := map[string]string{}
	for _, line := range goList(t, root, append([]string{"-e", "-deps", "-f", "{{with .Module}}{{.Path}} {{$.ImportPath}}{{end}}"}, roots...)...) {
		if of, pkg, ok := strings.Cut(line, " "); ok && of != module {
			modules[of] = pkg
		}
	}
	return modules
}

// goList runs `go list` in root and returns its lines, empty ones left out.
func goList(t *testing.T, root string, arguments ...string) []string {
	t.Helper()
	command := exec.CommandContext(t.Context(), "go", append([]string{"list"}, arguments...)...)
	command.Dir = root
	output, err := command.Output()
	if failed := (*exec.ExitError)(nil); errors.As(err, &failed) {
		t.Fatalf("%v: %v\n%s", command, err, failed.Stderr)
	}
	if err != nil {
		t.Fatalf("%v: %v", command, err)
	}
	return slices.DeleteFunc(strings.Split(string(output), "\n"), func(line string) bool { return line == "" })
}

// unexpectedModules compares what is linked, a package by module, with what may be.
func unexpectedModules(lib library, linked map[string]string) []string {
	var findings []string
	for of, pkg := range linked {
		if !slices.Contains(lib.modules, of) {
			findings = append(findings, fmt.Sprintf("%s links %s (package %s): do without, or move that code into a package beside it",
				lib.packages[0], of, pkg))
		}
	}
	slices.Sort(findings)
	return findings
}

func TestUnexpectedModuleIsFound(t *testing.T) {
	lib := library{packages: []string{"./a/..."}, modules: []string{"example.com/allowed", "example.com/unused"}}
	got := unexpectedModules(lib, map[string]string{"example.com/allowed": "example.com/allowed", "example.com/heavy": "example.com/heavy/yaml"})
	want := []string{"./a/... links example.com/heavy (package example.com/heavy/yaml): do without, or move that code into a package beside it"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
}

func TestLinkedModulesAreSeenThroughPackages(t *testing.T) {
	// This package's own directory has no code; persistent maps are known to be made of this tree.
	got := linked(t, repositoryRoot(t), library{packages: []string{"./statedb/immutable"}})
	if _, ok := got["github.com/hashicorp/go-immutable-radix/v2"]; !ok {
		t.Errorf("go-immutable-radix is not among the modules linked by the persistent maps: %v", got)
	}
}
