package file

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// openForWriting reports whether somebody has a file open for writing, in which case the
// kernel grants no read lease. The lease is released immediately, because an open for
// writing waits for that. openForWriting also returns false if leases are unavailable: on
// some file systems, and for files of other users unless the process has CAP_LEASE.
func openForWriting(f *os.File) (writing bool) {
	conn, err := f.SyscallConn()
	if err != nil {
		return false
	}
	err = conn.Control(func(fd uintptr) {
		_, err := unix.FcntlInt(fd, unix.F_SETLEASE, unix.F_RDLCK)
		if err == nil {
			_, _ = unix.FcntlInt(fd, unix.F_SETLEASE, unix.F_UNLCK) // otherwise closing the file releases it
		}
		writing = errors.Is(err, unix.EAGAIN)
	})
	return writing && err == nil
}
