package mirror

import (
	"syscall"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Subscription hears of changes. Close ends a Receive that waits.
type Subscription interface {
	Receive() ([]syscall.NetlinkMessage, error)
	Close()
}

// Rtnetlink subscribes to groups of rtnetlink in the network namespace of the
// process.
func Rtnetlink(groups ...uint) func() (Subscription, error) {
	return func() (Subscription, error) {
		s, err := nl.Subscribe(unix.NETLINK_ROUTE, groups...)
		if err != nil {
			return nil, err
		}
		return socket{s}, nil
	}
}

type socket struct{ *nl.NetlinkSocket }

func (s socket) Receive() ([]syscall.NetlinkMessage, error) {
	messages, _, err := s.NetlinkSocket.Receive()
	return messages, err
}
