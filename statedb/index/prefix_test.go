package index_test

import (
	"bytes"
	"net/netip"
	"testing"

	"pgregory.net/rapid"

	"github.com/statehive/statehive/statedb/index"
)

func TestNetworksHaveOneKeyEach(t *testing.T) {
	codec := index.Prefixes()
	for text, want := range map[string]string{
		"10.0.0.5/8":           "10.0.0.0/8",
		"::ffff:10.0.0.5/104":  "10.0.0.0/8",
		"::ffff:0:0/96":        "0.0.0.0/0",
		"::ffff:10.0.0.0/95":   "::fffe:0:0/95",
		"2001:db8::1/32":       "2001:db8::/32",
		"::ffff:10.0.0.5/128":  "10.0.0.5/32",
		"::/0":                 "::/0",
		"255.255.255.255/32":   "255.255.255.255/32",
		"fe80::2:3:4:5/64":     "fe80::/64",
		"0.255.0.0/7":          "0.0.0.0/7",
		"2001:db8::8000:1/113": "2001:db8::8000:0/113",
	} {
		prefix, canonical := netip.MustParsePrefix(text), netip.MustParsePrefix(want)
		if got := codec.Format(prefix); got != want {
			t.Errorf("%s has the text %q, expected %q", text, got, want)
		}
		if !bytes.Equal(codec.Append(nil, prefix), codec.Append(nil, canonical)) {
			t.Errorf("%s and %s are two keys", text, want)
		}
	}
}

func TestNetworksAreOrderedAndNotPrefixesOfEachOther(t *testing.T) {
	codec := index.Prefixes()
	canonical := func(p netip.Prefix) netip.Prefix {
		if p.Addr().Is4In6() && p.Bits() >= 96 {
			p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
		}
		return p.Masked() // the zero prefix if p is invalid
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b := prefixes().Draw(t, "a"), prefixes().Draw(t, "b")
		encodedA, encodedB := codec.Append(nil, a), codec.Append(nil, b)
		if got, want := bytes.Compare(encodedA, encodedB), canonical(a).Compare(canonical(b)); got != want {
			t.Fatalf("%v and %v compare as %d, encoded as %x and %x %d", a, b, want, encodedA, encodedB, got)
		}
		if bytes.HasPrefix(encodedA, encodedB) && !bytes.Equal(encodedA, encodedB) {
			t.Fatalf("%x begins with %x", encodedA, encodedB)
		}
		back, err := codec.Parse(codec.Format(a))
		if err != nil || !bytes.Equal(codec.Append(nil, back), encodedA) {
			t.Fatalf("%v reads back as %v, %v", a, back, err)
		}
	})
}
