package address

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/statehive/statehive/reconciler"
	"github.com/statehive/statehive/reconciler/target/rtnl"
)

// ErrDuplicate is matched by the error for an address that another host uses.
var ErrDuplicate = errors.New("another host has the address")

// DuplicateError is the error for an address that another host uses. It matches
// ErrDuplicate and [reconciler.ErrApplied].
type DuplicateError struct{ Key Key }

// Error implements error.
func (e *DuplicateError) Error() string {
	return fmt.Sprintf("address %s on %s: %v, as the kernel's detection of duplicates found; it is not in use here: free it there; it is tried again every %v", e.Key.Address, e.Key.Device, ErrDuplicate, duplicateRetry)
}

// Unwrap returns what the error matches.
func (e *DuplicateError) Unwrap() []error { return []error{ErrDuplicate, reconciler.ErrApplied} }

// duplicateRetry is the time after which the kernel is made to look for duplicates of an address again. It does not take longer than
// duplicateSearch.
const (
	duplicateRetry  = 30 * time.Second
	duplicateSearch = 5 * time.Second
)

// duplicates are the addresses for which the kernel looks for duplicates again. It announces them only when it has finished, and until then it
// is not known whether they are in use. The zero value is ready for use.
type duplicates struct {
	mu    sync.Mutex
	since map[SeenKey]time.Time
	// removed are those of ours that the kernel has removed because another host has them, as it does with addresses that have lifetimes.
	removed map[SeenKey]time.Time
	kept    int // of removed, when it last had no outdated ones
}

func (d *duplicates) add(key SeenKey) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.since == nil {
		d.since = map[SeenKey]time.Time{}
	}
	d.since[key] = time.Now()
	delete(d.removed, key)
}

// maxRemovedAge is how long it is known that the kernel has removed an address. It is added again earlier.
const maxRemovedAge = 2 * duplicateRetry

// noteRemoved records that the kernel has removed an address.
func (d *duplicates) noteRemoved(key SeenKey) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.removed == nil {
		d.removed = map[SeenKey]time.Time{}
	}
	if len(d.removed) > 2*d.kept {
		maps.DeleteFunc(d.removed, func(_ SeenKey, at time.Time) bool { return time.Since(at) > maxRemovedAge })
		d.kept = len(d.removed)
	}
	d.removed[key] = time.Now()
}

// isRemoved reports whether the kernel has removed an address, which has not been added since.
func (d *duplicates) isRemoved(key SeenKey) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	at, removed := d.removed[key]
	return removed && time.Since(at) <= maxRemovedAge
}

// noteAdded records that an address was added.
func (d *duplicates) noteAdded(key SeenKey) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.removed, key)
}

// left returns the time until an address is to be looked at again, or 0 if the search should have ended.
func (d *duplicates) left(key SeenKey) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	since, searching := d.since[key]
	if age := time.Since(since); searching && age < duplicateSearch {
		return duplicateRetry - age
	}
	delete(d.since, key)
	return 0
}

// ErrForeign is matched by the error for an address that existed before.
var ErrForeign = errors.New("it was there before")

// ForeignError is the error for a row that differs from an address which existed
// before. It matches ErrForeign.
type ForeignError struct {
	Key    Key
	Change reconciler.Change // change that the row wants
}

// Error implements error.
func (e *ForeignError) Error() string {
	return fmt.Sprintf("address %s on %s: %v, with the %s %s instead of %s; it is left as it is: remove it, or take it over with adopt: true",
		e.Key.Address, e.Key.Device, ErrForeign, e.Change.Field, e.Change.Is, e.Change.Want)
}

// Unwrap returns ErrForeign.
func (e *ForeignError) Unwrap() error { return ErrForeign }

// Protocol marks the addresses that we add, if the kernel supports it (since Linux 5.18).
const Protocol = 79

// attributeProtocol is the kernel's IFA_PROTO.
const attributeProtocol = 11

// keepsProtocol reports whether the kernel keeps the protocol of an address.
func keepsProtocol() bool {
	var name unix.Utsname
	var major, minor int
	if unix.Uname(&name) != nil {
		return false
	}
	n, _ := fmt.Sscanf(unix.ByteSliceToString(name.Release[:]), "%d.%d", &major, &minor)
	return n == 2 && (major > 5 || major == 5 && minor >= 18)
}

// kernelAddress is an address as the kernel describes it.
type kernelAddress struct {
	SeenKey
	flags   uint32
	hasPeer bool
	scope   rtnl.Scope
	left    lifetimes
	ours    bool   // whether it has our mark
	metric  uint32 // of the route to its network
	created uint32 // when it was added, in hundredths of a second since the boot
}

func (a kernelAddress) isDuplicate() bool { return a.flags&unix.IFA_F_DADFAILED != 0 }

// isSecondary reports whether another IPv4 address of the same network of the device came first.
func (a kernelAddress) isSecondary() bool {
	return a.Address.Addr().Is4() && a.flags&unix.IFA_F_SECONDARY != 0
}

