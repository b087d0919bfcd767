package rtnl

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"unicode"

	"golang.org/x/sys/unix"
)

// Link is a link as the kernel describes it.
type Link struct {
	Index  int
	Name   string
	Others string // its alternative names, separated by spaces
	Type   string // such as "bridge"; "tap" is distinguished from "tun"; "device" if the kernel gives none
	Up     bool
	// Running is whether the link is operational: up, and with a carrier.
	Running bool
	Flags   uint32 // all of them, as unix.IFF_LOOPBACK
	MTU     uint32
	MAC     string
	Alias   string
	Master  int // the index of the link that this one is a port of; 0 if it is not a port
	// Peer is the index of the other end of a veth; 0 if there is none, or if it is
	// in another network namespace.
	Peer int
}

// DecodeLink reads a notification or an answer about a link. It returns false for a
// message that is not about the link itself but, for example, about its role as a port.
func DecodeLink(m syscall.NetlinkMessage) (Link, bool) {
	if len(m.Data) < unix.SizeofIfInfomsg || m.Data[0] != unix.AF_UNSPEC {
		return Link{}, false
	}
	l := Link{Index: int(int32(Uint32(m.Data[4:]))), Type: "device", Flags: Uint32(m.Data[8:])}
	l.Up, l.Running = l.Flags&unix.IFF_UP != 0, l.Flags&unix.IFF_RUNNING != 0
	whole, elsewhere := false, false
	for kind, value := range Attributes(m.Data[unix.SizeofIfInfomsg:]) {
		switch kind {
		case unix.IFLA_IFNAME:
			l.Name = String(value)
		case unix.IFLA_PROP_LIST:
			l.Others = namesIn(value)
		case unix.IFLA_LINKINFO:
			l.Type = typeIn(value)
		case unix.IFLA_MTU:
			l.MTU, whole = Uint32(value), true
		case unix.IFLA_ADDRESS:
			l.MAC = net.HardwareAddr(value).String()
		case unix.IFLA_IFALIAS:
			l.Alias = String(value)
		case unix.IFLA_MASTER:
			l.Master = int(Uint32(value))
		case unix.IFLA_LINK:
			l.Peer = int(Uint32(value))
		case unix.IFLA_LINK_NETNSID:
			elsewhere = true
		}
	}
	if elsewhere || l.Type != "veth" {
		l.Peer = 0
	}
	return l, whole && l.Name != ""
}

func namesIn(properties []byte) string {
	var names []string
	for kind, value := range Attributes(properties) {
		if kind == unix.IFLA_ALT_IFNAME {
			names = append(names, String(value))
		}
	}
	return strings.Join(names, " ")
}

func typeIn(info []byte) string {
	name, isTap := "device", false
	for kind, value := range Attributes(info) {
		switch kind {
		case unix.IFLA_INFO_KIND:
			name = String(value)
		case unix.IFLA_INFO_DATA:
			isTap = isTapIn(value)
		}
	}
	if name == "tun" && isTap {
		return "tap"
	}
	return name
}

// isTapIn reports whether the data of a tun says that it carries frames, not packets.
func isTapIn(data []byte) bool {
	for kind, value := range Attributes(data) {
		if kind == unix.IFLA_TUN_TYPE {
			return len(value) > 0 && value[0] == unix.IFF_TAP
		}
	}
	return false
}

// LinkRequest begins a request about the link with an index. If the index is 0, the request is
// about a new link or one that the attributes name. The flags in change, such as unix.IFF_UP,
// are set to their values in up.
func LinkRequest(messageType, flags uint16, index int, up, change uint32) Request {
	r := Request{Type: messageType, Flags: flags, Data: make([]byte, unix.SizeofIfInfomsg, 96)}
	r.PutUint32(4, uint32(index))
	r.PutUint32(8, up)
	r.PutUint32(12, change)
	return r
}

