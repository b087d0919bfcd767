package rtnl

import (
	"strconv"

	"golang.org/x/sys/unix"
)

// Protocol is the number by which routes, rules and neighbors show who made them. Its
// text is the name that ip(8) uses, or the number.
type Protocol uint8

// Ours marks the objects that we create.
const Ours Protocol = 79

var protocolNames = map[Protocol]string{
	unix.RTPROT_REDIRECT: "redirect", unix.RTPROT_KERNEL: "kernel", unix.RTPROT_BOOT: "boot",
	unix.RTPROT_STATIC: "static", unix.RTPROT_RA: "ra", unix.RTPROT_DHCP: "dhcp", unix.RTPROT_BIRD: "bird",
	unix.RTPROT_ZEBRA: "zebra", unix.RTPROT_BGP: "bgp", unix.RTPROT_OSPF: "ospf", unix.RTPROT_ISIS: "isis",
	unix.RTPROT_RIP: "rip", unix.RTPROT_EIGRP: "eigrp", unix.RTPROT_BABEL: "babel",
}

// String returns the name, or the number.
func (p Protocol) String() string {
	if name, ok := protocolNames[p]; ok {
		return name
	}
	return strconv.Itoa(int(p))
}

// MarshalText implements encoding.TextMarshaler.
func (p Protocol) MarshalText() ([]byte, error) { return []byte(p.String()), nil }
