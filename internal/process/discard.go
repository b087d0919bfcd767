package process

import (
	"io"
	"syscall"

	"golang.org/x/sys/unix"
)

// Discard closes a connection to a process of another user, in a goroutine of its own. With it the kernel closes what the other process has
// sent along and nobody has received, and that takes as long as the other process wants: a TCP connection may linger.
func Discard(conn io.Closer) {
	go func() { _ = conn.Close() }() // nothing was exchanged
}

// RefuseFiles is a Control function for [net.Dialer] and [net.ListenConfig]: the kernel refuses what other processes send along on a unix
// socket, if it can do that (Linux 6.16).
func RefuseFiles(_, _ string, raw syscall.RawConn) error {
	return raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PASSRIGHTS, 0) // Discard is for older ones
	})
}
