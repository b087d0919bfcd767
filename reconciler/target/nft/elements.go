package nft

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Element is an element of a set as written in a document: an address, a prefix, a range of
// addresses, a port or a range of ports.
type Element string

// UnmarshalText implements encoding.TextUnmarshaler.
func (e *Element) UnmarshalText(text []byte) error {
	*e = Element(text)
	return nil
}

// setType describes the keys of a set to the kernel: their length, and the number of their
// type in nft(8).
type setType struct{ number, bytes uint32 }

// setTypes are the types of sets that rows can have.
var setTypes = map[string]setType{IPv4Addr: {7, 4}, IPv6Addr: {8, 16}, InetService: {13, 2}}

// span is a range of keys in network byte order, both ends included.
type span struct{ first, last []byte }

// spans returns the keys of a set in order. If there is a range among them, none
// overlaps another or follows it without a gap.
func (s Set) spans() (spans []span, ranges bool, err error) {
	spans = make([]span, 0, len(s.Elements))
	for i, element := range s.Elements {
		one, err := s.span(string(element))
		if err != nil {
			return nil, false, &elementError{i, err}
		}
		spans = append(spans, one)
		ranges = ranges || !bytes.Equal(one.first, one.last)
	}
	slices.SortFunc(spans, func(a, b span) int { return bytes.Compare(a.first, b.first) })
	if !ranges {
		return slices.CompactFunc(spans, func(a, b span) bool { return bytes.Equal(a.first, b.first) }), false, nil
	}
	merged := spans[:1]
	for _, next := range spans[1:] {
		last := &merged[len(merged)-1]
		after, more := following(last.last)
		switch {
		case more && bytes.Compare(next.first, after) > 0:
			merged = append(merged, next)
		case bytes.Compare(next.last, last.last) > 0:
			last.last = next.last
		}
	}
	return merged, true, nil
}

// elementError is the error of one element.
type elementError struct {
	at  int
	err error
}

// Error implements error.
func (e *elementError) Error() string { return fmt.Sprintf("elements[%d]: %v", e.at, e.err) }

// Unwrap returns the error without the place.
func (e *elementError) Unwrap() error { return e.err }

func (s Set) span(text string) (span, error) {
	if s.Type == InetService {
		first, last, err := parsePorts(text)
		return span{[]byte{byte(first >> 8), byte(first)}, []byte{byte(last >> 8), byte(last)}}, err
	}
	first, last, err := addressRange(text)
	switch {
	case err != nil:
		return span{}, err
	case first.Is4() != (s.Type == IPv4Addr):
		return span{}, fmt.Errorf("%s is not of type %s", text, s.Type)
	}
	return span{first.AsSlice(), last.AsSlice()}, nil
}

// addressRange reads an address, a prefix, or a range such as 10.0.0.1-10.0.0.9.
func addressRange(text string) (first, last netip.Addr, err error) {
	from, to, isRange := strings.Cut(text, "-")
	if !isRange {
		prefix, err := parsePrefix(text)
		if err != nil {
			return first, last, err
		}
		return prefix.Addr(), lastOf(prefix), nil
	}
	first, firstErr := netip.ParseAddr(from)
	last, lastErr := netip.ParseAddr(to)
	switch {
	case firstErr != nil || lastErr != nil:
		return first, last, fmt.Errorf("%q is no range of addresses, expected one such as 10.0.0.1-10.0.0.9", text)
	case first.Is4() != last.Is4():
		return first, last, fmt.Errorf("the range %s begins and ends with addresses of different families", text)
	case last.Less(first):
		return first, last, fmt.Errorf("the range %s ends before it begins", text)
	}
	return first, last, errors.Join(checkAddr(first), checkAddr(last))
}

// lastOf returns the last address of a prefix.
func lastOf(prefix netip.Prefix) netip.Addr {
	b := prefix.Addr().AsSlice()
	for bit := prefix.Bits(); bit < len(b)*8; bit++ {
		b[bit/8] |= 0x80 >> (bit % 8)
	}
	last, _ := netip.AddrFromSlice(b)
	return last
}

// following returns the key after another one, unless that is the last key.
func following(key []byte) (next []byte, more bool) {
	next = slices.Clone(key)
	for i := len(next) - 1; i >= 0; i-- {
		next[i]++
		if next[i] != 0 {
			return next, true
		}
	}
	return nil, false
}
