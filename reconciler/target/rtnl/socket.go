package rtnl

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// receiveBuffer is the number of bytes of answers and notifications that the kernel may
// buffer for a socket, if it lets us choose: some ten thousand messages.
const receiveBuffer = 64 << 20

// largestMessage is more than the kernel puts into one answer.
const largestMessage = 64 << 10

// socket is a netlink socket of the network namespace of the thread that opened
// it. One goroutine at a time may send, and one may receive.
type socket struct {
	file *os.File
	raw  syscall.RawConn
	buf  []byte // what was received last

	sendBuffer int // its size, once enlarge has looked
}

// openSocket opens a socket of a protocol, as unix.NETLINK_ROUTE.
func openSocket(protocol int, groups ...uint) (*socket, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, protocol)
	if err != nil {
		return nil, fmt.Errorf("open a netlink socket: %w", err)
	}
	s := &socket{file: os.NewFile(uintptr(fd), "netlink"), buf: make([]byte, largestMessage)}
	if err := errors.Join(setUp(fd, groups), s.connect()); err != nil {
		return nil, fmt.Errorf("set up a netlink socket: %w", errors.Join(err, s.file.Close()))
	}
	return s, nil
}

func setUp(fd int, groups []uint) error {
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, receiveBuffer); err != nil {
		// Only root of the machine may exceed the limit.
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, receiveBuffer); err != nil {
			return err
		}
	}
	for _, option := range []int{unix.NETLINK_EXT_ACK, unix.NETLINK_CAP_ACK, unix.NETLINK_GET_STRICT_CHK} {
		if err := unix.SetsockoptInt(fd, unix.SOL_NETLINK, option, 1); err != nil {
			return err
		}
	}
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	for _, group := range groups {
		if err := unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_ADD_MEMBERSHIP, int(group)); err != nil {
			return err
		}
	}
	return nil
}

func (s *socket) connect() (err error) {
	s.raw, err = s.file.SyscallConn()
	return err
}

func (s *socket) close() { _ = s.file.Close() } // nothing is written that could be lost

// send hands b to the kernel, which has processed it on return.
func (s *socket) send(b []byte) error {
	var failure error
	err := s.raw.Write(func(fd uintptr) bool {
		failure = unix.Sendto(int(fd), b, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
		return !errors.Is(failure, unix.EAGAIN)
	})
	return errors.Join(err, failure)
}

// receive waits for data from the kernel. The data is valid until the next call.
func (s *socket) receive() (b []byte, err error) {
	waitErr := s.raw.Read(func(uintptr) bool {
		b, err = s.receiveNow()
		return !errors.Is(err, unix.EAGAIN)
	})
	if waitErr != nil {
		return nil, waitErr
	}
	return b, err
}

// receiveNow is like receive, but does not wait: it fails with EAGAIN if there is no message.
// It returns no data if the message was not sent by the kernel.
func (s *socket) receiveNow() (b []byte, err error) {
	control := func(fd uintptr) {
		var n int
		var from unix.Sockaddr
		if n, from, err = unix.Recvfrom(int(fd), s.buf, unix.MSG_DONTWAIT); err != nil {
			return
		}
		if sender, ok := from.(*unix.SockaddrNetlink); ok && sender.Pid == 0 {
			b = s.buf[:n]
		}
	}
	if closed := s.raw.Control(control); closed != nil {
		return nil, closed
	}
	return b, err
}
