package route

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Type is the type of a route: what happens to packets. The zero value is Unicast.
type Type uint8

// The types of routes that rows can have.
const (
	Unicast     Type = iota // they are sent to the gateway, or out of the device
	Blackhole               // they are dropped
	Unreachable             // they are refused: host unreachable
	Prohibit                // they are refused: administratively prohibited
)

// types maps the kernel's numbers to types.
var types = map[byte]Type{
	unix.RTN_UNICAST: Unicast, unix.RTN_BLACKHOLE: Blackhole, unix.RTN_UNREACHABLE: Unreachable, unix.RTN_PROHIBIT: Prohibit,
}

var typeNames = [...]string{Unicast: "unicast", Blackhole: "blackhole", Unreachable: "unreachable", Prohibit: "prohibit"}

// number returns the kernel's number.
func (t Type) number() byte {
	return [...]byte{Unicast: unix.RTN_UNICAST, Blackhole: unix.RTN_BLACKHOLE, Unreachable: unix.RTN_UNREACHABLE, Prohibit: unix.RTN_PROHIBIT}[t]
}

func (t Type) check() error {
	if int(t) >= len(typeNames) {
		return fmt.Errorf("%s is unknown, expected unicast, blackhole, unreachable or prohibit", t)
	}
	return nil
}

// String returns the name, as in ip(8).
func (t Type) String() string {
	if int(t) >= len(typeNames) {
		return fmt.Sprintf("type %d", t)
	}
	return typeNames[t]
}

// Texts returns the names of all types.
func (Type) Texts() []string { return typeNames[:] }

// MarshalText implements encoding.TextMarshaler.
func (t Type) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (t *Type) UnmarshalText(text []byte) error {
	for known, name := range typeNames {
		if name == string(text) {
			*t = Type(known)
			return nil
		}
	}
	return fmt.Errorf("%q is not a type of route, expected unicast, blackhole, unreachable or prohibit", text)
}
