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
	is, err := os.Stat(own)
	if err != nil {
		own, err := filepath.Abs(own)
		return err == nil && (path == own || strings.HasPrefix(path, own+"/"))
	}
	for {
		if info, err := os.Stat(path); err == nil && os.SameFile(info, is) {
			return true
		}
		if path == "/" {
			return false
		}
		path = filepath.Dir(path)
	}
}
