package rule

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/statehive/statehive/reconciler/target/route"
)

// Key identifies a rule. Its text is "inet 100".
type Key struct {
	Family   route.Family
	Priority uint32
}

// String returns the text form.
func (k Key) String() string { return fmt.Sprintf("%s %d", k.Family, k.Priority) }

// MarshalText implements encoding.TextMarshaler.
func (k Key) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (k *Key) UnmarshalText(text []byte) error {
	family, number, _ := strings.Cut(string(text), " ")
	priority, err := strconv.ParseUint(number, 10, 32)
	if err != nil || checkFamily(route.Family(family)) != nil {
		return fmt.Errorf("%q is not the key of a rule, expected family and priority, as \"inet 100\"", text)
	}
	*k = Key{route.Family(family), uint32(priority)}
	return nil
}

// Mark matches packets by their firewall mark: in the bits of Mask the packet's mark must
// equal Value. The zero value matches all packets. Its text is as in "0x10" (all bits count)
// or "0x10/0xff".
type Mark struct{ Value, Mask uint32 }

// ParseMark parses a number, or a number and a mask separated by a slash. Numbers are
// decimal, or hexadecimal with the prefix 0x.
func ParseMark(text string) (Mark, error) {
	number, mask, hasMask := strings.Cut(text, "/")
	if !hasMask {
		mask = strconv.FormatUint(math.MaxUint32, 10)
	}
	value, valueErr := parseNumber(number)
	bits, maskErr := parseNumber(mask)
	if err := cmp.Or(valueErr, maskErr); err != nil {
		return Mark{}, fmt.Errorf("%q is not a mark: %w, expected a number or number/mask, as 16, 0x10 or 0x10/0xff", text, err)
	}
	if bits == 0 {
		return Mark{}, errNoMask(text)
	}
	return Mark{value, bits}, nil
}

func errNoMask(text string) error {
	return fmt.Errorf("%s has a mask without bits, expected one with those that count", text)
}

func parseNumber(text string) (uint32, error) {
	digits, base := text, 10
	if hex, ok := strings.CutPrefix(text, "0x"); ok {
		digits, base = hex, 16
	}
	number, err := strconv.ParseUint(digits, base, 32)
	if err != nil || base == 10 && len(text) > 1 && text[0] == '0' {
		return 0, fmt.Errorf("%q is not a number of 32 bits, decimal or hexadecimal", text)
	}
	return uint32(number), nil
}

func (m Mark) check() error {
	switch {
	case m == Mark{}:
		return nil
	case m.Mask == 0:
		return errNoMask(fmt.Sprintf("%#x/0", m.Value))
	case m.Value&^m.Mask != 0:
		return fmt.Errorf("%s has bits that are not in its mask, expected %s", m, Mark{m.Value & m.Mask, m.Mask})
	}
	return nil
}

// String returns the text form, which is empty for the zero value.
func (m Mark) String() string {
	switch {
	case m == Mark{}:
		return ""
	case m.Mask == math.MaxUint32:
		return fmt.Sprintf("%#x", m.Value)
	}
	return fmt.Sprintf("%#x/%#x", m.Value, m.Mask)
}

// MarshalText implements encoding.TextMarshaler.
func (m Mark) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler. See [ParseMark]. An empty text is the
// zero value.
func (m *Mark) UnmarshalText(text []byte) (err error) {
	if len(text) == 0 {
		*m = Mark{}
		return nil
	}
	*m, err = ParseMark(string(text))
	return err
}
