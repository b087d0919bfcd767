package agent

import (
	"errors"
	"fmt"
	"log/slog"

	"golang.org/x/sys/unix"

	"github.com/statehive/statehive/cmd/statehive/internal/confine"
)

// confine gives up the capabilities and system calls that the agent no longer needs. If the kernel
// does not support that, an agent outside of a sandbox logs a warning and goes on.
func (s *surroundings) confine(logger *slog.Logger) error {
	keep := confine.Machine()
	if s.sandboxed {
		keep = confine.Sandbox()
	}
	err := confine.Process(keep)
	switch {
	case err == nil:
		return nil
	case s.sandboxed && !errors.Is(err, errors.ErrUnsupported):
		return fmt.Errorf("sandbox: %w", err)
	}
	logger.Warn("This process keeps more power than it needs", "error", err)
	return nil
}

// warnIfPowerless logs at the start why every document is going to fail.
func warnIfPowerless(logger *slog.Logger) {
	capable, err := mayChangeNetwork(0)
	if err == nil && !capable {
		logger.Warn("This process may not change the network: the capability CAP_NET_ADMIN is missing. Run the agent as root, or try it with --sandbox",
			"user", unix.Geteuid())
	}
}

// mayChangeNetwork reports whether a process (0 for this one) has CAP_NET_ADMIN in its user namespace.
func mayChangeNetwork(pid int) (bool, error) {
	sets, err := capabilities(pid)
	return sets.Effective&(1<<unix.CAP_NET_ADMIN) != 0, err
}

// inheritsNetwork reports whether a process has CAP_NET_ADMIN also for the programs that it runs, as it is if who started it gave it
// that capability, and is not if the file of its program did.
func inheritsNetwork(pid int) (bool, error) {
	sets, err := capabilities(pid)
	return sets.Inheritable&(1<<unix.CAP_NET_ADMIN) != 0, err
}

// capabilities returns the first 32 capabilities of a process.
func capabilities(pid int) (unix.CapUserData, error) {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3, Pid: int32(pid)} //nolint:gosec // process IDs fit
	var sets [2]unix.CapUserData                                                            // the version has two words
	err := unix.Capget(&header, &sets[0])
	return sets[0], err
}
