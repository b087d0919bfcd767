package agent

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/statehive/statehive/cmd/statehive/internal/confine"
	"github.com/statehive/statehive/internal/process"
)

// squatterVariable tells the test binary to hold a lock, and how: '0' listens, '1' listens in a user namespace of its own,
// 'b' is bound and does not listen, 'j' is connected besides, 'f' has a full queue, 'd' has ended, and another process has its socket ('e' is what
// ends), 's' runs su meanwhile, 'c' confines itself as agents do, 'r' takes and frees it all the time ('q' with a full queue), and with 'k' processes
// listen in turn, each of which ('l') is killed and ends after the next one was.
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
	copied, netAdmin := publicCopy(t), []uintptr{unix.CAP_NET_ADMIN}
	for name, c := range map[string]struct {
		uid     uint32
		nested  string
		ambient []uintptr // given by who starts it
		setcap  bool      // given by its file
		program string    // empty for this one
		refused bool
	}{
		"an ordinary user":                       {uid: other, nested: "0"},
		"an ordinary user in a namespace of his": {uid: other, nested: "1"},
		"an ordinary user who does not listen":   {uid: other, nested: "b"},
		"an ordinary user with a full queue":     {uid: other, nested: "f"},
		"an ordinary user who is connected":      {uid: other, nested: "j"},
		"an ordinary user whose process ended":   {uid: other, nested: "d"},
		"an ordinary user who runs su":           {uid: other, nested: "s"},
		"an ordinary user's killed processes":    {uid: other, nested: "k"},
		"an ordinary user's capable program":     {uid: other, nested: "0", setcap: true, program: copied},
		"a user of this program by its file":     {uid: other, nested: "0", setcap: true, refused: true},
		"a user of another agent":                {uid: other, nested: "0", ambient: netAdmin, program: copied, refused: true},
		"a user of another agent, confined":      {uid: other, nested: "c", ambient: netAdmin, program: copied, refused: true},
		"root, who does not listen":              {uid: 0, nested: "b", refused: true},
		"a user who may change the network":      {uid: other, nested: "0", ambient: netAdmin, refused: true},
		"root":                                   {uid: 0, nested: "0", refused: true},
		"root's killed processes":                {uid: 0, nested: "k", refused: true},
	} {
		t.Run(name, func(t *testing.T) {
			lock := fmt.Sprintf("@statehive-test-%d-%s", os.Getpid(), name)
			program := cmp.Or(c.program, "/proc/self/exe")
			if c.setcap {
				giveNetAdmin(t, program)
			}
			command := exec.CommandContext(t.Context(), program, "-test.run=^TestAnotherUserCannotTakeTheNamespaceLock$")
			command.Env = append(os.Environ(), squatterVariable+"="+c.nested+lock)
			command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: c.uid, Gid: c.uid}, AmbientCaps: c.ambient}
			release := holding(t, command)
			defer release()
			if c.nested == "s" {
				waitForUser(t, command.Process.Pid, 0)
			}
			var log bytes.Buffer
			held, err := lockNamespace(lock, slog.New(slog.NewTextHandler(&log, nil)))
			want := fmt.Sprintf("of user %d", c.uid)
			if c.nested == "b" {
				want = "which process it is cannot be found out"
			}
			if c.refused && (err == nil || !strings.Contains(err.Error(), want)) {
				t.Errorf("%v, %v", held, err)
			}
			seen := c.nested == "j" || strings.Contains(log.String(), "user=65533") || strings.Contains(log.String(), "users=[65533]")
			if !c.refused && (err != nil || held != nil || !seen || log.Len() == 0) {
				t.Errorf("%v, %v, log: %s", held, err, &log)
			}
			if err := held.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// Nor does one who has it at one moment and not at the next, or another name of the lock, at which there is no room for one more connection.
func TestAnotherUserCannotFlickerWithTheNamespaceLock(t *testing.T) {
	if held := os.Getenv(squatterVariable); held != "" {
		squat(t, held)
		return
	}
	if os.Getuid() != 0 {
		t.Skip("only root can become another user")
	}
	for how, names := range map[string]func(name string) []string{
		"r": func(name string) []string { return []string{name} },
		"q": func(name string) []string { return lockNames(name)[1:3] },
	} {
		name := testLock(t)
		for _, squatted := range names(name) {
			command := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^TestAnotherUserCannotFlickerWithTheNamespaceLock$")
			command.Env = append(os.Environ(), squatterVariable+"="+how+squatted)
			command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65533, Gid: 65533}}
			t.Cleanup(holding(t, command))
		}
		for range 1000 {
			held, err := lockNamespace(name, slog.New(slog.DiscardHandler))
			if err = errors.Join(err, held.Close()); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// publicCopy returns a copy of this program that everybody may run.
func publicCopy(t *testing.T) string {
	t.Helper()
	content, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "public") //nolint:usetesting // others can be let into this one
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := dir + "/program"
	if err := errors.Join(os.Chmod(dir, 0o755), os.WriteFile(path, content, 0o700), os.Chmod(path, 0o755)); err != nil {
		t.Fatal(err)
	}
	return path
}

// giveNetAdmin lets a file give CAP_NET_ADMIN to whoever executes it, until the end of the test.
func giveNetAdmin(t *testing.T, path string) {
	t.Helper()
	const attribute = "security.capability"
	var value []byte // struct vfs_cap_data of linux/capability.h: revision 2, effective
	for _, word := range []uint32{0x02000001, 1 << unix.CAP_NET_ADMIN, 0, 0, 0} {
		value = binary.LittleEndian.AppendUint32(value, word)
	}
	if err := unix.Setxattr(path, attribute, value, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Removexattr(path, attribute) })
}

