package process_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/statehive/statehive/internal/process"
	"github.com/statehive/statehive/internal/process/processtest"
)

func none() []string { return nil }

func find(t *testing.T, pid int) process.Process {
	t.Helper()
	p, err := process.Find(pid)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A process whose thread hangs is a zombie that keeps its sockets.
func TestAKilledProcessThatCannotEnd(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "socket")
	program := processtest.Start(t, func(values ...string) (io.Closer, error) {
		return net.Listen("unix", values[0])
	}, func() []string { return []string{socket} })
	peer := dial(t, socket)
	if peer.PID != program.PID || peer != find(t, program.PID) {
		t.Fatalf("the peer is %v, expected process %d", peer, program.PID)
	}
	if waits, killed := peer.Killed(); killed {
		t.Fatal("before it is killed:", waits)
	}
	program.Kill()
	waits, killed := peer.Killed()
	if !killed || !strings.Contains(waits, "thread ") || !strings.Contains(waits, "(state t)") {
		t.Errorf("killed: %v, waits: %s", killed, waits)
	}
	if again := dial(t, socket); again != peer {
		t.Errorf("the peer is %v now, was %v", again, peer)
	}
	later, err := process.Parse(peer.String())
	if _, killed := later.Killed(); err != nil || later != peer || !killed {
		t.Errorf("read from a file: %v, killed: %v, %v", later, killed, err)
	}
}

// dial returns the process that listens.
func dial(t *testing.T, socket string) process.Process {
	t.Helper()
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: socket})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	peer, err := process.Peer(conn)
	if err != nil {
		t.Fatal(err)
	}
	return peer
}

func TestAKilledProcessThatWritesToAFrozenFileSystem(t *testing.T) {
	hangInAFrozenFileSystem(t, unix.SIGKILL)
}

func TestAProcessThatExitsWhileItWritesToAFrozenFileSystem(t *testing.T) {
	hangInAFrozenFileSystem(t, unix.SIGTERM)
}

func hangInAFrozenFileSystem(t *testing.T, end unix.Signal) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root can mount a file system")
	}
	thaw := func() {}
	program := processtest.Start(t, func(values ...string) (io.Closer, error) {
		file, err := os.OpenFile(values[0], os.O_WRONLY, 0)
		go writeBesidesMainThread(file)
		return file, err
	}, func() []string {
		var file string
		file, thaw = frozenFile(t)
		return []string{file}
	})
	defer func() { thaw() }()
	p := find(t, program.PID)
	for deadline := time.Now().Add(20 * time.Second); ; runtime.Gosched() {
		waits, killed := p.Killed()
		if killed && strings.Contains(waits, "(state D)") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("killed: %v, waits: %s", killed, waits)
		}
		if states(t, program.PID)["D"] {
			if err := unix.Kill(program.PID, end); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// writeBesidesMainThread writes on another thread than the main one, which the kernel chooses for signals.
func writeBesidesMainThread(file *os.File) {
	runtime.LockOSThread()
	if unix.Gettid() == unix.Getpid() {
		go writeBesidesMainThread(file)
		select {}
	}
	_, _ = file.WriteString("x") // it hangs
}

// states returns the states of the threads of a process.
func states(t *testing.T, pid int) map[string]bool {
	t.Helper()
	paths, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]bool{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if _, after, ok := strings.Cut(string(text), ") "); err == nil && ok {
			all[after[:1]] = true
		}
	}
	return all
}

