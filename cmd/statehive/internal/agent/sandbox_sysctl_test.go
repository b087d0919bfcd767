package agent

import (
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// What a sandbox may set must be settings of its network namespace: each is set to another
// value there, and compared outside.
func TestSysctlsThatASandboxMaySetAreThoseOfItsNamespace(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can make a network namespace without a user namespace")
	}
	s := &surroundings{sandboxed: true}
	set, result := make(chan string), make(chan bool)
	names := make(chan []string)
	go func() {
		defer close(result)
		runtime.LockOSThread() // /proc/sys/net is that of the thread, which ends with the goroutine
		if err := syscall.Unshare(syscall.CLONE_NEWNET); err != nil {
			t.Error(err)
			close(names)
			return
		}
		names <- settable(t, s)
		for path := range set {
			result <- change(path)
		}
	}()
	changed := 0
	for _, path := range <-names {
		before, err := os.ReadFile(path)
		if set <- path; !<-result || err != nil {
			continue // it cannot be set, or read outside
		}
		changed++
		if after, err := os.ReadFile(path); err != nil || string(after) != string(before) {
			t.Errorf("%s is %q outside after it was set inside, %q before: %v", path, after, before, err)
			_ = os.WriteFile(path, before, 0) // if it can be
		}
	}
	close(set)
	if changed < 300 {
		t.Errorf("only %d could be compared", changed)
	}
}

// settable returns the files of what a sandbox may set.
func settable(t *testing.T, s *surroundings) (paths []string) {
	err := filepath.WalkDir("/proc/sys/net", func(path string, entry fs.DirEntry, err error) error {
		name := strings.ReplaceAll(strings.TrimPrefix(path, "/proc/sys/"), "/", ".")
		if err == nil && !entry.IsDir() && s.allowSysctl(name) == nil {
			paths = append(paths, path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	return paths
}

// change gives a parameter that is a number, or several, another value, and reports whether the
// kernel took it.
func change(path string) bool {
	data, err := os.ReadFile(path)
	words := strings.Fields(string(data))
	if err != nil || len(words) == 0 {
		return false
	}
	for _, by := range []int{1, -1} {
		n, err := strconv.Atoi(words[0])
		if err != nil {
			return false
		}
		next := strings.Join(append([]string{strconv.Itoa(n + by)}, words[1:]...), " ")
		if os.WriteFile(path, []byte(next), 0) == nil {
			return true
		}
	}
	return false
}
