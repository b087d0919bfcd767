package agent

import (
	"log/slog"

	"golang.org/x/sys/unix"
)

// warnIfPowerless says at the start why every document is going to fail.
func warnIfPowerless(logger *slog.Logger) {
	capable, err := mayChangeNetwork()
	if err == nil && !capable {
		logger.Warn("This process may not change the network: the capability CAP_NET_ADMIN is missing. Run the agent as root, or try it with --sandbox",
			"user", unix.Geteuid())
	}
}

func mayChangeNetwork() (bool, error) {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData // the version has two words
	if err := unix.Capget(&header, &sets[0]); err != nil {
		return false, err
	}
	return sets[0].Effective&(1<<unix.CAP_NET_ADMIN) != 0, nil
}