func (r *Request) withoutStatistics() {
	const skip = 1 << 3 // RTEXT_FILTER_SKIP_STATS
	r.AddUint32(unix.IFLA_EXT_MASK, skip)
}

// Links lists all links.
func (c *Conn) Links(ctx context.Context) ([]Link, error) {
	request := LinkRequest(unix.RTM_GETLINK, 0, 0, 0, 0)
	request.withoutStatistics()
	links, err := Dump(ctx, c, request, DecodeLink)
	if err != nil {
		return nil, fmt.Errorf("list links: %w", err)
	}
	return links, nil
}

// maxAlternativeName is the kernel's ALTIFNAMSIZ without the final zero byte.
const maxAlternativeName = 127

// CheckName returns an error unless name can be a name of a link, including an alternative name, which may be longer.
func CheckName(name string) error {
	switch {
	case name == "":
		return errors.New("it is missing, expected the name of a link, as eth0")
	case len(name) > maxAlternativeName:
		return fmt.Errorf("%q has %d bytes, expected the name of a link, of at most %d", name, len(name), maxAlternativeName)
	case strings.ContainsFunc(name, func(r rune) bool { return r == '/' || unicode.IsSpace(r) || unicode.IsControl(r) }):
		return fmt.Errorf("%q is not the name of a link", name)
	}
	return nil
}

// LinkByName finds a link by any of its names. The error matches syscall.ENODEV if
// there is none.
func (c *Conn) LinkByName(ctx context.Context, name string) (Link, error) {
	request := LinkRequest(unix.RTM_GETLINK, 0, 0, 0, 0)
	attribute := uint16(unix.IFLA_IFNAME)
	if len(name) >= unix.IFNAMSIZ {
		attribute = unix.IFLA_ALT_IFNAME
	}
	request.AddString(attribute, name)
	return c.link(ctx, name, request)
}

// LinkByIndex finds a link. The error matches syscall.ENODEV if there is none.
func (c *Conn) LinkByIndex(ctx context.Context, index int) (Link, error) {
	return c.link(ctx, fmt.Sprintf("#%d", index), LinkRequest(unix.RTM_GETLINK, 0, index, 0, 0))
}

func (c *Conn) link(ctx context.Context, name string, request Request) (link Link, err error) {
	request.withoutStatistics()
	err = c.Get(ctx, request, func(m syscall.NetlinkMessage) { link, _ = DecodeLink(m) })
	switch {
	case errors.Is(err, syscall.ENODEV), err == nil && link.Index == 0:
		return Link{}, &NoLinkError{name}
	case err != nil:
		return Link{}, fmt.Errorf("look up device %s: %w", name, err)
	}
	return link, nil
}

// LinkName returns the name of a link for messages, or its index if it is gone.
func (c *Conn) LinkName(ctx context.Context, index int) string {
	link, err := c.LinkByIndex(ctx, index)
	if err != nil {
		return fmt.Sprintf("#%d", index)
	}
	return link.Name
}

// Indexes finds the indexes of devices, each once.
type Indexes struct {
	Conn *Conn
	// Allowed, if not nil, returns an error for devices that must not be used.
	Allowed func(ctx context.Context, name string, index int) error
	known   map[string]foundLink
}

type foundLink struct {
	link Link
	err  error
}

// Of returns the index of the device with a name. The error matches
// syscall.ENODEV if there is none.
func (i *Indexes) Of(ctx context.Context, name string) (int, error) {
	link, err := i.Link(ctx, name)
	return link.Index, err
}

// Link is like Of, but returns the device itself.
func (i *Indexes) Link(ctx context.Context, name string) (Link, error) {
	found, ok := i.known[name]
	if !ok {
		link, err := i.Conn.LinkByName(ctx, name)
		if err == nil && i.Allowed != nil {
			err = i.Allowed(ctx, name, link.Index)
		}
		found = foundLink{link, err}
		if i.known == nil {
			i.known = map[string]foundLink{}
		}
		i.known[name] = found
	}
	return found.link, found.err
}
