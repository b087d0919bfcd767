package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// filesDir is where a sandbox can write files: in memory, and gone with it.
func (s *surroundings) filesDir() string { return filepath.Join(s.prepared.StateDir, "files") }

// allowFile keeps documents from what the agent itself reads and writes, and in a sandbox
// from all that is outside.
func (s *surroundings) allowFile(path string) error {
	if s.sandboxed {
		if !strings.HasPrefix(path, s.filesDir()+"/") {
			return fmt.Errorf("%s is outside: in the sandbox files can be written below %s only", path, s.filesDir())
		}
		return nil
	}
	for _, own := range s.own {
		if own.path != "" && within(path, own.path) {
			return fmt.Errorf("%s is %s (%s), where documents cannot write", path, own.what, own.path)
		}
	}
	return nil
}

// within reports whether a path is own or below it, whatever name that has there.
func within(path, own string) bool {
	own, err := filepath.Abs(own)
	if err != nil {
		return false
	}
	for !same(path, own) {
		if path == "/" {
			return false
		}
		path = filepath.Dir(path)
	}
	return true
}

// same reports whether two paths lead to one file, or would if what is missing were made.
func same(a, b string) bool {
	is, err := os.Stat(a)
	other, otherErr := os.Stat(b)
	if err == nil || otherErr == nil {
		return err == nil && otherErr == nil && os.SameFile(is, other)
	}
	return a == b || filepath.Base(a) == filepath.Base(b) && same(filepath.Dir(a), filepath.Dir(b))
}
