package rtnl

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// Subscription receives the kernel's notifications. Its methods may be called by
// one goroutine at a time, except for Wait and Close.
type Subscription struct{ socket *socket }

// Subscribe subscribes to groups of rtnetlink, as unix.RTNLGRP_LINK, in the
// network namespace of the process.
func Subscribe(groups ...uint) (*Subscription, error) { return subscribe(unix.NETLINK_ROUTE, groups) }

func subscribe(protocol int, groups []uint) (*Subscription, error) {
	s, err := openSocket(protocol, groups...)
	if err != nil {
		return nil, err
	}
	return &Subscription{s}, nil
}

// Close ends the subscription, and a Wait.
func (s *Subscription) Close() { s.socket.close() }

// Wait returns when there is something to receive, or an error after Close.
func (s *Subscription) Wait() error {
	return s.socket.raw.Read(func(fd uintptr) bool { return readable(int(fd)) })
}

func readable(fd int) bool {
	poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	n, err := unix.Poll(poll, 0)
	return n > 0 || err != nil
}

// Drain calls each with the pending notifications, without waiting. Their
// data are valid until it returns. An error that matches ENOBUFS means that
// notifications were lost; the subscription goes on.
func (s *Subscription) Drain(each func(syscall.NetlinkMessage)) error {
	for {
		b, err := s.socket.receiveNow()
		switch {
		case errors.Is(err, unix.EAGAIN):
			return nil
		case err != nil:
			return err
		}
		for m := range messages(b) {
			each(m)
		}
	}
}
