// Package sandbox runs this program a second time in fresh user, network and mount namespaces, so that an agent can be tried
// without changing the machine, as an ordinary user and as root.
//
// The process outside (the parent) calls Run. The process inside (the child) calls Inside, which reports that it is in the
// sandbox, and Inherited.Setup before anything else. It serves listeners that the parent opened and clients outside can reach.
//
// The sandbox protects the machine from documents and from mistakes in targets. The child has a network namespace of its own,
// and its user namespace gives it no power over the rest of the kernel. /proc and /sys are read-only, except for
// /proc/sys/net, which belongs to the new network namespace: in root's sandbox the child still owns root's files, and a user
// namespace alone would let it write vm.* sysctls. The sandbox is no jail for hostile code: until the child gives up its
// capabilities it can undo its own mounts, and it can read and write the files of its user.
//
// Processes: the parent forwards every SIGINT, SIGTERM, SIGQUIT and, unless it was started by nohup, SIGHUP. The child leads
// its own process group, so that Ctrl-C, which signals the whole foreground group, reaches it once, through the parent. If the
// parent dies, even by SIGKILL, the kernel kills the child.
//
// Errors: ErrUnavailable means that this machine forbids the sandbox; the UnavailableError gives the reason and advice. Every
// other error concerns this start only. Run and Inside are safe for concurrent use, an Inherited is not.
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

// Variable is the environment variable in which the parent describes to the child what it inherits.
const Variable = "STATEHIVE_SANDBOX_HANDOVER"

var (
	// ErrUnavailable matches every UnavailableError.
	ErrUnavailable = errors.New("the sandbox is not available here")
	// ErrNotInside is returned by Inside when Variable is set in a process that is not in a sandbox made by Run.
	ErrNotInside = errors.New(Variable + " is set, but this process is not in a sandbox")
	// ErrNoListener is returned by Inherited.Listener for a name under which the parent passed no listener.
	ErrNoListener = errors.New("no such inherited listener")
)

// UnavailableError is the reason why this machine cannot run a sandbox. It matches ErrUnavailable and its Cause.
type UnavailableError struct {
	// Doing is the step that failed, such as "making the user namespace".
	Doing string
	// Cause is the kernel's error.
	Cause error
	// Reason is the most likely reason for the cause on this machine.
	Reason string
	// Advice is how to make the sandbox available.
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

// Config configures Run. The zero value runs the program without arguments.
type Config struct {
	// Args are the arguments of the child, without the program's name. The program is always the running one.
	Args []string
	// Env is the child's environment, in the form of os.Environ; nil means that of this process.
	Env []string
	// Listeners are passed to the child under these names. They must be unix or TCP listeners. The caller closes them after
	// Run (which removes a unix socket), and must not accept connections on them once Run is called.
	Listeners map[string]net.Listener
	// Stdout and Stderr are the child's; nil means those of this process.
	Stdout, Stderr io.Writer
	// Logger logs the start of the child, its signals and left-over directories; nil logs nothing.
	Logger *slog.Logger
}

// Prepared is the result of Inherited.Setup.
type Prepared struct {
	// StateDir is the absolute path of an empty, private directory in memory (mode 0700), which goes away with the sandbox.
	StateDir string
	// NetSysctls is nil if net.* sysctls can be written in the sandbox. Otherwise it is an UnavailableError, as in a container
	// that masks /proc/sys, and everything else works.
	NetSysctls error
}
