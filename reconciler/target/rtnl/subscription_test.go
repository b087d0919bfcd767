package rtnl

import (
	"errors"
	"fmt"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/statehive/statehive/reconciler/target/internal/nstest"
)

func TestAnOverrunSubscriptionSaysSoAndGoesOn(t *testing.T) {
	nstest.Veth(t, "e0", "e1")
	s, err := Subscribe(unix.RTNLGRP_LINK)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	var small error
	closed := s.socket.raw.Control(func(fd uintptr) {
		small = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, 1) // the kernel takes the least
	})
	if err := errors.Join(closed, small); err != nil {
		t.Fatal(err)
	}
	received := 0
	count := func(syscall.NetlinkMessage) { received++ }
	const changes = 50
	for i := range changes {
		nstest.IP(t, "link", "set", "e0", "mtu", fmt.Sprint(1300+i))
	}
	if err := s.Drain(count); !errors.Is(err, syscall.ENOBUFS) {
		t.Fatalf("error %v after %d changes, expected that some were lost", err, changes)
	}
	if err := s.Drain(count); err != nil || received >= changes {
		t.Fatalf("%d notifications of %d changes, %v", received, changes, err)
	}
	received = 0
	nstest.IP(t, "link", "set", "e0", "mtu", "1400")
	if err := s.Wait(); err != nil {
		t.Fatal(err)
	}
	if err := s.Drain(count); err != nil || received == 0 {
		t.Errorf("%d notifications after the overrun, %v", received, err)
	}
}
