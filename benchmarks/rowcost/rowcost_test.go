package main

import (
	"go/format"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestProgramsCompile(t *testing.T) {
	for _, u := range usages() {
		text, err := u.program(2, 1)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := format.Source(text); err != nil {
			t.Fatalf("%s: %v", u.name, err)
		}
		source := filepath.Join(t.TempDir(), "main.go")
		if err := os.WriteFile(source, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.CommandContext(t.Context(), "go", "vet", source).CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", u.name, err, out)
		}
	}
}

func TestProgramsDifferByTypesAndNumber(t *testing.T) {
	var u usage
	one, _ := u.program(1, 1)
	other, _ := u.program(1, 2)
	more, _ := u.program(11, 1)
	if string(one) == string(other) || strings.Count(string(one), "\nfunc use") != 1 || strings.Count(string(more), "\nfunc use") != 11 {
		t.Errorf("%s", more)
	}
}

func TestCostIsThatOfOneType(t *testing.T) {
	got := difference(cost{cpu: 4, kB: 1_000}, cost{cpu: 1.5, kB: 400}, 10)
	if want := (cost{cpu: 0.25, kB: 60}); got != want {
		t.Errorf("%v instead of %v", got, want)
	}
}

func TestLineIsBoldWhereItsGoalIsMissed(t *testing.T) {
	now := usage{name: "a", goal: cost{cpu: 0.15, kB: 60}}
	later := usage{name: "b", goal: cost{cpu: 0.3, kB: 130}, later: true}
	var b strings.Builder
	for _, err := range []error{
		now.write(&b, cost{cpu: 0.15, kB: 60}), now.write(&b, cost{cpu: 1.84, kB: 385.6}), later.write(&b, cost{cpu: 3.5, kB: 1_146}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if want := `| a | 0.15 s | ≤ 0.15 s | 60 kB | ≤ 60 kB |
| a | **1.84 s** | ≤ 0.15 s | **386 kB** | ≤ 60 kB |
| b | 3.50 s | (≤ 0.30 s) | 1146 kB | (≤ 130 kB) |
`; b.String() != want {
		t.Errorf("%s", b.String())
	}
}
