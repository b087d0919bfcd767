package agent

import (
	"bytes"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/statehive/statehive/internal/process/processtest"
)

// holdNamespace starts a process that locks a network namespace.
func holdNamespace(t *testing.T, then func()) (program *processtest.Program, name string) {
	t.Helper()
	program = processtest.Start(t, func(values ...string) error {
		_, err := lockNamespace(values[0], slog.New(slog.DiscardHandler))
		then()
		return err
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
