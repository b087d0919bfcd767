package agent

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// closeInherited closes what whoever started this process has left open by mistake, so that nobody has it who takes the
// agent over: all but the standard descriptors and those of files that settings are read from. Whatever came through the execution of the
// program is not closed by another one; everything that the program opens itself is.
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
			continue // it was that of the list, or was closed meanwhile
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

// isIn reports whether one of the paths is that of a descriptor.
func isIn(paths []ownPath, fd string) bool {
	return slices.ContainsFunc(paths, func(own ownPath) bool {
		return own.path == "/dev/fd/"+fd || own.path == "/proc/self/fd/"+fd
	})
}
