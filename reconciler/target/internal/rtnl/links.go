package rtnl

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/vishvananda/netlink"
)

// LinkByName finds a link. The error matches syscall.ENODEV if there is none.
func (c *Conn) LinkByName(name string) (netlink.Link, error) {
	return c.link(name, func() (netlink.Link, error) { return c.handle.LinkByName(name) })
}

// LinkByIndex finds a link. The error matches syscall.ENODEV if there is none.
func (c *Conn) LinkByIndex(index int) (netlink.Link, error) {
	return c.link(fmt.Sprintf("#%d", index), func() (netlink.Link, error) { return c.handle.LinkByIndex(index) })
}

func (c *Conn) link(name string, find func() (netlink.Link, error)) (netlink.Link, error) {
	link, err := find()
	var notFound netlink.LinkNotFoundError
	switch {
	case err == nil:
		return link, nil
	case errors.As(err, &notFound), errors.Is(err, syscall.ENODEV):
		return nil, &NoLinkError{name}
	}
	return nil, fmt.Errorf("look up device %s: %w", name, kernelError(err))
}

// LinkName returns the name of a link for messages and listings; one that is
// gone has its number.
func (c *Conn) LinkName(index int) string {
	name, _ := c.LinkNames(index)
	return name
}

// LinkNames is LinkName with the other names by which [Conn.LinkByName] finds it.
func (c *Conn) LinkNames(index int) (name string, others []string) {
	link, err := c.LinkByIndex(index)
	if err != nil {
		return fmt.Sprintf("#%d", index), nil
	}
	return link.Attrs().Name, link.Attrs().AltNames
}
