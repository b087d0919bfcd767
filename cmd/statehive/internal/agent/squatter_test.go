package agent

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// squatterVariable tells the test binary to hold a lock, in how many user namespaces of its own.
const squatterVariable = "STATEHIVE_TEST_SQUATTER"

// Another user who has the name of the lock does not keep the agent from starting, not even as root of
// a user namespace of his own. Another agent does.
func TestAnotherUserCannotTakeTheNamespaceLock(t *testing.T) {
	if held := os.Getenv(squatterVariable); held != "" {
		squat(t, held)
		return
	}
	if os.Getuid() != 0 {
		t.Skip("only root can become another user")
	}
	const other = 65533
	for name, c := range map[string]struct {
		uid     uint32
		nested  string
		ambient []uintptr
		refused bool
	}{
		"an ordinary user":                       {uid: other, nested: "0"},
		"an ordinary user in a namespace of his": {uid: other, nested: "1"},
		"a user who may change the network":      {uid: other, nested: "0", ambient: []uintptr{12}, refused: true},
		"root":                                   {uid: 0, nested: "0", refused: true},
	} {
		t.Run(name, func(t *testing.T) {
			lock := fmt.Sprintf("@statehive-test-%d-%s", os.Getpid(), name)
			command := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^TestAnotherUserCannotTakeTheNamespaceLock$")
			command.Env = append(os.Environ(), squatterVariable+"="+c.nested+lock)
			command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: c.uid, Gid: c.uid}, AmbientCaps: c.ambient}
			release := holding(t, command)
			defer release()
			var log bytes.Buffer
			held, err := lockNamespace(lock, slog.New(slog.NewTextHandler(&log, nil)))
			if c.refused && (err == nil || !strings.Contains(err.Error(), fmt.Sprintf("of user %d (", c.uid))) {
				t.Errorf("%v, %v", held, err)
			}
			if !c.refused && (err != nil || held != nil || !strings.Contains(log.String(), "user=65533")) {
				t.Errorf("%v, %v, log: %s", held, err, &log)
			}
			if err := held.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// holding starts a command and waits until it says that it holds the lock.
func holding(t *testing.T, command *exec.Cmd) (release func()) {
	t.Helper()
	in, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	command.Stderr = os.Stderr
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	reader := bufio.NewReader(out)
	if line, err := reader.ReadString('\n'); line != "held\n" {
		t.Errorf("it says %q, %v", line, err)
	}
	return func() {
		_ = in.Close()
		_, _ = io.Copy(io.Discard, reader)
		_ = command.Wait() // what it has to say was said
	}
}

// squat holds a lock until the standard input ends.
func squat(t *testing.T, held string) {
	t.Helper()
	if held[0] == '1' {
		command := exec.CommandContext(t.Context(), "/proc/self/exe", os.Args[1:]...)
		command.Env = append(os.Environ(), squatterVariable+"=0"+held[1:])
		command.Stdin, command.Stdout, command.Stderr = os.Stdin, os.Stdout, os.Stderr
		command.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		}
		if err := command.Run(); err != nil {
			t.Error(err)
		}
		return
	}
	listener, err := net.Listen("unix", held[1:])
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println("held")
	_, _ = io.Copy(io.Discard, os.Stdin)
	_ = listener.Close() // it ends anyway
}
