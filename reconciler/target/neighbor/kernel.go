package neighbor

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/statehive/statehive/reconciler/target/rtnl"
)

// ndaProtocol is the attribute NDA_PROTOCOL.
const ndaProtocol = 12

// kernelNeighbor is an entry as the kernel describes it.
type kernelNeighbor struct {
	Seen
	state uint16 // such as unix.NUD_PERMANENT
}

// made reports whether somebody has made the entry, as opposed to the kernel learning it.
func (n kernelNeighbor) made() bool { return n.state&unix.NUD_PERMANENT != 0 || n.Learned }

// decodeNeighbor reads a notification or an answer about a neighbor. It returns false
// for other entries: those of a bridge's forwarding database, and proxy entries.
func decodeNeighbor(m syscall.NetlinkMessage) (n kernelNeighbor, ok bool) {
	if len(m.Data) < unix.SizeofNdMsg || m.Data[0] != unix.AF_INET && m.Data[0] != unix.AF_INET6 || m.Data[10]&unix.NTF_PROXY != 0 {
		return n, false
	}
	n.Index = int(rtnl.Uint32(m.Data[4:]))
	n.state = binary.NativeEndian.Uint16(m.Data[8:])
	n.Learned = m.Data[10]&unix.NTF_EXT_LEARNED != 0
	for kind, value := range rtnl.Attributes(m.Data[unix.SizeofNdMsg:]) {
		switch kind {
		case unix.NDA_DST:
			n.Address, _ = netip.AddrFromSlice(value)
		case unix.NDA_LLADDR:
			n.MAC = net.HardwareAddr(value).String()
		case ndaProtocol:
			if len(value) > 0 {
				n.Protocol = rtnl.Protocol(value[0])
			}
		}
	}
	return n, n.Address.IsValid()
}

// request returns a request about the neighbor with a key.
func (k SeenKey) request(messageType, flags uint16) rtnl.Request {
	r := rtnl.Request{Type: messageType, Flags: flags, Data: make([]byte, unix.SizeofNdMsg, 64)}
	r.Data[0] = unix.AF_INET
	if k.Address.Is6() {
		r.Data[0] = unix.AF_INET6
	}
	r.PutUint32(4, uint32(k.Index))
	r.Add(unix.NDA_DST, k.Address.AsSlice())
	return r
}

// addition returns the request that adds an entry of ours in a state such as
// unix.NUD_PERMANENT.
func (k SeenKey) addition(flags, state uint16, mac string) rtnl.Request {
	r := k.request(unix.RTM_NEWNEIGH, flags|unix.NLM_F_CREATE)
	binary.NativeEndian.PutUint16(r.Data[8:], state)
	hardware, _ := net.ParseMAC(mac) // it is normalized
	r.Add(unix.NDA_LLADDR, hardware)
	r.Add(ndaProtocol, []byte{byte(rtnl.Ours)})
	return r
}

// list returns the entries that somebody has made.
func (t *Target) list(ctx context.Context) ([]Seen, error) {
	request := rtnl.Request{Type: unix.RTM_GETNEIGH, Data: make([]byte, unix.SizeofNdMsg)}
	entries, err := rtnl.Dump(ctx, t.conn, request, func(m syscall.NetlinkMessage) (Seen, bool) {
		n, ok := decodeNeighbor(m)
		return n.Seen, ok && n.made()
	})
	if err != nil {
		return nil, fmt.Errorf("list neighbors: %w", err)
	}
	return entries, nil
}

// lookUp asks the kernel for the entry with a key. It returns the zero value if nobody has
// made one.
func (t *Target) lookUp(ctx context.Context, key SeenKey) (s Seen, err error) {
	err = t.conn.Get(ctx, key.request(unix.RTM_GETNEIGH, 0), func(m syscall.NetlinkMessage) {
		if n, ok := decodeNeighbor(m); ok && n.made() {
			s = n.Seen
		}
	})
	if errors.Is(err, syscall.ENOENT) {
		err = nil
	}
	return s, err
}
