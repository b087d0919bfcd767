// Package processtest makes what is hard to end: processes that were killed, and connections.
package processtest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// variable tells a test that it runs in the process that is to be killed.
const variable = "STATEHIVE_TEST_KILLED"

// hang is how long anything here may take.
const hang = 20 * time.Second

// Program is a process that runs a part of a test.
type Program struct {
	PID  int
	t    *testing.T
	free func() // lets the last thread end
}

// Start runs hold in another process, which keeps what hold returns open until the test ends. The other process runs this test again, up to here:
// call Start before anything else in a test that is not part of another one. The values are handed to hold.
func Start(t *testing.T, hold func(values ...string) (io.Closer, error), values func() []string) *Program {
	t.Helper()
	if given, here := os.LookupEnv(variable); here {
		held, err := hold(strings.Split(given, "\n")...)
		if err == nil {
			_, err = os.Stdout.WriteString("held\n")
		}
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, os.Stdin) // until the end of the test
		runtime.KeepAlive(held)
		os.Exit(0)
	}
	command := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^"+t.Name()+"$")
	command.Env = append(os.Environ(), variable+"="+strings.Join(values(), "\n"))
	command.Stderr = os.Stderr
	in, err := command.StdinPipe()
	out, outErr := command.StdoutPipe()
	if err := errors.Join(err, outErr); err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	p := &Program{PID: command.Process.Pid, t: t, free: func() {}}
	t.Cleanup(func() {
		_ = in.Close()
		_ = command.Process.Kill()
		p.free()
		_ = command.Wait() // it was killed
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "held\n" {
		t.Fatalf("it says %q, %v", line, err)
	}
	return p
}

// Kill kills the program, of which one thread does not end, nor its files with it. It is held by ptrace, as it would be by a file system
// that does not answer.
func (p *Program) Kill() {
	p.t.Helper()
	held, release, ended := make(chan int), make(chan struct{}), make(chan error)
	go func() {
		runtime.LockOSThread() // only the thread that traces can let go
		defer runtime.UnlockOSThread()
		thread, err := p.anotherThread()
		if err == nil {
			err = seize(thread)
		}
		if err != nil {
			p.t.Error(err)
			close(held)
			return
		}
		held <- thread
		<-release
		_, err = unix.Wait4(thread, nil, unix.WALL, nil)
		ended <- errors.Join(err, unix.PtraceDetach(thread))
	}()
	thread, ok := <-held
	if !ok {
		p.t.FailNow()
	}
	p.free = func() {
		close(release)
		if err := <-ended; err != nil {
			p.t.Error(err)
		}
	}
	if err := unix.Kill(p.PID, unix.SIGKILL); err != nil {
		p.t.Fatal(err)
	}
	p.waitForState(p.PID, 'Z')
	p.waitForState(thread, 't')
}

// anotherThread returns a thread other than the main one.
func (p *Program) anotherThread() (int, error) {
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", p.PID))
	if err != nil {
		return 0, err
	}
	for _, thread := range threads {
		if id, err := strconv.Atoi(thread.Name()); err != nil || id != p.PID {
			return id, err
		}
	}
	return 0, errors.New("it has one thread only")
}

// seize has the calling thread trace another one, which stops just before it ends.
func seize(thread int) error {
	const traceExit = unix.PTRACE_O_TRACEEXIT
	if _, _, err := syscall.Syscall6(unix.SYS_PTRACE, unix.PTRACE_SEIZE, uintptr(thread), 0, traceExit, 0, 0); err != 0 {
		return os.NewSyscallError("ptrace", err)
	}
	return nil
}

// EndMainThread ends the main thread of this process, which goes on without it: to others it looks like one that was killed.
func EndMainThread() {
	for {
		go func() {
			runtime.LockOSThread() // never unlocked: other goroutines need another thread
			if unix.Gettid() == unix.Getpid() {
				_, _, _ = syscall.Syscall(unix.SYS_EXIT, 0, 0, 0)
			}
			select {}
		}()
		if state, err := stateOf(unix.Getpid(), unix.Getpid()); err != nil || state == 'Z' {
			return
		}
		// The main thread takes no goroutine while it waits for the network. A timer wakes it.
		<-time.After(time.Millisecond)
	}
}

// WaitForState waits until the main thread of the program has a state of proc_pid_stat(5).
func (p *Program) WaitForState(want byte) {
	p.t.Helper()
	p.waitForState(p.PID, want)
}

func (p *Program) waitForState(thread int, want byte) {
	p.t.Helper()
	for deadline := time.Now().Add(hang); ; runtime.Gosched() {
		state, err := stateOf(p.PID, thread)
		if err != nil {
			p.t.Fatal(err)
		}
		if state == want {
			return
		}
		if time.Now().After(deadline) {
			p.t.Fatalf("thread %d has state %c, expected %c", thread, state, want)
		}
	}
}

func stateOf(pid, thread int) (byte, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/stat", pid, thread))
	if err != nil {
		return 0, err
	}
	_, after, found := strings.Cut(string(text), ") ")
	if !found {
		return 0, fmt.Errorf("state of thread %d: %q", thread, text)
	}
	return after[0], nil
}