// frozenFile returns a file in a frozen file system, in which writes hang until thaw is called.
func frozenFile(t *testing.T) (path string, thaw func()) {
	t.Helper()
	dir := t.TempDir()
	image, mount := filepath.Join(dir, "image"), filepath.Join(dir, "mount")
	path = filepath.Join(mount, "file")
	if err := errors.Join(os.WriteFile(image, nil, 0o600), os.Truncate(image, 20<<20), os.Mkdir(mount, 0o700)); err != nil {
		t.Fatal(err)
	}
	for _, command := range [][]string{{"mkfs.ext4", "-q", image}, {"mount", "-o", "loop", image, mount}} {
		if out, err := exec.CommandContext(t.Context(), command[0], command[1:]...).CombinedOutput(); err != nil {
			t.Skipf("no file system can be frozen here: %v: %v, %s", command, err, out)
		}
	}
	t.Cleanup(func() { _ = unix.Unmount(mount, unix.MNT_DETACH) })
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(mount)
	if err != nil {
		t.Fatal(err)
	}
	const freeze, unfreeze = 0xc0045877, 0xc0045878 // FIFREEZE and FITHAW of linux/fs.h
	if err := unix.IoctlSetInt(int(file.Fd()), freeze, 0); err != nil {
		_ = file.Close()
		t.Skip("no file system can be frozen here:", err)
	}
	return path, func() {
		if err := errors.Join(unix.IoctlSetInt(int(file.Fd()), unfreeze, 0), file.Close()); err != nil {
			t.Error(err)
		}
	}
}

func TestAProcessWithoutItsMainThreadIsNotKilled(t *testing.T) {
	program := processtest.Start(t, func(...string) (io.Closer, error) {
		processtest.EndMainThread()
		return nil, nil
	}, none)
	program.WaitForState('Z')
	if waits, killed := find(t, program.PID).Killed(); killed {
		t.Error(waits)
	}
}

func TestAStoppedProcessIsNotKilled(t *testing.T) {
	program := processtest.Start(t, func(...string) (io.Closer, error) { return nil, nil }, none)
	if err := unix.Kill(program.PID, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	program.WaitForState('T')
	if waits, killed := find(t, program.PID).Killed(); killed {
		t.Error(waits)
	}
}

func TestAProcessThatHasEndedIsNotKilled(t *testing.T) {
	command := exec.CommandContext(t.Context(), "cat")
	in, err := command.StdinPipe()
	if err == nil {
		err = command.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	p := find(t, command.Process.Pid)
	if err := command.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = in.Close()
	_ = command.Wait() // it was killed
	if waits, killed := p.Killed(); killed {
		t.Error(waits)
	}
}

// A process has an ID until its parent has asked how it ended, but nothing else any more.
func TestAZombieWithoutThreadsIsNotKilled(t *testing.T) {
	command := exec.CommandContext(t.Context(), "sleep", "60")
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = command.Wait() }() // it was killed
	p := find(t, command.Process.Pid)
	if err := command.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	// It has ended, and is not yet released.
	if err := unix.Waitid(unix.P_PID, p.PID, nil, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
		t.Fatal(err)
	}
	if waits, killed := p.Killed(); killed {
		t.Error(waits)
	}
}

func TestAnotherProcessWithTheSameIDIsNotKilled(t *testing.T) {
	program := processtest.Start(t, func(...string) (io.Closer, error) { return nil, nil }, none)
	p := find(t, program.PID)
	program.Kill()
	fields := strings.Fields(p.String())
	for name, text := range map[string]string{
		"an earlier one":           fields[0] + " 1 " + fields[2],
		"one of another namespace": fields[0] + " " + fields[1] + " pid:[1]",
	} {
		other, err := process.Parse(text)
		if _, killed := other.Killed(); err != nil || killed {
			t.Errorf("%s: killed: %v, %v", name, killed, err)
		}
	}
}

func TestProcessesThatAreNone(t *testing.T) {
	for _, pid := range []int{0, -1, 1 << 30} {
		if p, err := process.Find(pid); err == nil {
			t.Errorf("process %d: %v", pid, p)
		}
	}
	for _, text := range []string{"", "\x00\x00", "12", "12 x pid:[1]"} {
		if p, err := process.Parse(text); err == nil {
			t.Errorf("%q is %v", text, p)
		}
	}
	if _, killed := (process.Process{}).Killed(); killed {
		t.Error("no process was killed")
	}
	if self, err := process.Self(); err != nil || self.PID != os.Getpid() {
		t.Errorf("this process is %v, %v", self, err)
	}
}
