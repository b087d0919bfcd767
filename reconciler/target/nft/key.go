package nft

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"golang.org/x/sys/unix"
)

// Family is the address family of a table, named as in nft(8).
type Family string

// The families of tables that rows can have.
const (
	Inet Family = "inet" // IPv4 and IPv6
	IP   Family = "ip"
	IP6  Family = "ip6"
)

// numbers are the kernel's numbers of families. Rows can have the first three.
var numbers = map[Family]byte{
	Inet: unix.NFPROTO_INET, IP: unix.NFPROTO_IPV4, IP6: unix.NFPROTO_IPV6,
	"arp": unix.NFPROTO_ARP, "bridge": unix.NFPROTO_BRIDGE, "netdev": unix.NFPROTO_NETDEV,
}

func (f Family) number() byte { return numbers[f] }

func familyOf(number byte) Family {
	for family, n := range numbers {
		if n == number {
			return family
		}
	}
	return Family(fmt.Sprintf("family%d", number))
}

func (f Family) check() error {
	switch f {
	case Inet, IP, IP6:
		return nil
	case "":
		return fmt.Errorf("it is missing, expected %s, %s or %s", Inet, IP, IP6)
	case "arp", "bridge", "netdev":
		return fmt.Errorf("%q is not supported, expected %s, %s or %s", f, Inet, IP, IP6)
	}
	return fmt.Errorf("%q is unknown, expected %s, %s or %s", f, Inet, IP, IP6)
}

// Key identifies a table. Its text is as in "inet filter".
type Key struct {
	Family Family
	Name   string
}

// String returns the text form.
func (k Key) String() string { return string(k.Family) + " " + k.Name }

// MarshalText implements encoding.TextMarshaler.
func (k Key) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler. A name alone stands for a table of the
// family inet.
func (k *Key) UnmarshalText(text []byte) error {
	words := strings.Fields(string(text))
	if len(words) == 1 {
		words = []string{string(Inet), words[0]}
	}
	if len(words) != 2 {
		return fmt.Errorf("%q is not the key of a table, expected a family and a name, as %s filter", text, Inet)
	}
	parsed := Key{Family(words[0]), words[1]}
	if err := errors.Join(parsed.Family.check(), checkName(parsed.Name)); err != nil {
		return fmt.Errorf("%q is not the key of a table: %w", text, err)
	}
	*k = parsed
	return nil
}

// maxName is the kernel's maximum length of a name without its final zero byte.
const maxName = 255

var name = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9/_.-]*$`)

// checkName applies the rules of nft(8) for the names of tables, chains and sets.
func checkName(text string) error {
	switch {
	case text == "":
		return errors.New("it is missing, expected a name")
	case len(text) > maxName:
		return fmt.Errorf("the name has %d bytes, expected at most %d", len(text), maxName)
	case !name.MatchString(text):
		return fmt.Errorf("%q is no name, expected a letter and then letters, digits, dashes, underscores, dots and slashes", text)
	}
	return nil
}
