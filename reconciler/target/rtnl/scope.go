package rtnl

import (
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"
)

// Scope is how far an address is valid, or how far away the destination of a route may be.
// The zero value means that none is given. Its text is global, link, host, or a number from 0 to 255.
type Scope struct {
	number uint8
	given  bool
}

// The scopes that have names.
var (
	GlobalScope = ScopeOf(unix.RT_SCOPE_UNIVERSE)
	LinkScope   = ScopeOf(unix.RT_SCOPE_LINK)
	HostScope   = ScopeOf(unix.RT_SCOPE_HOST)
)

// ScopeOf returns the scope with the kernel's number.
func ScopeOf(number uint8) Scope { return Scope{number, true} }

// IsZero reports whether no scope is given.
func (s Scope) IsZero() bool { return !s.given }

// Number returns the kernel's number, or that of another scope if none is given.
func (s Scope) Number(otherwise uint8) uint8 {
	if !s.given {
		return otherwise
	}
	return s.number
}

var scopeNames = map[Scope]string{GlobalScope: "global", LinkScope: "link", HostScope: "host"}

// String returns the text form; it is empty if no scope is given.
func (s Scope) String() string {
	if name, ok := scopeNames[s]; ok || !s.given {
		return name
	}
	return strconv.Itoa(int(s.number))
}

// MarshalText implements encoding.TextMarshaler.
func (s Scope) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler. It takes names and numbers.
func (s *Scope) UnmarshalText(text []byte) error {
	for scope, name := range scopeNames {
		if name == string(text) {
			*s = scope
			return nil
		}
	}
	number, err := strconv.ParseUint(string(text), 10, 8)
	switch {
	case len(text) == 0:
		*s = Scope{}
	case err != nil:
		return fmt.Errorf("%q is not a scope, expected global, link, host or a number from 0 to 255", text)
	default:
		*s = ScopeOf(uint8(number))
	}
	return nil
}
