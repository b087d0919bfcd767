// Package rtnl is how the built-in targets speak rtnetlink: one socket for many
// requests, errors with the kernel's own text, listings that are whole.
//
// It works on the network namespace of the thread that calls [Dial], which must
// be that of the whole process.
package rtnl

import (
	"errors"
	"fmt"
	"slices"
	"syscall"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Conn is a connection to the kernel. It is safe for concurrent use; requests
// take turns.
type Conn struct {
	handle *netlink.Handle
	// lists is checked strictly: then the kernel applies the filters of listings
	// itself. It would refuse some other requests as the library makes them.
	lists *netlink.Handle
}

// Dial connects.
func Dial() (*Conn, error) {
	c := &Conn{}
	for _, handle := range []**netlink.Handle{&c.handle, &c.lists} {
		opened, err := netlink.NewHandle(unix.NETLINK_ROUTE)
		if err != nil {
			c.Close()
			return nil, fmt.Errorf("open a netlink socket: %w", err)
		}
		*handle = opened
	}
	if err := c.lists.SetStrictCheck(true); err != nil {
		c.Close()
		return nil, fmt.Errorf("set up a netlink socket: %w", err)
	}
	return c, nil
}

// Close closes the connection; nothing may be called after it.
func (c *Conn) Close() {
	for _, handle := range []*netlink.Handle{c.handle, c.lists} {
		if handle != nil {
			handle.Close()
		}
	}
}

// Do makes a request. An error of the kernel comes back as an [*Error]. To learn
// its text, which the library gives to fresh sockets only, the request is made a
// second time, unless its error number is expected: then the caller does not
// need the text.
func (c *Conn) Do(request func(*netlink.Handle) error, expected ...syscall.Errno) error {
	err := request(c.handle)
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		return err
	}
	if nl.EnableErrorMessageReporting && !slices.Contains(expected, errno) {
		err = request(&netlink.Handle{})
	}
	return kernelError(err)
}

// maxListings bounds how often an interrupted listing is begun again.
const maxListings = 10

// List makes a request for a listing. Listings that were interrupted by a change
// are not whole: they are made again.
func List[T any](c *Conn, request func(*netlink.Handle) ([]T, error)) ([]T, error) {
	var items []T
	var err error
	for range maxListings {
		items, err = request(c.lists)
		if !errors.Is(err, netlink.ErrDumpInterrupted) {
			break
		}
	}
	if err != nil {
		return nil, kernelError(err)
	}
	return items, nil
}
