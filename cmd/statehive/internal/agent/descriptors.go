package agent

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// closeInherited closes descriptors that this process inherited by mistake, so that an attacker who takes over the agent does
// not get them. It spares the standard ones and those that settings are read from. Inherited descriptors lack the flag
// close-on-exec, which everything that this program opens itself has.
func closeInherited(settings []ownPath) error {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return fmt.Errorf("look for descriptors that the caller has left open: %w", err)
	}
	var errs []error
	for _, entry := range entries {
		fd, err := strconv.Atoi(entry.Name())
		if err != nil || fd <= unix.Stderr || isIn(settings, entry.Name()) {
			continue
		}
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		if errors.Is(err, unix.EBADF) {
			continue // ReadDir's own, or closed since
		}
		if err == nil && flags&unix.FD_CLOEXEC == 0 {
			err = unix.Close(fd)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("close descriptor %d, which the caller has left open: %w", fd, err))
		}
	}
	return errors.Join(errs...)
}

// isIn reports whether one of the paths refers to the descriptor.
func isIn(paths []ownPath, fd string) bool {
	return slices.ContainsFunc(paths, func(own ownPath) bool {
		return own.path == "/dev/fd/"+fd || own.path == "/proc/self/fd/"+fd
	})
}
