package route

import (
	"fmt"
	"net/netip"
)

// Family is a protocol family, named as in ip(8).
type Family string

// The families of routes.
const (
	Inet  Family = "inet"
	Inet6 Family = "inet6"
)

func familyOf(addr netip.Addr) Family {
	switch {
	case !addr.IsValid():
		return ""
	case addr.Is4():
		return Inet
	}
	return Inet6
}

// everything returns the prefix that contains all addresses of a family.
func (f Family) everything() netip.Prefix {
	if f == Inet6 {
		return netip.PrefixFrom(netip.IPv6Unspecified(), 0)
	}
	return netip.PrefixFrom(netip.IPv4Unspecified(), 0)
}

// Destination is the destination of a route: a prefix, or "default", whose family other
// fields determine. The zero value is no destination.
type Destination struct {
	prefix    netip.Prefix
	isDefault bool // a default route whose family is not known yet
}

// To returns the destination of a prefix; 0.0.0.0/0 is the IPv4 default, ::/0 the IPv6 default.
func To(prefix netip.Prefix) Destination { return Destination{prefix: prefix} }

// ParseDestination reads a prefix, a lone address or "default".
func ParseDestination(text string) (Destination, error) {
	if text == "default" {
		return Destination{isDefault: true}, nil
	}
	if prefix, err := netip.ParsePrefix(text); err == nil {
		return To(prefix), nil
	}
	if addr, err := netip.ParseAddr(text); err == nil && addr.Zone() == "" {
		return To(netip.PrefixFrom(addr, addr.BitLen())), nil
	}
	return Destination{}, fmt.Errorf("%q is not a destination, expected a prefix, as 10.10.0.0/16, or default", text)
}

// Prefix returns the prefix; it is invalid while the family of a default is not
// known.
func (d Destination) Prefix() netip.Prefix { return d.prefix }

// String returns the prefix or "default", or an empty string for the zero value.
func (d Destination) String() string {
	switch {
	case d.isDefault, d.prefix.IsValid() && d.prefix.Bits() == 0:
		return "default"
	case d.prefix.IsValid():
		return d.prefix.String()
	}
	return ""
}

// MarshalText implements encoding.TextMarshaler.
func (d Destination) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler. See [ParseDestination].
func (d *Destination) UnmarshalText(text []byte) (err error) {
	if len(text) == 0 {
		*d = Destination{}
		return nil
	}
	*d, err = ParseDestination(string(text))
	return err
}

// of returns the destination with its family set, if it had none.
func (d Destination) of(family Family) Destination {
	if d.isDefault && family != "" {
		return To(family.everything())
	}
	return d
}
