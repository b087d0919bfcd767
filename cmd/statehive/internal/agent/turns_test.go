package agent

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// socketInTurn is the descriptor of the socket in the processes that squatInTurn starts.
const socketInTurn = 3

// squatInTurn binds a name and holds it until the standard input ends. Processes listen on the socket one after another. Each is killed
// at once, but ends only after the next one was killed, so the kernel always names a killed process as the listener.
func squatInTurn(t *testing.T, name string) {
	t.Helper()
	runtime.LockOSThread() // only the thread that traces can let go
	defer runtime.UnlockOSThread()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrUnix{Name: name})
	}
	if err != nil {
		t.Fatal(err)
	}
	socket := os.NewFile(uintptr(fd), name)
	ended := make(chan bool)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(ended)
	}()
	killed := startKilled(t, socket)
	fmt.Println("held")
	for {
		select {
		case <-ended:
			end(t, killed)
			return
		default:
		}
		next := startKilled(t, socket)
		end(t, killed)
		killed = next
	}
}

// startKilled starts a process that listens, and returns when it was killed and is about to end.
func startKilled(t *testing.T, socket *os.File) (pid int) {
	t.Helper()
	p, err := os.StartProcess("/proc/self/exe", os.Args, &os.ProcAttr{
		Env:   []string{squatterVariable + "=l"},
		Files: []*os.File{nil, nil, os.Stderr, socketInTurn: socket},
		Sys:   &syscall.SysProcAttr{Ptrace: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	pid = p.Pid
	var status unix.WaitStatus
	_, err = unix.Wait4(pid, &status, unix.WALL, nil)
	if err = errors.Join(err, unix.PtraceSetOptions(pid, unix.PTRACE_O_TRACEEXIT|unix.PTRACE_O_EXITKILL)); err != nil {
		t.Fatal(err)
	}
	signal := unix.Signal(0)
	for status.TrapCause() != unix.PTRACE_EVENT_EXIT {
		if err := unix.PtraceCont(pid, int(signal)); err != nil {
			t.Fatal(err)
		}
		if _, err := unix.Wait4(pid, &status, unix.WALL, nil); err != nil || !status.Stopped() {
			t.Fatal(status, err)
		}
		signal = status.StopSignal()
	}
	return pid
}

// end lets a process end that was killed.
func end(t *testing.T, pid int) {
	t.Helper()
	err := unix.PtraceCont(pid, 0)
	if err == nil {
		_, err = unix.Wait4(pid, nil, unix.WALL, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
}
