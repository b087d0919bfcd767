// Package nstest runs the tests of a package inside fresh user, network and
// mount namespaces, so that they work on real kernel objects without touching
// the machine, as root and as an ordinary user.
package nstest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"

	"github.com/vishvananda/netlink"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

// inside is set in the environment of the process inside the namespaces.
const inside = "STATEHIVE_TEST_INSIDE_NAMESPACES"

// Main is for TestMain. It runs the test binary again inside the namespaces and
// exits as that does; there it runs the tests, with the loopback device up, and
// looks for goroutines that they leave behind.
// Where the kernel forbids the namespaces, the tests fail.
func Main(m *testing.M) {
	if os.Getenv(inside) != "" {
		if err := enter(); err != nil {
			fmt.Fprintln(os.Stderr, "nstest:", err)
			os.Exit(1)
		}
		goleak.VerifyTestMain(m) // exits
	}
	os.Exit(rerun())
}

// enter finishes the namespaces from inside.
func enter() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("find the loopback device: %w", err)
	}
	return netlink.LinkSetUp(lo)
}

func rerun() (code int) {
	// The kernel kills the child when the thread that started it ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	command := exec.Command("/proc/self/exe", os.Args[1:]...) //nolint:noctx // ends with this process
	command.Args[0] = os.Args[0]
	command.Env = append(os.Environ(), inside+"=1")
	command.Stdin, command.Stdout, command.Stderr = os.Stdin, os.Stdout, os.Stderr
	command.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNET | unix.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		Pdeathsig:   unix.SIGKILL,
	}
	err := command.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit) && exit.ExitCode() >= 0:
		return exit.ExitCode()
	}
	fmt.Fprintln(os.Stderr, "nstest: run the tests in new user, network and mount namespaces:", err)
	return 1
}
