package address

import (
	"fmt"
	"math"
	"time"

	"golang.org/x/sys/unix"

	"github.com/statehive/statehive/reconciler/target/rtnl"
)

// Lifetime is how long an address is valid or preferred, in whole seconds. The zero value
// means that none is given. Its text is a duration, as "1h30m0s", or "forever".
type Lifetime struct {
	seconds uint32
	given   bool
}

// endless is the kernel's value for forever.
const endless = math.MaxUint32

// Forever is the lifetime that does not expire.
var Forever = Lifetime{endless, true}

// LifetimeOf returns a lifetime of a number of seconds.
func LifetimeOf(seconds uint32) Lifetime { return Lifetime{seconds, true} }

// IsZero reports whether no lifetime is given.
func (l Lifetime) IsZero() bool { return !l.given }

// or returns l, or another lifetime if l is not given.
func (l Lifetime) or(other Lifetime) Lifetime {
	if l.given {
		return l
	}
	return other
}

// String returns the text form; it is empty if no lifetime is given.
func (l Lifetime) String() string {
	switch {
	case !l.given:
		return ""
	case l == Forever:
		return "forever"
	}
	return l.duration().String()
}

func (l Lifetime) duration() time.Duration { return time.Duration(l.seconds) * time.Second }

// MarshalText implements encoding.TextMarshaler.
func (l Lifetime) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (l *Lifetime) UnmarshalText(text []byte) error {
	switch string(text) {
	case "":
		*l = Lifetime{}
		return nil
	case "forever":
		*l = Forever
		return nil
	}
	d, err := time.ParseDuration(string(text))
	if err != nil || d < 0 || d%time.Second != 0 || d/time.Second >= endless {
		return fmt.Errorf("%q is not a lifetime, expected forever or a duration in whole seconds, as 3600s or 1h30m", text)
	}
	*l = LifetimeOf(uint32(d / time.Second))
	return nil
}

// tolerance is the number of seconds by which equal lifetimes may differ: the kernel reports
// the time left in whole seconds.
const tolerance = 2

// agrees reports whether a lifetime that the kernel was given is the declared one.
func (l Lifetime) agrees(is Lifetime) bool {
	if l == is || l == Forever || is == Forever || l.seconds == 0 || is.seconds == 0 {
		return l == is
	}
	return max(l.seconds, is.seconds)-min(l.seconds, is.seconds) <= tolerance
}

// lifetimes are the lifetimes of an address as last given to the kernel, with the time when.
// Deprecated addresses have no preferred lifetime left.
type lifetimes struct {
	valid, preferred Lifetime
	set              uint32 // hundredths of a second since the boot; wraps around
}

// sinceBoot returns the current time in the form of the kernel's time stamps of addresses.
func sinceBoot() uint32 {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) // it cannot fail
	return uint32(now.Nano() / int64(10*time.Millisecond))
}

// age returns how long lifetimes have been counting down.
func (l lifetimes) age() time.Duration {
	elapsed := int32(sinceBoot() - l.set) // negative if the kernel's clock is slightly ahead
	return time.Duration(max(elapsed, 0)) * 10 * time.Millisecond
}

// left returns how long the address is still valid.
func (l lifetimes) left() time.Duration {
	if l.valid == Forever {
		return math.MaxInt64
	}
	return l.valid.duration() - l.age()
}

// decodeLifetimes computes the lifetimes of an address from the kernel's cache info and flags.
func decodeLifetimes(cacheInfo []byte, flags uint32) lifetimes {
	preferred, valid := rtnl.Uint32(cacheInfo), rtnl.Uint32(cacheInfo[min(4, len(cacheInfo)):])
	l := lifetimes{valid: Forever, preferred: Forever, set: rtnl.Uint32(cacheInfo[min(12, len(cacheInfo)):])}
	elapsed := uint32(l.age() / time.Second)
	if valid != endless {
		l.valid = LifetimeOf(valid + elapsed)
	}
	switch {
	case flags&unix.IFA_F_DEPRECATED != 0:
		l.preferred = LifetimeOf(0)
	case preferred != endless:
		l.preferred = LifetimeOf(preferred + elapsed)
	}
	if l.endless() {
		l.set = 0
	}
	return l
}

func (l lifetimes) endless() bool { return l.valid == Forever && l.preferred == Forever }

// cacheInfo returns the attribute with the lifetimes, or nil if they do not expire.
func (l lifetimes) cacheInfo() []byte {
	if l.endless() {
		return nil
	}
	r := rtnl.Request{Data: make([]byte, unix.SizeofIfaCacheinfo)}
	r.PutUint32(0, l.preferred.seconds)
	r.PutUint32(4, l.valid.seconds)
	return r.Data
}

// shortest returns the lifetime that expires first, and false if none expires.
func (l lifetimes) shortest() (time.Duration, bool) {
	shortest := l.valid
	if l.preferred.seconds > 0 {
		shortest.seconds = min(shortest.seconds, l.preferred.seconds)
	}
	return shortest.duration(), shortest != Forever
}

// due returns the time until lifetimes have to be renewed, which is when half of the shortest
// one has passed. It returns 0 if that time has come, and false if none expires.
func (l lifetimes) due() (after time.Duration, ends bool) {
	const resolution = 20 * time.Millisecond // of the kernel's clock and ours
	shortest, ends := l.shortest()
	if after = shortest/2 - l.age(); after < resolution {
		after = 0
	}
	return after, ends
}
