package agent

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/statehive/statehive/internal/process"
	"github.com/statehive/statehive/internal/process/processtest"
	"github.com/statehive/statehive/internal/trusted"
)

// holdNamespace starts a process that locks a network namespace.
func holdNamespace(t *testing.T, then func()) (program *processtest.Program, name string) {
	t.Helper()
	program = processtest.Start(t, func(values ...string) (io.Closer, error) {
		lock, err := lockNamespace(values[0], slog.New(slog.DiscardHandler))
		then()
		return lock, err
	}, func() []string {
		name = testLock(t)
		return []string{name}
	})
	return program, name
}

// An agent that cannot end, because a file system does not answer it, keeps its lock for as long.
func TestAKilledAgentDoesNotKeepTheNamespaceLock(t *testing.T) {
	program, name := holdNamespace(t, func() {})
	expectRefusal(t, name, program.PID)
	program.Kill()
	var log bytes.Buffer
	lock, err := lockNamespace(name, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	if lock == nil || !strings.Contains(log.String(), fmt.Sprint("pid=", program.PID)) || !strings.Contains(log.String(), "(state t)") {
		t.Errorf("%v, log: %s", lock, &log)
	}
	expectRefusal(t, name, unix.Getpid())
	if err := lock.Close(); err != nil {
		t.Error(err)
	}
}

// It has another name, but is the agent of the namespace when the killed one ends.
func TestAnAgentThatStartedBesideAKilledOneKeepsTheNamespaceLock(t *testing.T) {
	name := testLock(t)
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: lockNames(name)[1], Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	expectRefusal(t, name, unix.Getpid())
	if err := listener.Close(); err != nil {
		t.Error(err)
	}
	lock, err := lockNamespace(name, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal("after it has ended:", err)
	}
	if err := lock.Close(); err != nil {
		t.Error(err)
	}
}

func TestAnAgentWithoutItsMainThreadKeepsTheNamespaceLock(t *testing.T) {
	program, name := holdNamespace(t, processtest.EndMainThread)
	program.WaitForState('Z')
	expectRefusal(t, name, program.PID)
}

func TestAStoppedAgentKeepsTheNamespaceLock(t *testing.T) {
	program, name := holdNamespace(t, func() {})
	if err := unix.Kill(program.PID, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	program.WaitForState('T')
	expectRefusal(t, name, program.PID)
}

// expectRefusal checks that no agent can start because of a process.
func expectRefusal(t *testing.T, name string, pid int) {
	t.Helper()
	lock, err := lockNamespace(name, slog.New(slog.DiscardHandler))
	if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("process %d of user", pid)) {
		t.Errorf("got %v, %v", lock, err)
	}
	if err := lock.Close(); err != nil {
		t.Error(err)
	}
}

// holdStateDir starts a process that locks a state directory.
func holdStateDir(t *testing.T, then func()) (program *processtest.Program, dir string) {
	t.Helper()
	program = processtest.Start(t, func(values ...string) (io.Closer, error) {
		lock, err := lockDir(values[0], slog.New(slog.DiscardHandler))
		then()
		return lock, err
	}, func() []string {
		dir = t.TempDir()
		return []string{dir}
	})
	return program, dir
}

func TestAKilledAgentDoesNotKeepTheStateDirectory(t *testing.T) {
	program, dir := holdStateDir(t, func() {})
	expectInUse(t, dir)
	program.Kill()
	var log bytes.Buffer
	lock, err := lockDir(dir, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(log.String(), fmt.Sprint("pid=", program.PID)) || !strings.Contains(log.String(), "(state t)") {
		t.Errorf("log: %s", &log)
	}
	expectInUse(t, dir)
	if err := lock.Close(); err != nil {
		t.Error(err)
	}
}

func TestOfAgentsThatStartBesideAKilledOneOneGetsTheStateDirectory(t *testing.T) {
	program, dir := holdStateDir(t, func() {})
	program.Kill()
	const agents = 8
	var locks [agents]*os.File
	var all sync.WaitGroup
	for i := range agents {
		all.Go(func() { locks[i], _ = lockDir(dir, slog.New(slog.DiscardHandler)) })
	}
	all.Wait()
	held := 0
	for _, lock := range locks {
		if lock != nil {
			held++
			t.Cleanup(func() { _ = lock.Close() })
		}
	}
	if held != 1 {
		t.Errorf("%d agents have it", held)
	}
}

// The killed one ends between the start of the agent that has taken its place and that of another one.
func TestAnAgentThatStartedBesideAKilledOneKeepsTheStateDirectory(t *testing.T) {
	dir := t.TempDir()
	file, err := trusted.OpenIn(dir, "lock", os.O_CREATE|os.O_RDWR)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := (place{file, 1}).lock(); !got || err != nil {
		t.Fatal(got, err)
	}
	expectInUse(t, dir)
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	lock, err := lockDir(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal("after it has ended:", err)
	}
	if err := lock.Close(); err != nil {
		t.Error(err)
	}
}

func TestAnAgentWithoutItsMainThreadKeepsTheStateDirectory(t *testing.T) {
	program, dir := holdStateDir(t, processtest.EndMainThread)
	program.WaitForState('Z')
	expectInUse(t, dir)
}

// A lock that says nothing, or that another process has written, is held.
func TestAStateDirectoryIsInUseWhateverItsLockSays(t *testing.T) {
	program, dir := holdStateDir(t, func() {})
	program.Kill()
	killed, err := process.Find(program.PID)
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(killed.String())
	for _, text := range []string{"", "\x00", "x", fields[0] + " 1 " + fields[2], fields[0] + " " + fields[1] + " pid:[1]"} {
		if err := os.WriteFile(filepath.Join(dir, "lock"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		expectInUse(t, dir)
	}
}

// expectInUse checks that no agent can use a state directory.
func expectInUse(t *testing.T, dir string) {
	t.Helper()
	lock, err := lockDir(dir, slog.New(slog.DiscardHandler))
	if err == nil {
		t.Error("it is free", lock.Close())
	} else if !strings.Contains(err.Error(), dir+" is in use by another agent") {
		t.Error(err)
	}
}
