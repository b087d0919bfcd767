package inspect_test

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/statehive/statehive/hive/inspect"
)

func listen(t *testing.T, path string) {
	t.Helper()
	l, err := inspect.Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
}

func mode(t *testing.T, path string) fs.FileMode {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode()
}

func TestSocketAndItsDirectoryAreForTheUserOnly(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	path := filepath.Join(dir, "x.sock")
	listen(t, path)
	if got := mode(t, path); got.Perm() != 0o600 {
		t.Errorf("socket: %v", got)
	}
	if got := mode(t, dir); got.Perm() != 0o700 {
		t.Errorf("directory: %v", got)
	}
}

func TestSocketOfADeadAgentIsReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.sock")
	leaveStale(t, path)
	listen(t, path)
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
}

func TestListenRefuses(t *testing.T) {
	dir := t.TempDir()
	living := filepath.Join(dir, "living.sock")
	listen(t, living)
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	open := filepath.Join(dir, "open")
	if err := errors.Join(os.Mkdir(open, 0o700), os.Chmod(open, 0o770)); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct{ path, want string }{
		"a living agent":     {living, "another agent is listening there already"},
		"another file":       {file, "something else than a socket"},
		"an open directory":  {filepath.Join(open, "x.sock"), open + " can be written to by others (mode drwxrwx---): if what it holds is right, run chmod go-w"},
		"a path too long":    {filepath.Join(dir, strings.Repeat("x", 100)), "a socket's can have 107"},
		"a directory's file": {filepath.Join(file, "x.sock"), "not a directory"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := inspect.Listen(tt.path)
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), tt.path) {
				t.Errorf("got %v", err)
			}
		})
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "precious" {
		t.Errorf("the file has become %q, %v", text, err)
	}
}

func TestOfAgentsThatStartAtOnceOneListens(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.sock")
	leaveStale(t, path)
	const agents = 8
	results := make([]error, agents)
	var wg sync.WaitGroup
	for i := range agents {
		wg.Go(func() {
			l, err := inspect.Listen(path)
			results[i] = err
			if err == nil {
				t.Cleanup(func() { _ = l.Close() })
			}
		})
	}
	wg.Wait()
	won := 0
	for _, err := range results {
		if err == nil {
			won++
		} else if !errors.Is(err, inspect.ErrInUse) {
			t.Error(err)
		}
	}
	if won != 1 {
		t.Errorf("%d agents listen", won)
	}
}