// waitForUser waits until a process is of another user.
func waitForUser(t *testing.T, pid int, want uint32) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; runtime.Gosched() {
		uid, err := effectiveUser(pid)
		if err != nil {
			t.Fatal(err)
		}
		if uid == want {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("process %d is still of user %d", pid, uid)
		}
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

// A process that ends between two questions leaves some of them unanswered.
func TestAHolderThatHasEndedIsNoAgent(t *testing.T) {
	self, err := process.Self()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe", "-test.run=^$")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		holder holder
		ended  bool
	}{
		"this process":                  {holder{pid: self.PID, process: self}, false},
		"one that could not be told":    {holder{pid: self.PID}, false},
		"an earlier one of its number":  {holder{pid: self.PID, process: process.Process{PID: self.PID}}, true},
		"one that has ended":            {holder{pid: cmd.Process.Pid, process: process.Process{PID: cmd.Process.Pid}}, true},
		"one that ended before, unseen": {holder{pid: cmd.Process.Pid}, true},
	} {
		if ended := c.holder.hasEnded(); ended != c.ended {
			t.Errorf("%s: ended %t", name, ended)
		}
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
	switch held[0] {
	case 'r', 'q':
		squatAgainAndAgain(t, held[1:], held[0] == 'q')
		return
	case 'k':
		squatInTurn(t, held[1:])
		return
	case 'l':
		t.Fatal(unix.Listen(socketInTurn, unix.SOMAXCONN), unix.Kill(unix.Getpid(), unix.SIGKILL))
	case 'b', 'f', 'j':
		squatWithoutAnswer(t, held[1:], held[0])
		return
	case 'd':
		command := exec.CommandContext(t.Context(), "/proc/self/exe", os.Args[1:]...)
		command.Env = append(os.Environ(), squatterVariable+"=e"+held[1:])
		command.Stdin, command.Stdout, command.Stderr = os.Stdin, os.Stdout, os.Stderr
		if err := command.Run(); err != nil {
			t.Fatal(err)
		}
		fmt.Println("held")
		_, _ = io.Copy(io.Discard, os.Stdin)
		return
	case 'e', 's':
		squatAndPassOn(t, held[1:], held[0] == 's')
		return
	}
	listener, err := net.Listen("unix", held[1:])
	if err != nil {
		t.Fatal(err)
	}
	if held[0] == 'c' {
		if err := confine.Process(confine.Machine()); err != nil {
			t.Fatal(err)
		}
	}
	fmt.Println("held")
	_, _ = io.Copy(io.Discard, os.Stdin)
	_ = listener.Close() // it ends anyway
}

// squatWithoutAnswer has a name without that anybody could connect to it.
func squatWithoutAnswer(t *testing.T, name string, how byte) {
	t.Helper()
	open := func() int {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			t.Fatal(err)
		}
		return fd
	}
	fd, addr := open(), &unix.SockaddrUnix{Name: name}
	if err := unix.Bind(fd, addr); err != nil {
		t.Fatal(err)
	}
	switch how {
	case 'j':
		listener, helper := open(), &unix.SockaddrUnix{Name: name + "-helper"}
		if err := errors.Join(unix.Bind(listener, helper), unix.Listen(listener, 1), unix.Connect(fd, helper)); err != nil {
			t.Fatal(err)
		}
	case 'f':
		fillQueue(t, fd, name)
	}
	fmt.Println("held")
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// fillQueue has a socket listen, until there is no room for one more connection.
func fillQueue(t *testing.T, fd int, name string) {
	t.Helper()
	err := unix.Listen(fd, 0)
	for err == nil {
		var client int
		if client, err = unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK, 0); err == nil {
			err = errors.Join(unix.Connect(client, &unix.SockaddrUnix{Name: name}), unix.Close(client))
		}
	}
	if !errors.Is(err, unix.EAGAIN) {
		t.Fatal(err)
	}
}

// squatAgainAndAgain takes a name and frees it until the standard input ends.
func squatAgainAndAgain(t *testing.T, name string, full bool) {
	t.Helper()
	ended := make(chan bool)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(ended)
	}()
	fmt.Println("held")
	for {
		select {
		case <-ended:
			return
		default:
		}
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		if err != nil {
			t.Fatal(err)
		}
		err = unix.Bind(fd, &unix.SockaddrUnix{Name: name})
		if err != nil && !errors.Is(err, unix.EADDRINUSE) {
			t.Fatal(err)
		}
		if full && err == nil {
			fillQueue(t, fd, name)
		}
		_ = unix.Close(fd) // nothing was exchanged
	}
}

// squatAndPassOn listens, and then is no process, or one of su, that waits for a password.
func squatAndPassOn(t *testing.T, name string, su bool) {
	t.Helper()
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: name})
	if err != nil {
		t.Fatal(err)
	}
	file, err := listener.File()
	if err != nil {
		t.Fatal(err)
	}
	if su {
		if _, err := unix.FcntlInt(file.Fd(), unix.F_SETFD, 0); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stdout.WriteString("held\n"); err != nil {
			t.Fatal(err)
		}
		t.Fatal(unix.Exec("/bin/su", []string{"su", "root"}, os.Environ()))
	}
	child := exec.CommandContext(context.Background(), "cat") //nolint:usetesting // it outlives the test
	child.Stdin, child.Stdout, child.Stderr = os.Stdin, os.Stdout, os.Stderr
	child.ExtraFiles = []*os.File{file}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	os.Exit(0)
}
