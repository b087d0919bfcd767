package process

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// Credentials returns the process that has connected to a unix socket or that listens on it, and its user. The process ID is 0
// if the process is not visible here, and may be of a later process: see Peer.
func Credentials(conn syscall.Conn) (*unix.Ucred, error) {
	var peer *unix.Ucred
	err := control(conn, func(fd int) (err error) {
		peer, err = unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
		return err
	})
	return peer, err
}

// Peer returns the process at the other end of a unix socket, if it still exists.
func Peer(conn syscall.Conn) (Process, error) {
	peer, err := Credentials(conn)
	if err != nil {
		return Process{}, err
	}
	p, err := Find(int(peer.Pid))
	if err != nil {
		return Process{}, err
	}
	return p, isPeer(conn, p.PID)
}

// isPeer returns an error if the process that has an ID now is a later one than the peer. It cannot tell before Linux 6.5.
func isPeer(conn syscall.Conn, pid int) error {
	var pidfd int
	err := control(conn, func(fd int) (err error) {
		pidfd, err = unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PEERPIDFD)
		return err
	})
	if errors.Is(err, unix.ENOPROTOOPT) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(pidfd) }() // nothing was written
	info, err := os.ReadFile("/proc/self/fdinfo/" + strconv.Itoa(pidfd))
	if err != nil {
		return err
	}
	if id, _ := Field(string(info), "Pid"); id != strconv.Itoa(pid) {
		return fmt.Errorf("process %d has ended, and another one has its ID", pid)
	}
	return nil
}

// control runs f with the descriptor of a connection.
func control(conn syscall.Conn, f func(fd int) error) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) { failed = f(int(fd)) }) //nolint:gosec // a descriptor fits
	return errors.Join(err, failed)
}