// connects reports whether the kernel adds a route to the network of an address along with it if it is not secondary, or would do so if it
// were asked to change an IPv6 address that others have told it not to.
func (a kernelAddress) connects() bool {
	without := uint32(unix.IFA_F_TEMPORARY | unix.IFA_F_DADFAILED)
	if a.Address.Addr().Is4() {
		if a.Address.IsSingleIP() || a.Address.Masked().Addr().As4()[0] == 0 { // to 0.0.0.0/8 the kernel adds no route
			return false
		}
		without = unix.IFA_F_NOPREFIXROUTE // it cannot be changed
	}
	return a.flags&without == 0 && !a.hasPeer
}

// decodeAddress reads a notification or an answer about an address. If the address has a peer,
// which rows cannot have, the host's own address is used.
func decodeAddress(m syscall.NetlinkMessage) (a kernelAddress, ok bool) {
	if len(m.Data) < unix.SizeofIfAddrmsg {
		return a, false
	}
	a.left = lifetimes{valid: Forever, preferred: Forever}
	a.flags, a.scope, a.Index = uint32(m.Data[2]), rtnl.ScopeOf(m.Data[3]), int(rtnl.Uint32(m.Data[4:]))
	var cacheInfo []byte
	var local, address netip.Addr
	for kind, value := range rtnl.Attributes(m.Data[unix.SizeofIfAddrmsg:]) {
		switch kind {
		case unix.IFA_LOCAL:
			local, _ = netip.AddrFromSlice(value)
		case unix.IFA_ADDRESS:
			address, _ = netip.AddrFromSlice(value)
		case unix.IFA_FLAGS:
			a.flags = rtnl.Uint32(value)
		case unix.IFA_CACHEINFO:
			cacheInfo = value
		case attributeMetric:
			a.metric = rtnl.Uint32(value)
		case attributeProtocol:
			a.ours = len(value) > 0 && value[0] == Protocol
		}
	}
	if len(cacheInfo) >= unix.SizeofIfaCacheinfo {
		a.left = decodeLifetimes(cacheInfo, a.flags)
		a.created = rtnl.Uint32(cacheInfo[8:])
	}
	if !local.IsValid() {
		local = address
	}
	a.hasPeer = local != address
	a.Address = netip.PrefixFrom(local, int(m.Data[1]))
	return a, a.Address.IsValid()
}

func familyOf(addr netip.Addr) byte {
	if addr.Is4() {
		return unix.AF_INET
	}
	return unix.AF_INET6
}

// request returns a request about an address of a device.
func (k SeenKey) request(messageType, flags uint16) rtnl.Request {
	r := rtnl.Request{Type: messageType, Flags: flags, Data: make([]byte, unix.SizeofIfAddrmsg, 96)}
	r.Data[0], r.Data[1] = familyOf(k.Address.Addr()), byte(k.Address.Bits())
	r.PutUint32(4, uint32(k.Index))
	r.Add(unix.IFA_LOCAL, k.Address.Addr().AsSlice())
	r.Add(unix.IFA_ADDRESS, k.Address.Addr().AsSlice())
	return r
}

// making returns the request that adds the address of a row, or gives new lifetimes to an
// existing address.
func (s state) making(flags uint16) rtnl.Request {
	r := s.seenKey().request(unix.RTM_NEWADDR, flags)
	r.Data[3] = s.row.Scope.Number(unix.RT_SCOPE_UNIVERSE)
	if address := s.row.Address; address.Addr().Is4() {
		if broadcast, ok := broadcastOf(address); ok {
			r.Add(unix.IFA_BROADCAST, broadcast.AsSlice())
		}
	}
	if info := s.row.lifetimes().cacheInfo(); info != nil {
		r.Add(unix.IFA_CACHEINFO, info)
	}
	if s.metric > 0 {
		r.AddUint32(attributeMetric, s.metric)
	}
	r.Add(attributeProtocol, []byte{Protocol})
	return r
}

// broadcastOf returns the broadcast address of an IPv4 network, if it has one.
func broadcastOf(address netip.Prefix) (netip.Addr, bool) {
	if address.Bits() > 30 {
		return netip.Addr{}, false
	}
	b := address.Addr().As4()
	for bit := address.Bits(); bit < 32; bit++ {
		b[bit/8] |= 0x80 >> (bit % 8)
	}
	return netip.AddrFrom4(b), true
}

// list returns the addresses of a family, or of all families if it is 0.
func (t *Target) list(ctx context.Context, family byte) ([]kernelAddress, error) {
	request := rtnl.Request{Type: unix.RTM_GETADDR, Data: make([]byte, unix.SizeofIfAddrmsg)}
	request.Data[0] = family
	addresses, err := rtnl.Dump(ctx, t.conn, request, decodeAddress)
	if err != nil {
		return nil, fmt.Errorf("list addresses: %w", err)
	}
	return addresses, nil
}
