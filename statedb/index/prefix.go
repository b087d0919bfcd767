package index

import (
	"net/netip"
	"reflect"
	"unsafe"
)

// Prefixes returns the codec of address prefixes as networks: host bits are ignored,
// so that 10.0.0.5/8 is the same as 10.0.0.0/8, and an IPv4-mapped IPv6 prefix with at
// least 96 bits is the same as the IPv4 prefix that it represents. The codec that [For]
// returns distinguishes them.
//
// A key consists of the number of address bytes (4 or 16), the masked address and the
// length, which sorts a network before the networks inside it. All invalid prefixes have
// the same key, a single zero byte, which sorts before all others.
func Prefixes() Codec[netip.Prefix] {
	return Codec[netip.Prefix]{
		append:     appendNetwork,
		prefixFree: true,
		text:       textCodec{parse: parseUnmarshaler, format: formatNetwork},
	}
}

func appendNetwork(buf []byte, p unsafe.Pointer) []byte {
	prefix := network(*(*netip.Prefix)(p))
	if !prefix.IsValid() {
		return append(buf, 0)
	}
	a := prefix.Addr()
	if a.Is4() {
		b := a.As4()
		buf = append(append(buf, byte(len(b))), b[:]...)
	} else {
		b := a.As16()
		buf = append(append(buf, byte(len(b))), b[:]...)
	}
	return append(buf, byte(prefix.Bits()))
}

// network returns the canonical prefix of all prefixes with the same key.
func network(p netip.Prefix) netip.Prefix {
	const mapped = 96
	if a := p.Addr(); a.Is4In6() && p.Bits() >= mapped {
		p = netip.PrefixFrom(a.Unmap(), p.Bits()-mapped)
	}
	return p.Masked()
}

func formatNetwork(v reflect.Value) string {
	prefix, ok := reflect.TypeAssert[netip.Prefix](v)
	if !ok {
		return ""
	}
	prefix = network(prefix)
	return formatMarshaler(reflect.ValueOf(&prefix).Elem())
}
