package nft

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Priority is the priority of a base chain: a number, or one of the names that nft(8) has
// for some numbers. The zero value is no priority.
type Priority struct {
	value int32
	given bool
}

// PriorityOf returns the priority with a number.
func PriorityOf(value int32) Priority { return Priority{value, true} }

// Value returns the number, and whether there is one.
func (p Priority) Value() (value int32, given bool) { return p.value, p.given }

var priorities = map[string]int32{
	"raw": -300, "mangle": -150, "dstnat": -100, "filter": 0, "security": 50, "srcnat": 100,
}

// String returns the name, else the number.
func (p Priority) String() string {
	if !p.given {
		return ""
	}
	for name, value := range priorities {
		if value == p.value {
			return name
		}
	}
	return strconv.FormatInt(int64(p.value), 10)
}

// MarshalText implements encoding.TextMarshaler.
func (p Priority) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (p *Priority) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*p = Priority{}
		return nil
	}
	if value, ok := priorities[string(text)]; ok {
		*p = PriorityOf(value)
		return nil
	}
	value, err := strconv.ParseInt(string(text), 10, 32)
	if err != nil {
		return fmt.Errorf("%q is no priority, expected a number or one of raw, mangle, dstnat, filter, security, srcnat", text)
	}
	*p = PriorityOf(int32(value))
	return nil
}

// Protocol is the number of a transport protocol. The zero value is no protocol. Its text is
// the name of a common protocol, else the number.
type Protocol uint8

var protocols = map[Protocol]string{
	unix.IPPROTO_TCP: "tcp", unix.IPPROTO_UDP: "udp", unix.IPPROTO_ICMP: "icmp", unix.IPPROTO_ICMPV6: "icmpv6",
}

// String returns the name, else the number.
func (p Protocol) String() string {
	if name, ok := protocols[p]; ok {
		return name
	}
	return strconv.Itoa(int(p))
}

// MarshalText implements encoding.TextMarshaler.
func (p Protocol) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (p *Protocol) UnmarshalText(text []byte) error {
	for number, name := range protocols {
		if name == string(text) {
			*p = number
			return nil
		}
	}
	number, err := strconv.ParseUint(string(text), 10, 8)
	if err != nil || number == 0 {
		return fmt.Errorf("%q is no protocol, expected tcp, udp, icmp, icmpv6 or a number from 1 to 255", text)
	}
	*p = Protocol(number)
	return nil
}

// hasPorts reports whether headers of the protocol begin with two ports.
func (p Protocol) hasPorts() bool {
	switch p {
	case unix.IPPROTO_TCP, unix.IPPROTO_UDP, unix.IPPROTO_DCCP, unix.IPPROTO_SCTP, unix.IPPROTO_UDPLITE:
		return true
	}
	return false
}

// Addresses is an address, a prefix, or the name of a set with a leading @. The zero value
// is any address.
type Addresses struct {
	Prefix netip.Prefix
	Set    string
}

// String returns the text form. A prefix with a single address is written as the address.
func (a Addresses) String() string {
	switch {
	case a.Set != "":
		return "@" + a.Set
	case a.Prefix.IsSingleIP():
		return a.Prefix.Addr().String()
	case a.Prefix.IsValid():
		return a.Prefix.String()
	}
	return ""
}

// MarshalText implements encoding.TextMarshaler.
func (a Addresses) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (a *Addresses) UnmarshalText(text []byte) (err error) {
	*a = Addresses{}
	if len(text) == 0 {
		return nil
	}
	if set, ok := strings.CutPrefix(string(text), "@"); ok {
		a.Set = set
		return checkName(set)
	}
	a.Prefix, err = parsePrefix(string(text))
	return err
}

// parsePrefix reads a prefix or an address.
func parsePrefix(text string) (netip.Prefix, error) {
	if addr, err := netip.ParseAddr(text); err == nil {
		return netip.PrefixFrom(addr, addr.BitLen()), checkAddr(addr)
	}
	prefix, err := netip.ParsePrefix(text)
	switch {
	case err != nil:
		return prefix, fmt.Errorf("%q is no address, expected one such as 192.0.2.1, a prefix such as 10.0.0.0/8, or @ and the name of a set", text)
	case prefix != prefix.Masked():
		return prefix, fmt.Errorf("%s has bits set beyond its prefix length, expected %s", prefix, prefix.Masked())
	}
	return prefix, checkAddr(prefix.Addr())
}

func checkAddr(addr netip.Addr) error {
	switch {
	case addr.Zone() != "":
		return fmt.Errorf("%s has a zone, expected only the address", addr)
	case addr.Is4In6():
		return fmt.Errorf("%s is an IPv4 address written as IPv6, expected %s", addr, addr.Unmap())
	}
	return nil
}

// Ports is a port, a range of ports, or the name of a set with a leading @. The zero value
// is any port.
type Ports struct {
	First, Last uint16
	Set         string
	given       bool // distinguishes port 0 from no port
}

// PortsOf returns a range of ports.
func PortsOf(first, last uint16) Ports { return Ports{First: first, Last: last, given: true} }

