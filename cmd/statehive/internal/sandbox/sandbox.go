// Package sandbox runs this program a second time in fresh user, network and mount namespaces, so that an agent can be tried
// without changing the machine, as an ordinary user and as root.
//
// The process outside (the parent) calls Run. The process inside learns from Inside that it is in the sandbox, and calls
// Inherited.Setup before anything else. Listeners which the parent has opened are served inside and reached from outside.
//
// What it protects from: documents, and mistakes in targets. Network state is that of the new network namespace. The user
// namespace takes away all power over the rest of the kernel. /proc and /sys are read-only, but for /proc/sys/net, which
// belongs to the new network namespace: root's sandbox still owns root's files, and a user namespace alone would let it write
// vm.* sysctls. By itself it is no jail for hostile code: the process inside could undo its own mounts until it gives up the
// power to, and reads and writes the files of its user.
//
// Processes: the parent forwards SIGINT, SIGTERM, SIGQUIT and, unless it was started by nohup, SIGHUP, each as often as it
// gets it. The child is the leader of its own process group, so that a Ctrl-C of the terminal, which goes to the whole
// foreground group, reaches it once, through the parent. If the parent dies, by SIGKILL too, the kernel kills the child.
//
// Errors: ErrUnavailable means that this machine forbids the sandbox; the UnavailableError says why and what can be done.
// Every other error is about this one start. Run and Inside are safe for concurrent use, an Inherited is not.
//
// The sandbox exists on Linux only; elsewhere everything fails with ErrUnavailable.
package sandbox

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
)

// Variable is the environment variable by which the parent tells the child what it hands over.
const Variable = "STATEHIVE_SANDBOX_HANDOVER"

var (
	// ErrUnavailable matches every UnavailableError.
	ErrUnavailable = errors.New("the sandbox is not available here")
	// ErrNotInside is returned by Inside when Variable is set in a process which is not in a sandbox of ours.
	ErrNotInside = errors.New(Variable + " is set, but this process is not in a sandbox")
	// ErrNoListener is returned by Inherited.Listener for a name which the parent has not handed over.
	ErrNoListener = errors.New("no such inherited listener")
)

// UnavailableError says why the sandbox cannot be made on this machine. It matches ErrUnavailable and its Cause.
type UnavailableError struct {
	// Doing is what failed, as in "making the user namespace".
	Doing string
	// Cause is the kernel's error.
	Cause error
	// Reason is what on this machine is most likely behind it.
	Reason string
	// Advice says who can do what about it.
	Advice string
}

// Error gives all four parts in one line.
func (e *UnavailableError) Error() string {
	return fmt.Sprintf("%v: %s: %v: %s; %s", ErrUnavailable, e.Doing, e.Cause, e.Reason, e.Advice)
}

// Is reports whether target is ErrUnavailable.
func (e *UnavailableError) Is(target error) bool { return target == ErrUnavailable }

// Unwrap returns the kernel's error.
func (e *UnavailableError) Unwrap() error { return e.Cause }

// Config says what Run starts. Its zero value runs the program without arguments.
type Config struct {
	// Args are the arguments of the child, without the program's name. The program is always the one that is running.
	Args []string
	// Env is the child's environment, in the form of os.Environ, which is the default for nil.
	Env []string
	// Listeners are handed to the child by these names. They must be unix or TCP listeners. They stay the caller's, who closes
	// them after Run (which removes a unix socket), but must not accept on them from Run on.
	Listeners map[string]net.Listener
	// Stdout and Stderr are the child's; the default for nil is this process's own.
	Stdout, Stderr io.Writer
	// Logger gets what happens to the child; nil logs nothing.
	Logger *slog.Logger
}

// Prepared is what Inherited.Setup has made.
type Prepared struct {
	// StateDir is the absolute path of an empty, private directory in memory (mode 0700), which goes away with the sandbox.
	StateDir string
	// NetSysctls is nil if net.* sysctls can be written in the sandbox. Otherwise it is an UnavailableError: all else works,
	// as in a container which masks /proc/sys.
	NetSysctls error
}
