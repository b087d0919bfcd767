// Package index turns typed keys into bytes whose order is the order of the type.
//
// A [Codec] is determined once for each key type, when an index is declared. It is
// immutable and safe for concurrent use. The type alone defines the encoding:
//
//	bool                    false before true
//	int…, uint…             numerically, negative before positive
//	string, []byte          bytewise
//	[N]byte (UUIDs)         bytewise
//	netip.Addr              like Addr.Compare: invalid, IPv4, IPv6; the zone last
//	netip.Prefix            family, masked prefix, length, then the address; see also [Prefixes]
//	time.Time               by instant; the location is ignored
//	struct of these         field by field, in the order of declaration
//
// Types derived from these (type Name string) are encoded like the original type.
package index