// String returns the text form.
func (p Ports) String() string {
	switch {
	case p.Set != "":
		return "@" + p.Set
	case !p.given:
		return ""
	case p.First == p.Last:
		return strconv.Itoa(int(p.First))
	}
	return fmt.Sprintf("%d-%d", p.First, p.Last)
}

// MarshalText implements encoding.TextMarshaler.
func (p Ports) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (p *Ports) UnmarshalText(text []byte) (err error) {
	*p = Ports{}
	if len(text) == 0 {
		return nil
	}
	if set, ok := strings.CutPrefix(string(text), "@"); ok {
		p.Set = set
		return checkName(set)
	}
	p.First, p.Last, err = parsePorts(string(text))
	p.given = err == nil
	return err
}

// parsePorts reads a port or a range.
func parsePorts(text string) (first, last uint16, err error) {
	from, to, isRange := strings.Cut(text, "-")
	if !isRange {
		to = from
	}
	first, firstErr := parsePort(from)
	last, lastErr := parsePort(to)
	if err := cmp.Or(firstErr, lastErr); err != nil {
		return 0, 0, err
	}
	if first > last {
		return 0, 0, fmt.Errorf("the range %s ends before it begins", text)
	}
	return first, last, nil
}

func parsePort(text string) (uint16, error) {
	number, err := strconv.ParseUint(text, 10, 16)
	if err != nil || len(text) > 1 && text[0] == '0' {
		return 0, fmt.Errorf("%q is no port, expected a number from 0 to 65535, a range such as 1000-2000, or @ and the name of a set", text)
	}
	return uint16(number), nil
}

// Mark is the mark of a packet, of which only the bits of a mask may count. The
// zero value is any mark.
type Mark struct {
	value, mask uint32 // a mask of 0 means that no mark is given
}

// MarkOf returns a mark of which only the bits of mask count. The mask must not be 0.
func MarkOf(value, mask uint32) Mark { return Mark{value, mask} }

const allBits = ^uint32(0)

// String returns a hexadecimal number, with the mask if not all bits count.
func (m Mark) String() string {
	switch m.mask {
	case 0:
		return ""
	case allBits:
		return fmt.Sprintf("0x%x", m.value)
	}
	return fmt.Sprintf("0x%x/0x%x", m.value, m.mask)
}

// MarshalText implements encoding.TextMarshaler.
func (m Mark) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (m *Mark) UnmarshalText(text []byte) error {
	*m = Mark{}
	if len(text) == 0 {
		return nil
	}
	value, mask, masked := strings.Cut(string(text), "/")
	v, err := parseBits(value)
	bits := uint64(allBits)
	if err == nil && masked {
		bits, err = parseBits(mask)
	}
	switch {
	case err != nil:
		return fmt.Errorf("%q is no mark, expected a number of at most 32 bits, as 0x10, or one with a mask, as 0x10/0xff", text)
	case bits == 0:
		return fmt.Errorf("the mask of %q is 0, so that no bit of the mark counts", text)
	case v&^bits != 0:
		return fmt.Errorf("%q has bits set that its mask does not have: no packet would match", text)
	}
	*m = Mark{uint32(v), uint32(bits)}
	return nil
}

// parseBits parses a decimal number, or a hexadecimal number with the prefix 0x. Any other
// leading 0 is an error, because some read such numbers as octal and others as decimal.
func parseBits(text string) (uint64, error) {
	if digits, hexadecimal := strings.CutPrefix(text, "0x"); hexadecimal {
		return strconv.ParseUint(digits, 16, 32)
	}
	if len(text) > 1 && text[0] == '0' {
		return 0, strconv.ErrSyntax
	}
	return strconv.ParseUint(text, 10, 32)
}

// Translation is the address, and optionally the port, that replaces another one. The zero
// value is no translation.
type Translation struct {
	Addr netip.Addr
	Port uint16 // 0 leaves the port unchanged
}

// String returns the address, with the port as in 192.0.2.1:80 or [2001:db8::1]:80.
func (t Translation) String() string {
	switch {
	case !t.Addr.IsValid():
		return ""
	case t.Port == 0:
		return t.Addr.String()
	}
	return netip.AddrPortFrom(t.Addr, t.Port).String()
}

// MarshalText implements encoding.TextMarshaler.
func (t Translation) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (t *Translation) UnmarshalText(text []byte) error {
	*t = Translation{}
	if len(text) == 0 {
		return nil
	}
	addr, addrErr := netip.ParseAddr(string(text))
	both, err := netip.ParseAddrPort(string(text))
	switch {
	case addrErr == nil:
		both = netip.AddrPortFrom(addr, 0)
	case err != nil:
		return fmt.Errorf("%q is no address, expected one such as 192.0.2.1, with a port 192.0.2.1:80 or [2001:db8::1]:80", text)
	case both.Port() == 0:
		return fmt.Errorf("the port of %q is 0, expected one from 1 to 65535, or only the address", text)
	}
	if err := checkAddr(both.Addr()); err != nil {
		return err
	}
	if both.Addr().IsUnspecified() {
		return errors.New("it is not the address of a host, expected one such as 192.0.2.1")
	}
	*t = Translation{both.Addr(), both.Port()}
	return nil
}
