package address

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"syscall"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// sparing removes the address of a record so that the others of its network
// stay, and the routes with them: with the first IPv4 address of a network the
// kernel removes all others, and with the last one of a device all its routes,
// unless it is told to promote an address. It is told so for a moment; where
// that cannot be, bringBack has to do.
func (t *Target) sparing(rec record, before []netlink.Addr, remove func() error) error {
	link, err := t.conn.LinkByIndex(rec.Index)
	if err != nil || !takesOthersAlong(rec.Key.Address, before) {
		return remove()
	}
	promote := "/proc/sys/net/ipv4/conf/" + link.Attrs().Name + "/promote_secondaries"
	was, err := os.ReadFile(promote)
	if err != nil || strings.TrimSpace(string(was)) != "0" || os.WriteFile(promote, []byte("1"), 0) != nil {
		return remove()
	}
	return errors.Join(remove(), os.WriteFile(promote, was, 0))
}

// takesOthersAlong says whether an address is the first one of several.
func takesOthersAlong(address netip.Prefix, all []netlink.Addr) bool {
	others := false
	for _, addr := range all {
		secondary := address.Addr().Is4() && addr.Flags&unix.IFA_F_SECONDARY != 0
		if prefixOf(addr) == address && secondary {
			return false
		}
		others = others || secondary && prefixOf(addr).Masked() == address.Masked()
	}
	return others
}

// bringBack adds the addresses again that the kernel removed together with one of
// ours, whoever made them.
func (t *Target) bringBack(rec record, before []netlink.Addr) error {
	if !rec.Key.Address.Addr().Is4() || len(before) < 2 {
		return nil
	}
	after, err := t.all()
	if err != nil {
		return err
	}
	for _, addr := range before {
		address := prefixOf(addr)
		if address == rec.Key.Address || after[place{rec.Index, address}] {
			continue
		}
		addr.Flags &^= unix.IFA_F_SECONDARY | unix.IFA_F_PERMANENT // the kernel's own
		err := t.conn.Do(func(handle *netlink.Handle) error { return handle.AddrAdd(device(rec.Index), &addr) }, syscall.EEXIST)
		if err != nil && !errors.Is(err, syscall.EEXIST) {
			return fmt.Errorf("add address %s to %s again, which went with %s: %w", address, rec.Key.Device, rec.Key.Address, err)
		}
	}
	return nil
}
