package main

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"syscall"
	"time"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// receiveBuffer is room for notifications while the machine is busy.
const receiveBuffer = 64 << 20

// routeNote is what the kernel tells of a route.
type routeNote struct {
	at          time.Time // when it was received
	gone        bool
	destination netip.Prefix
	gateway     netip.Addr
}

// watchRoutes has what the kernel tells of routes handled, one note after another,
// until it is stopped. That returns an error if notes were lost.
func watchRoutes(handle func(routeNote)) (stop func() error, err error) {
	s, err := nl.Subscribe(unix.NETLINK_ROUTE, unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV6_ROUTE)
	if err != nil {
		return nil, err
	}
	if s.SetReceiveBufferSize(receiveBuffer, true) != nil {
		if err := s.SetReceiveBufferSize(receiveBuffer, false); err != nil { // as much as an ordinary user gets
			s.Close()
			return nil, err
		}
	}
	ended := make(chan error, 1)
	go func() { ended <- receive(s, handle) }()
	return func() error {
		s.Close()
		return <-ended
	}, nil
}

func receive(s *nl.NetlinkSocket, handle func(routeNote)) (lost error) {
	for {
		messages, _, err := s.Receive()
		now := time.Now()
		if errors.Is(err, unix.ENOBUFS) {
			lost = errors.New("the kernel had more notifications than there was room for")
			continue
		}
		if err != nil {
			return lost // it was closed
		}
		for _, m := range messages {
			if note, ok := parseRouteNote(m); ok {
				note.at = now
				handle(note)
			}
		}
	}
}

// parseRouteNote returns what a message says of a route, but for when.
func parseRouteNote(m syscall.NetlinkMessage) (note routeNote, ok bool) {
	if m.Header.Type != unix.RTM_NEWROUTE && m.Header.Type != unix.RTM_DELROUTE || len(m.Data) < unix.SizeofRtMsg {
		return routeNote{}, false
	}
	family, bits := m.Data[0], int(m.Data[1])
	note = routeNote{gone: m.Header.Type == unix.RTM_DELROUTE, destination: netip.PrefixFrom(unspecified(family), bits)}
	for rest := m.Data[unix.SizeofRtMsg:]; len(rest) >= unix.SizeofRtAttr; {
		length := int(binary.NativeEndian.Uint16(rest))
		kind := binary.NativeEndian.Uint16(rest[2:])
		if length < unix.SizeofRtAttr || length > len(rest) {
			break
		}
		addr, _ := netip.AddrFromSlice(rest[unix.SizeofRtAttr:length])
		switch kind {
		case unix.RTA_DST:
			note.destination = netip.PrefixFrom(addr, bits)
		case unix.RTA_GATEWAY:
			note.gateway = addr
		}
		rest = rest[min((length+unix.RTA_ALIGNTO-1)&^(unix.RTA_ALIGNTO-1), len(rest)):]
	}
	return note, true
}

func unspecified(family byte) netip.Addr {
	if family == unix.AF_INET6 {
		return netip.IPv6Unspecified()
	}
	return netip.IPv4Unspecified()
}
