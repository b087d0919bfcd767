package procsys_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/statehive/statehive/reconciler/target/internal/nstest"
	"github.com/statehive/statehive/reconciler/target/internal/procsys"
)

func TestMain(m *testing.M) { nstest.Main(m) }

// tree makes a directory with two parameters, net.a.value and net.b.value.
func tree(t *testing.T) (root string) {
	t.Helper()
	root = t.TempDir()
	for _, dir := range []string{"net/a", "net/b"} {
		if err := errors.Join(os.MkdirAll(filepath.Join(root, dir), 0o700), os.WriteFile(filepath.Join(root, dir, "value"), []byte("1\n"), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestNoNameLeadsOut(t *testing.T) {
	files := procsys.New(filepath.Join(tree(t), "net", "a"))
	if value, err := files.Read("value"); value != "1" || err != nil {
		t.Errorf("%q, %v", value, err)
	}
	for _, name := range []string{"///b.value", procsys.NameOf("../b/value"), procsys.NameOf("/etc/passwd")} {
		if value, err := files.Read(name); err == nil {
			t.Errorf("%q: %q", name, value)
		}
	}
}

func TestABusyDirectoryKeepsNobodyElseWaiting(t *testing.T) {
	root := tree(t)
	files := procsys.New(root)
	end := nstest.SilentDisk(t, filepath.Join(root, "net", "a"))
	began := time.Now()
	for range 10 {
		if value, err := files.Read("net.a.value"); !errors.Is(err, procsys.ErrBusy) {
			t.Fatalf("%q, %v", value, err)
		}
	}
	if err := files.Write("net.a.value", "2"); !errors.Is(err, procsys.ErrBusy) {
		t.Errorf("write: %v", err)
	}
	if waited := time.Since(began); waited > 10*time.Second {
		t.Errorf("waited for %v: only one call should wait", waited)
	}
	if err := files.Write("net.b.value", "2"); err != nil {
		t.Error(err)
	}
	if value, err := files.Read("net.b.value"); value != "2" || err != nil {
		t.Errorf("the other one: %q, %v", value, err)
	}
	end()
	deadline := time.Now().Add(10 * time.Second)
	for {
		value, err := files.Read("net.a.value")
		if value == "1" && err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("afterwards: %q, %v", value, err)
		}
	}
	if _, err := files.Read("net.c.value"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("one that does not exist: %v", err)
	}
}

func TestAtMostAHundredDirectoriesAreWaitedFor(t *testing.T) {
	root := tree(t)
	end := nstest.SilentDisk(t, filepath.Join(root, "net", "a"))
	files := procsys.New(root)
	const many = 100
	errs := make(chan error)
	for i := range many {
		go func() {
			_, err := files.Read(fmt.Sprintf("net.a.%d.value", i))
			errs <- err
		}()
	}
	for range many {
		if err := <-errs; !errors.Is(err, procsys.ErrBusy) {
			t.Error(err)
		}
	}
	if _, err := files.Read("net.b.value"); !errors.Is(err, procsys.ErrBusy) {
		t.Errorf("one more: %v", err)
	}
	end()
	deadline := time.Now().Add(10 * time.Second)
	for {
		if value, err := files.Read("net.b.value"); err == nil && value == "1" {
			break
		} else if time.Now().After(deadline) {
			t.Fatalf("afterwards: %q, %v", value, err)
		}
	}
}
