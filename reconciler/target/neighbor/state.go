package neighbor

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/statehive/statehive/reconciler/target/rtnl"
	"github.com/statehive/statehive/reconciler/target/steps"
)

// compare compares a normalized row with the entry that has its key. The entry is the zero
// value if there is none.
func (n Neighbor) compare(is Seen) []steps.Step {
	if !is.exists() {
		return append(steps.Field("address", "", n.Address.String(), nil), steps.Field("mac", "", n.MAC, nil)...)
	}
	due := append(steps.Field("mac", is.MAC, n.MAC, nil), steps.Field("protocol", is.Protocol, rtnl.Ours, nil)...)
	return append(due, steps.Field("learned", is.Learned, false, nil)...)
}

// check returns an error if others hold the key of a row.
func (n Neighbor) check(is Seen) error {
	if !is.exists() || is.isOurs() || n.Adopt {
		return nil
	}
	return &ForeignError{Key: n.Key(), Holder: is}
}

// checkLink returns an error for a device that cannot have such a neighbor in the kernel.
func (n Neighbor) checkLink(link rtnl.Link) error {
	switch {
	case link.Flags&(unix.IFF_LOOPBACK|unix.IFF_POINTOPOINT) != 0, link.MAC == "":
		return fmt.Errorf("device %s has no neighbors: it is the loopback device, is a point-to-point device or has no link-layer address", n.Device)
	case len(link.MAC) != len(n.MAC):
		return fmt.Errorf("device %s has link-layer addresses such as %s, expected one like that instead of %s", n.Device, link.MAC, n.MAC)
	}
	return nil
}

// ErrForeign is matched by the error for a key whose entry somebody else made.
var ErrForeign = errors.New("somebody else's entry is there")

// ForeignError is the error for a row whose key others hold. It matches ErrForeign.
type ForeignError struct {
	Key    Key
	Holder Seen
}

// Error implements error.
func (e *ForeignError) Error() string {
	state := "permanent"
	if e.Holder.Learned {
		state = "extern_learn"
	}
	return fmt.Sprintf("neighbor %s: %v (%s, mac %s, protocol %s); it is left alone: remove it, or take it over with adopt: true",
		e.Key, ErrForeign, state, e.Holder.MAC, e.Holder.Protocol)
}

// Unwrap returns ErrForeign.
func (e *ForeignError) Unwrap() error { return ErrForeign }
