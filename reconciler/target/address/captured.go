package address

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/statehive/statehive/reconciler/target/rtnl"
)

// elsewhere returns an error if the kernel sends packets for the networks of some addresses to other devices, by other routes to just
// these networks, which come before the kernel's own. It is no error that another device has an address of the network. Ports are not
// looked at.
func (w *RouteWatcher) elsewhere(ctx context.Context, all []Seen) error {
	var found []foreignRoute
	for _, s := range all {
		r, err := w.target.foreignRoute(ctx, s.Address.Masked())
		if err != nil {
			return fmt.Errorf("find the route to %s: %w", s.Address.Masked(), err)
		}
		if r.index != 0 && r.index != s.Index {
			found = append(found, foreignRoute{r, s})
		}
	}
	if len(found) == 0 {
		return nil
	}
	var links rtnl.Devices
	if err := links.List(ctx, w.target.conn); err != nil {
		return err
	}
	found = slices.DeleteFunc(found, func(f foreignRoute) bool {
		link, known := links.Of(f.address.Index)
		return !known || !link.Running || link.Master != 0 // the route of a port may be in the table of its VRF
	})
	if len(found) == 0 {
		return nil
	}
	to, _ := links.Of(found[0].to.index)
	others := ""
	if len(found) > 1 {
		others = fmt.Sprintf(", and %d others", len(found)-1)
	}
	return fmt.Errorf("%s of %s: another route leads to %s%s", found[0].address.Address.Masked(), found[0].address.Device, to.Name, others)
}

// foreignRoute is a route of others to the network of an address.
type foreignRoute struct {
	to      connected
	address Seen
}

// foreignRoute returns the route in the main table that the kernel uses for packets to a network, if it leads to just this network and
// others have made it.
func (t *Target) foreignRoute(ctx context.Context, network netip.Prefix) (to connected, err error) {
	const tries = 10 // of several hosts of a network, few are this machine
	host := network.Addr().Next()
	for range tries {
		if !network.Contains(host) {
			break
		}
		local := false
		err = t.conn.Get(ctx, routeTo(host), func(m syscall.NetlinkMessage) {
			is, _, ok := decodeRoute(m)
			local = ok && m.Data[7] != unix.RTN_UNICAST
			if ok && !local && is.prefix == network && m.Data[4] == unix.RT_TABLE_MAIN && m.Data[5] != unix.RTPROT_KERNEL {
				to = is
			}
		})
		if !local || err != nil {
			break
		}
		host = host.Next()
	}
	if slices.ContainsFunc([]error{syscall.ENETUNREACH, syscall.EHOSTUNREACH, syscall.EACCES, syscall.EINVAL}, func(no error) bool { return errors.Is(err, no) }) {
		return connected{}, nil // nothing leads there, or a route that drops packets
	}
	return to, err
}

// routeTo returns a request for the route that the kernel uses for packets to an address.
func routeTo(host netip.Addr) rtnl.Request {
	r := rtnl.Request{Type: unix.RTM_GETROUTE, Data: make([]byte, unix.SizeofRtMsg)}
	family, flags := byte(unix.AF_INET), uint32(unix.RTM_F_FIB_MATCH|unix.RTM_F_LOOKUP_TABLE)
	if host.Is6() { // it names the table anyway
		family, flags = unix.AF_INET6, unix.RTM_F_FIB_MATCH
	}
	r.Data[0], r.Data[1] = family, byte(host.BitLen())
	r.PutUint32(8, flags)
	r.Add(unix.RTA_DST, host.AsSlice())
	return r
}
