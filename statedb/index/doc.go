// Package index turns typed keys into bytes whose order is the order of the type.
//
// A [Codec] is found for a key type once, when an index is declared, and is
// immutable and safe for concurrent use from then on. Nobody encodes keys by
// hand: the type decides its bytes.
//
//	bool                    false before true
//	int…, uint…             numerically, negative before positive
//	string, []byte          bytewise
//	[N]byte (UUIDs)         bytewise
//	netip.Addr              as Addr.Compare: invalid, IPv4, IPv6; the zone last
//	netip.Prefix            family, masked prefix, length, then the address; see also [Prefixes]
//	time.Time               by instant; the location does not count
//	struct of these         field by field, in the order of declaration
//
// Types derived from these (type Name string) encode as what they derive from.
package index
