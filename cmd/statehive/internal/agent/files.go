package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// filesDir returns the only directory in which documents can write files in a sandbox. It is in memory.
func (s *surroundings) filesDir() string { return filepath.Join(s.prepared.StateDir, "files") }

// allowFile refuses paths that the agent itself reads or writes and, in a sandbox, all paths
// outside of it.
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

// within reports whether a path leads to own or to something below it, by whatever name.
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

// same reports whether two paths lead to the same file, or would if their missing parts were created.
func same(a, b string) bool {
	is, err := os.Stat(a)
	other, otherErr := os.Stat(b)
	if err == nil || otherErr == nil {
		return err == nil && otherErr == nil && os.SameFile(is, other)
	}
	return a == b || filepath.Base(a) == filepath.Base(b) && same(filepath.Dir(a), filepath.Dir(b))
}
