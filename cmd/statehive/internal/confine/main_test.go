package confine

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/elastic/go-seccomp-bpf/arch"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
	libcap "kernel.org/pub/linux/libs/security/libcap/cap"
)

// childVariable makes the test binary confine itself and report what it still can: a process cannot be let out again.
const childVariable = "CONFINE_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) == "" {
		goleak.VerifyTestMain(m)
		return
	}
	done := make(chan error)
	go func() { // the goroutine of main may be locked to its thread
		r, err := confined()
		if err == nil {
			err = json.NewEncoder(os.Stdout).Encode(r)
		}
		done <- err
	}()
	if err := <-done; err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// report is what a confined process finds. Results of system calls are by thread: one that was there before, and a new one.
type report struct {
	Calls  [2]map[string]string
	Status []string // of all threads: their capabilities and the like
	Exec   string
}

// confined confines this process and tries what it must not do any more.
func confined() (report, error) {
	ready, goOn, results := make(chan bool), make(chan bool), make(chan map[string]string)
	try := func() {
		runtime.LockOSThread()
		ready <- true
		<-goOn
		results <- attempts()
	}
	go try()
	<-ready
	reached = changeThreads
	if err := Process(Sandbox()); err != nil {
		return report{}, err
	}
	var r report
	goOn <- true
	r.Calls[0] = <-results
	go func() { <-ready; goOn <- true }()
	go try()
	r.Calls[1] = <-results
	r.Exec = fmt.Sprint(exec.Command("/proc/self/exe").Run())
	paths, err := os.ReadDir("/proc/self/task")
	for _, path := range paths {
		text, err := os.ReadFile("/proc/self/task/" + path.Name() + "/status")
		if err != nil {
			return report{}, err
		}
		r.Status = append(r.Status, string(text))
	}
	return r, err
}

// changeThreads makes the caller go on on another thread, unless it is locked to this one.
func changeThreads() {
	for before, tries := unix.Gettid(), 0; unix.Gettid() == before && tries < 100; tries++ {
		for range 2 * runtime.GOMAXPROCS(0) {
			go func() {
				pause := unix.NsecToTimespec(int64(5 * time.Millisecond))
				_ = unix.Nanosleep(&pause, nil) // the thread that it is called on is not free for others
			}()
		}
		runtime.Gosched()
	}
}

// attempts makes every forbidden call, with arguments that are wrong for those the kernel looks at before it does anything.
func attempts() map[string]string {
	info, err := arch.GetInfo("")
	if err != nil {
		return map[string]string{"": err.Error()}
	}
	got := map[string]string{}
	call := func(label, name string, args ...uintptr) {
		number, ok := info.SyscallNames[name]
		if !ok {
			return // this architecture has none
		}
		_, _, errno := syscall.RawSyscall6(uintptr(number), args[0], args[1], args[2], args[3], args[4], args[5])
		got[label] = unix.ErrnoName(errno)
	}
	const wrong = ^uintptr(0)
	if runtime.GOARCH == "amd64" {
		const x32 = 1 << 30 // the ABI of programs with short pointers, on the same architecture
		for _, nr := range []uintptr{unix.SYS_GETPID, unix.SYS_SOCKET, x32 + 520} {
			_, _, errno := syscall.RawSyscall(nr|x32, unix.AF_PACKET, unix.SOCK_RAW, 0)
			got[fmt.Sprintf("x32 %d", nr&^x32)] = unix.ErrnoName(errno)
		}
	}
	for _, group := range forbidden() {
		for _, name := range group {
			call(name, name, wrong, wrong, wrong, wrong, wrong, wrong)
		}
	}
	_, _, errno := syscall.RawSyscall(1<<20, 0, 0, 0)
	got["no system call"] = unix.ErrnoName(errno)
	call("clone3", "clone3", wrong, wrong, 0, 0, 0, 0)
	// CLONE_SIGHAND without CLONE_VM is an error of its own, EINVAL.
	call("clone of a namespace", "clone", unix.CLONE_NEWUSER|unix.CLONE_SIGHAND, 0, 0, 0, 0, 0)
	call("clone", "clone", unix.CLONE_SIGHAND, 0, 0, 0, 0, 0)
	call("typing", "ioctl", wrong, unix.TIOCSTI, 0, 0, 0, 0)
	// The kernel looks at 32 bits of the request, a filter at 64.
	call("typing, with more bits", "ioctl", wrong, 1<<32|unix.TIOCSTI, 0, 0, 0, 0)
	call("ioctl", "ioctl", wrong, unix.TCGETS, 0, 0, 0, 0)
	call("packet socket", "socket", unix.AF_PACKET, unix.SOCK_RAW, 0, 0, 0, 0)
	call("vsock", "socket", unix.AF_VSOCK, unix.SOCK_STREAM, 0, 0, 0, 0)
	// Both sockets of a pair are made before it turns out that their family has no pairs.
	call("pair of packet sockets", "socketpair", unix.AF_PACKET, unix.SOCK_RAW, 0, 0, 0, 0)
	call("unix pair", "socketpair", unix.AF_UNIX, unix.SOCK_DGRAM, 0, wrong, 0, 0)
	call("userfaultfd of the device", "ioctl", wrong, userfaultfdNew, 0, 0, 0, 0)
	for name, family := range map[string]uintptr{"unix": unix.AF_UNIX, "inet": unix.AF_INET, "inet6": unix.AF_INET6, "netlink": unix.AF_NETLINK} {
		call(name+" socket", "socket", family, unix.SOCK_DGRAM, 0, 0, 0, 0)
	}
	return got
}

// child runs confined in a process of its own, in a session without a terminal.
func child(t *testing.T, attr *syscall.SysProcAttr) report {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), childVariable+"=1")
	cmd.Stderr = t.Output()
	cmd.SysProcAttr = attr
	cmd.SysProcAttr.Setsid = true
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var r report
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// kinds are the ways in which the agent is run: by root, by an ordinary user, and as root of a user namespace.
func kinds(t *testing.T) map[string]*syscall.SysProcAttr {
	t.Helper()
	namespace := &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	if os.Getuid() != 0 {
		return map[string]*syscall.SysProcAttr{"self": {}, "root of a user namespace": namespace}
	}
	return map[string]*syscall.SysProcAttr{
		"root": {}, "root of a user namespace": namespace,
		"ordinary user": {Credential: &syscall.Credential{Uid: 65534, Gid: 65534}},
	}
}

// mask is a set of capabilities as /proc prints it.
func mask(values []libcap.Value) string {
	var bits uint64
	for _, v := range values {
		bits |= 1 << v
	}
	return fmt.Sprintf("%016x", bits)
}

// field returns that of a status file.
func field(status, name string) string {
	for line := range strings.Lines(status) {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(rest)
		}
	}
	return ""
}
