package engine_test

import (
	"os"
	"regexp"
	"slices"
	"testing"
)

func TestPackageCommentLeadsToFilesThatAreThere(t *testing.T) {
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile(`[a-z_]+\.go`).FindAllString(string(text), -1)
	for _, file := range named {
		if _, err := os.Stat(file); err != nil {
			t.Errorf("doc.go leads to a file that is not there: %v", err)
		}
	}
	for _, file := range []string{"loop.go", "commit.go", "full.go", "gate.go"} {
		if !slices.Contains(named, file) {
			t.Errorf("doc.go does not lead to %s", file)
		}
	}
}
