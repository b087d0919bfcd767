package repo

import (
	"fmt"
	"path"
	"regexp"
	"strings"
	"testing"
)

// The patterns are written so that they do not match themselves.
var (
	putOff = regexp.MustCompile(`\b(TO[D]O|FIX[M]E|XX[X])\b`)
	// A path counts from its start, so that x/root/y is no finding.
	machine = regexp.MustCompile(`(?:^|[\s"'=:(,>` + "`" + `])/(?:work|root|home/\w+)/|\b(?:proxy|sum)\.golang[.]org|\bdeb\.debian[.]org|\bregistry\.npmjs[.]org`)
)

// checkNothingPutOff finds notes of work left undone: in the comments of Go files, anywhere in others.
func checkNothingPutOff(t *tree) []string {
	const message = "%s: do it now, or say in the documentation what is not there"
	var findings []string
	for _, file := range t.gos {
		for _, group := range file.syntax.Comments {
			for _, comment := range group.List {
				if found := putOff.FindString(comment.Text); found != "" {
					findings = append(findings, t.at(comment.Pos(), message, found))
				}
			}
		}
	}
	for _, file := range t.texts {
		if path.Ext(file.path) != ".go" {
			findings = append(findings, grep(file, putOff, message)...)
		}
	}
	return findings
}

// conflict is a line by which git marks two versions of a text.
var conflict = regexp.MustCompile(`^(<{7}|>{7}) .+`)

// checkMerged finds merges that nobody has finished.
func checkMerged(t *tree) []string {
	var findings []string
	for _, file := range t.texts {
		findings = append(findings, grep(file, conflict, "%s: decide which version stays")...)
	}
	return findings
}

// checkNoMachine finds what holds on one machine only.
func checkNoMachine(t *tree) []string {
	var findings []string
	for _, file := range t.texts {
		findings = append(findings, grep(file, machine, "%s belongs to one machine: use a path relative to the repository, or leave the host to the user's settings")...)
	}
	return findings
}

// grep reports the first match of each line.
func grep(file textFile, pattern *regexp.Regexp, message string) []string {
	var findings []string
	number := 0
	for line := range strings.Lines(file.text) {
		number++
		if found := pattern.FindString(line); found != "" {
			findings = append(findings, fmt.Sprintf("%s:%d: "+message, file.path, number, strings.Trim(found, " \t\"'=:(,>`")))
		}
	}
	return findings
}

func TestWorkPutOffIsFound(t *testing.T) {
	note := "TO" + "DO"
	tryRule(t, checkNothingPutOff, map[string]ruleCase{
		"a context is no note": {files: source{"a.go": "package a\nvar _ = context." + note + "()"}},
		"comment": {
			files: source{"a.go": "package a\n// " + note + ": later"},
			want:  []string{"a.go:2: " + note + ": do it now, or say in the documentation what is not there"},
		},
		"other file": {
			files: source{"Makefile": "all:\n\n# FIX" + "ME\n"},
			want:  []string{"Makefile:3: FIX" + "ME: do it now, or say in the documentation what is not there"},
		},
	})
}

func TestUnfinishedMergeIsFound(t *testing.T) {
	const left, right = "<<<<<<<", ">>>>>>>"
	tryRule(t, checkMerged, map[string]ruleCase{
		"a heading and an archive are none": {files: source{"a.md": "Title\n========\n", "b.txt": "see " + left + " below\n"}},
		"two versions": {
			files: source{"a.md": "one\n" + left + " HEAD\ntwo\n" + "=======\nthree\n" + right + " theirs\n"},
			want:  []string{"a.md:2: " + left + " HEAD: decide which version stays", "a.md:6: theirs: decide which version stays"},
		},
	})
}

func TestMachineIsFound(t *testing.T) {
	finding := func(place, found string) []string {
		return []string{place + ": " + found + " belongs to one machine: use a path relative to the repository, or leave the host to the user's settings"}
	}
	tryRule(t, checkNoMachine, map[string]ruleCase{
		"elsewhere in a path": {files: source{"a.md": "see examples/work/a and /sys/fs/root/b"}},
		"path":                {files: source{"a.md": "\nsee /work" + "/main"}, want: finding("a.md:2", "/work"+"/")},
		"home of root":        {files: source{"a.go": "package a\nvar a = \"/root" + "/x\""}, want: finding("a.go:2", "/root"+"/")},
		"home":                {files: source{"Makefile": "A=/home" + "/me/x"}, want: finding("Makefile:1", "/home"+"/me/")},
		"host":                {files: source{".ci/run": "GOPROXY=https://proxy.golang" + ".org,direct"}, want: finding(".ci/run:1", "proxy.golang"+".org")},
	})
}
