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
	"strings"
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

// mappings returns the users or groups inside: root alone, and all that there are
// outside as well if it is root who runs the tests.
func mappings(file string, id int) []syscall.SysProcIDMap {
	text, err := os.ReadFile(file)
	if err != nil || os.Getuid() != 0 {
		return []syscall.SysProcIDMap{{ContainerID: 0, HostID: id, Size: 1}}
	}
	var all []syscall.SysProcIDMap
	for line := range strings.Lines(string(text)) {
		var first, outside, size int
		if n, _ := fmt.Sscan(line, &first, &outside, &size); n == 3 {
			all = append(all, syscall.SysProcIDMap{ContainerID: first, HostID: first, Size: size})
		}
	}
	return all
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
		UidMappings: mappings("/proc/self/uid_map", os.Getuid()),
		GidMappings: mappings("/proc/self/gid_map", os.Getgid()),
		Pdeathsig:   unix.SIGKILL,

		GidMappingsEnableSetgroups: os.Getuid() == 0,
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
