package file

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// openForWriting reports whether somebody has a file open for writing: the kernel gives
// no read lease on it then. The lease is given back at once, because whoever opens the
// file for writing waits for that. False also when it is not known: on some file systems,
// and for files of others, unless the process has CAP_LEASE.
func openForWriting(f *os.File) (writing bool) {
	conn, err := f.SyscallConn()
	if err != nil {
		return false
	}
	err = conn.Control(func(fd uintptr) {
		_, err := unix.FcntlInt(fd, unix.F_SETLEASE, unix.F_RDLCK)
		if err == nil {
			_, _ = unix.FcntlInt(fd, unix.F_SETLEASE, unix.F_UNLCK) // closing the file would do it, too
		}
		writing = errors.Is(err, unix.EAGAIN)
	})
	return writing && err == nil
}
